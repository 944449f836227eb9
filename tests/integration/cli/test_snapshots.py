"""Snapshots of real nodes, for the live view."""

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.local.demo_data import insert_expired_groups
from muster.node_client import NodeClient
from muster.snapshots import SnapshotReader
from tests.support.http_client import Client, Group, fresh_id, position
from tests.support.muster_command import PATIENT, commit
from tests.support.nodes import Node
from tests.support.waiting import poll_until


def test_a_group_has_members_lag_and_the_client_of_its_last_rebalance(node: Node, group: Group) -> None:
    member = group.stable(client_id="first", **PATIENT)
    assert member.commit(position(10, log_end_offset=15)).status < 300
    reader = SnapshotReader([NodeClient(node.url)], [group.group_id])
    # The table of offsets follows with the next checkpoint.
    poll_until(lambda: reader.read().groups[0].summary["lag"] == 5)
    (watched,) = reader.last.groups
    assert (watched.state, watched.generation) == ("Stable", 1)
    assert [each["client_id"] for each in watched.members] == ["first"]
    assert watched.summary["last_rebalance_trigger"] == "member_joined"
    assert watched.triggered_by == "first"


@pytest.mark.parametrize("page", ["node_client.PAGE", "snapshots.LISTED_MAX"])
def test_named_group_is_found_among_groups_that_contain_its_name(
    node: Node, client: Client, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"muster.{page}", 1)
    named = fresh_id("named")
    for group_id in (named, f"a-{named}", f"{named}-b"):
        commit(client.group(group_id), position(1, log_end_offset=3))
    (watched,) = SnapshotReader([NodeClient(node.url)], [named]).read().groups
    assert watched.summary["group_id"] == named
    assert watched.summary["state_since"] is not None


def test_demo_history_is_inserted_once_and_listed(node: Node, rows: PsycopgConnection) -> None:
    assert node.settings.database_url is not None
    url = node.settings.database_url.get_secret_value()
    assert insert_expired_groups(url, shard_count=50) == 15
    assert insert_expired_groups(url, shard_count=50) == 15
    with rows.cursor() as cursor:
        cursor.execute("SELECT sum(committed_offset) FROM offsets WHERE group_id = 'nightly-export'")
        assert cursor.fetchone() == (1_000 + 1_010 + 1_020,)
    snapshot = SnapshotReader([NodeClient(node.url)], with_runs=True).read()
    past = {group.group_id: group.state for group in snapshot.groups}
    assert {"nightly-export", "orders-replay", "orders-v1"} <= past.keys()
    assert past["nightly-export"] == "Empty"
    assert list(snapshot.runs) == []
