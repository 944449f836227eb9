"""Log end offsets are shared by all groups, have an age, and are raised for other groups by trusted reporters only."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.settings import psql_url
from tests.integration.http.openapi import answer_fits
from tests.support.databases import Databases
from tests.support.http_client import Answer, Client, Group, fresh_id, position
from tests.support.known_log_ends import age, end_is, run_sql
from tests.support.nodes import Node, running_node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.waiting import poll_until

Json = Any
SIMPLE_CONSUMER: Final = {"generation": -1, "member_id": ""}
LARGEST: Final = 2**63 - 1
STALE_S: Final = 3_000
"""Longer than the age limit of log end offsets."""


@pytest.fixture
def other(client: Client) -> Group:
    """Give a second group."""
    return client.group(fresh_id())


def commit(group: Group, topic: str, offset: int, end: int | None, headers: dict[str, str] | None = None) -> None:
    body = {**SIMPLE_CONSUMER, "offsets": [position(offset, topic=topic, log_end_offset=end)]}
    answer = group.client.call("POST", f"{group.path}/offsets", body, headers)
    assert answer.json["offsets"][0]["code"] == "NONE", answer


def lag_of(group: Group) -> Json:
    return group.client.ok("GET", f"{group.path}/lag")


def scraped(client: Client, name: str, group_id: str, detail: str = "partition") -> list[float]:
    """Return the values of a metric's samples of one group."""
    text = client.send("GET", f"/metrics?detail={detail}").body.decode()
    found = [line for line in text.splitlines() if line.startswith(f"{name}{{") and f'"{group_id}"' in line]
    return [float(line.rpartition(" ")[2]) for line in found]


def shows(client: Client, group: Group, name: str, value: object) -> bool:
    return scraped(client, name, group.group_id) == [value]


def glance(group: Group) -> Json:
    (found,) = group.client.ok("GET", f"/v1/overview/groups?q={group.group_id}")["groups"]
    return found


def reset(group: Group, topic: str, *, dry_run: bool, headers: dict[str, str] | None = None) -> Json:
    body = {"to": "latest", "topics": [{"topic": topic}], "dry_run": dry_run, "reason": "a test"}
    return group.client.call("POST", f"{group.path}/offsets/reset", body, headers).json


# -- a stuck group, and one that keeps reading -----------------------------------------------------------------


@pytest.fixture
def stuck(group: Group, other: Group, topic: str, rows: PsycopgConnection) -> Group:
    """Return a group that caught up 250 s ago and has committed nothing since, while another one read to 160."""
    commit(group, topic, 100, 100)
    commit(other, topic, 100, 100)
    end_is(rows, topic, 100)
    age(rows, topic, 250)
    commit(other, topic, 150, 160)
    end_is(rows, topic, 160)
    return group


def test_the_lag_of_a_stuck_group_grows_in_records_and_in_seconds(stuck: Group) -> None:
    reported = lag_of(stuck)
    (partition,) = reported["partitions"]

    assert (reported["lag"], partition["lag"], partition["log_end_offset"]) == (60, 60, 160)
    assert 240 <= reported["lag_seconds"] <= 300
    assert not reported["is_log_end_stale"]


def test_every_view_reports_the_same_lag_of_a_stuck_group(
    client: Client, stuck: Group, topic: str, rows: PsycopgConnection
) -> None:
    of_group = (stuck.group_id,)
    seconds = lag_of(stuck)["lag_seconds"]

    assert (glance(stuck)["lag"], glance(stuck)["is_lag_lower_bound"]) == (60, False)
    assert run_sql(rows, "SELECT lag_records FROM dashboards.group_overview WHERE group_id = %s", *of_group) == [(60,)]
    in_sql = "SELECT lag_records, lag_seconds, is_log_end_stale FROM dashboards.partition_lag WHERE group_id = %s"
    ((records, behind_s, is_stale),) = run_sql(rows, in_sql, *of_group)
    assert (records, behind_s, is_stale) == (60, pytest.approx(seconds, abs=10), False)
    history = "SELECT lag_records FROM dashboards.lag_history WHERE group_id = %s ORDER BY at DESC LIMIT 1"
    assert run_sql(rows, history, *of_group) == [(60,)]
    points = client.ok("GET", f"{stuck.path}/lag/history")["points"]
    assert (points[-1]["lag"], points[-1]["lag_seconds"]) == (60, pytest.approx(seconds, abs=10))
    assert 0 < points[-3]["lag"] < 60
    for name, value in (
        ("kafka_consumergroup_lag", 60),
        ("kafka_consumergroup_lag_sum", 60),
        ("kafka_consumergroup_lag_seconds", pytest.approx(seconds, abs=10)),
    ):
        poll_until(partial(shows, client, stuck, name, value))
    preview = reset(stuck, topic, dry_run=True)["offsets"]
    assert [(each["new_offset"], each["note"]) for each in preview] == [(160, None)]


def test_lag_of_an_empty_group_grows(client: Client, group: Group, other: Group, rows: PsycopgConnection) -> None:
    member = group.stable()
    topic = fresh_id("topic")
    member.commit(position(7, topic=topic, log_end_offset=7))
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    assert group.describe()["state"] == "Empty"
    commit(other, topic, 9, 108_682)
    end_is(rows, topic, 108_682)

    assert (lag_of(group)["lag"], glance(group)["lag"]) == (108_675, 108_675)
    poll_until(lambda: scraped(client, "kafka_consumergroup_lag_sum", group.group_id, "topic") == [108_675])


def test_lower_report_changes_neither_log_end_nor_its_age(
    group: Group, other: Group, topic: str, rows: PsycopgConnection
) -> None:
    commit(group, topic, 100, 100)
    end_is(rows, topic, 100)
    age(rows, topic, STALE_S)
    commit(other, topic, 90, 95)
    commit(other, f"{topic}-after", 1, 1)
    end_is(rows, f"{topic}-after", 1)

    assert lag_of(group)["is_log_end_stale"]


# -- stale log ends --------------------------------------------------------------------------------------------


def test_lag_of_0_from_a_stale_log_end_is_unknown(
    client: Client, group: Group, topic: str, rows: PsycopgConnection
) -> None:
    commit(group, topic, 100, 100)
    end_is(rows, topic, 100)
    age(rows, topic, STALE_S)

    reported = lag_of(group)
    (partition,) = reported["partitions"]
    for each in (reported, partition):
        assert (each["lag"], each["lag_seconds"], each["is_lag_lower_bound"], each["is_log_end_stale"]) == (
            None,
            None,
            True,
            True,
        )
        assert each["log_end_at"] == partition["committed_at"]
    assert (glance(group)["lag"], glance(group)["is_lag_lower_bound"]) == (None, True)
    in_sql = (
        "SELECT lag_records, is_lag_lower_bound FROM dashboards.group_overview WHERE group_id = %s"
        " UNION ALL SELECT lag_records, is_lag_lower_bound FROM dashboards.partition_lag WHERE group_id = %s"
    )
    assert run_sql(rows, in_sql, group.group_id, group.group_id) == [(None, True)] * 2
    assert client.ok("GET", f"{group.path}/lag/history")["points"][-1]["lag"] is None
    timestamp = "muster_consumergroup_log_end_timestamp_seconds"
    poll_until(lambda: scraped(client, timestamp, group.group_id) != [])
    for name in ("kafka_consumergroup_lag", "kafka_consumergroup_lag_sum", "kafka_consumergroup_lag_seconds"):
        assert scraped(client, name, group.group_id) == []
    for detail in ("topic", "partition"):
        (at_s,) = scraped(client, timestamp, group.group_id, detail)
        assert at_s == pytest.approx(run_sql(rows, "SELECT extract(epoch FROM now())::float8")[0][0] - STALE_S, abs=120)


def test_lag_from_a_stale_log_end_is_a_lower_bound(
    client: Client, group: Group, topic: str, rows: PsycopgConnection
) -> None:
    commit(group, topic, 60, 100)
    end_is(rows, topic, 100)
    age(rows, topic, STALE_S)

    reported = lag_of(group)
    assert (reported["lag"], reported["is_log_end_stale"], reported["is_lag_lower_bound"]) == (40, True, True)
    assert (glance(group)["lag"], glance(group)["is_lag_lower_bound"]) == (40, True)
    poll_until(lambda: scraped(client, "kafka_consumergroup_lag", group.group_id) == [40])
    ((note, new_offset),) = [
        (each["note"], each["new_offset"]) for each in reset(group, topic, dry_run=True)["offsets"]
    ]
    assert new_offset == 100
    assert "last reported 50 minutes ago" in note


# -- undo --------------------------------------------------------------------------------------------------------


def test_an_undo_keeps_the_age_of_the_log_end(
    client: Client, group: Group, topic: str, rows: PsycopgConnection
) -> None:
    commit(group, topic, 60, 100)
    end_is(rows, topic, 100)
    age(rows, topic, STALE_S)
    run_sql(rows, "DELETE FROM log_end_offsets WHERE topic = %s", topic)
    before = lag_of(group)["partitions"][0]["log_end_at"]
    deleted = client.call("DELETE", f"{group.path}/offsets?topic={topic}&reason=a+test")
    assert lag_of(group)["partitions"] == []

    for _ in range(2):
        undo = client.call("POST", f"/v1/changes/{deleted.headers['x-muster-change-id']}/undo", {"reason": "back"})
        assert undo.status < 300, undo
        (partition,) = lag_of(group)["partitions"]
        assert (partition["log_end_offset"], partition["log_end_at"], partition["lag"]) == (100, before, 40)
        assert partition["is_log_end_stale"]
        assert partition["committed_at"] != before
        deleted = client.call("DELETE", f"{group.path}/offsets?topic={topic}&reason=once+more")


def test_a_reset_keeps_the_age_of_the_log_end_and_the_next_commit_renews_it(
    group: Group, topic: str, rows: PsycopgConnection
) -> None:
    commit(group, topic, 60, 100)
    end_is(rows, topic, 100)
    age(rows, topic, STALE_S)
    before = lag_of(group)["partitions"][0]["log_end_at"]
    reset(group, topic, dry_run=False)
    (partition,) = lag_of(group)["partitions"]
    assert (partition["current_offset"], partition["log_end_at"], partition["lag"]) == (100, before, None)

    commit(group, topic, 100, 100)
    (partition,) = lag_of(group)["partitions"]
    assert (partition["log_end_at"], partition["lag"]) == (partition["committed_at"], 0)


def test_recreated_topic_has_no_log_ends(
    client: Client, group: Group, other: Group, topic: str, rows: PsycopgConnection
) -> None:
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 1, "reason": "a test"})
    commit(group, topic, 100, 900)
    end_is(rows, topic, 900)
    client.ok("DELETE", f"/v1/topics/{topic}?reason=a+test")
    assert run_sql(rows, "SELECT count(*) FROM log_end_offsets WHERE topic = %s", topic) == [(0,)]
    poll_until(lambda: lag_of(group)["partitions"] == [])

    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 1, "reason": "a test"})
    commit(other, topic, 3, 5)
    end_is(rows, topic, 5)
    assert lag_of(other)["lag"] == 2


# -- trusted reporters ----------------------------------------------------------------------------------------------


def entry(actor: str, role: str, **more: Json) -> Json:
    return {"sha256": sha256(actor.encode()).hexdigest(), "actor": actor, "role": role, **more}


def bearer(actor: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {actor}"}


ENTRIES: Final = [
    entry("ada", "operator"),
    entry("billing", "agent", prefixes=["billing-"], topics=["orders-"]),
    entry("evil", "agent", prefixes=["evil-"]),
    entry("narrow", "operator", prefixes=["evil-"]),
    entry("elsewhere", "agent", prefixes=["evil-"], topics=["clicks"]),
]


@pytest.fixture(scope="module")
def guarded(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """Serve two nodes with tokens that share the shards."""
    path: Path = tmp_path_factory.mktemp("tokens") / "tokens.json"
    path.write_text(json.dumps({"tokens": ENTRIES}))
    url = databases.create()
    options: dict[str, str | int] = {"tokens_file": str(path), "cluster_secret": "shared" * 8, "lease_ttl_ms": 9_000}
    with ExitStack() as stack:
        yield [stack.enter_context(running_node(url, **options)) for _ in range(2)]
    databases.drop(url)


@pytest.fixture
def clients(guarded: list[Node], guarded_rows: PsycopgConnection) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(Client(node.url))) for node in guarded]
        poll_until(lambda: owned_shards(guarded_rows) == [25, 25])
        poll_until(lambda: len({tuple(owner(client, number) for number in range(50)) for client in clients}) == 1)
        yield clients


def owned_shards(rows: PsycopgConnection) -> list[int]:
    """Return how many shards each node owns."""
    with rows.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM shard_leases WHERE expires_at > clock_timestamp() GROUP BY node_id")
        return [count for (count,) in cursor]


def owner(client: Client, number: int) -> str:
    found = client.ok("GET", f"/v1/groups/evil-{number}/coordinator", headers=bearer("ada"))
    return str(found["node_id"])


@pytest.fixture
def guarded_rows(guarded: list[Node]) -> Iterator[PsycopgConnection]:
    assert guarded[0].settings.database_url is not None
    connection = psycopg2.connect(psql_url(guarded[0].settings.database_url.get_secret_value()))
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.mark.parametrize("attacker", ["evil", "narrow", "elsewhere"])
def test_untrusted_report_does_not_affect_other_groups(
    clients: list[Client], guarded_rows: PsycopgConnection, attacker: str
) -> None:
    topic = fresh_id("orders-")
    billing = clients[0].group(fresh_id("billing-"))
    commit(billing, topic, 90, 100, bearer("billing"))
    end_is(guarded_rows, topic, 100)
    for number, client in enumerate([*clients, *clients]):
        evil = client.group(fresh_id(f"evil-{number}-"))
        commit(evil, topic, number, LARGEST, bearer(attacker))
        commit(evil, topic, LARGEST - 1, None, bearer(attacker))
    commit(billing, f"{topic}-after", 1, 1, bearer("billing"))
    end_is(guarded_rows, f"{topic}-after", 1)

    ada = bearer("ada")
    assert run_sql(guarded_rows, "SELECT log_end_offset FROM log_end_offsets WHERE topic = %s", topic) == [(100,)]
    reported = clients[1].ok("GET", f"{billing.path}/lag", headers=ada)["partitions"]
    assert [each["lag"] for each in reported if each["topic"] == topic] == [10]
    for dry_run in (True, False):
        offsets = reset(billing, topic, dry_run=dry_run, headers=ada)["offsets"]
        assert [each["new_offset"] for each in offsets] == [100]


def test_untrusted_report_counts_for_its_own_group(clients: list[Client]) -> None:
    topic = fresh_id("orders-")
    evil = clients[0].group(fresh_id("evil-"))
    commit(evil, topic, 3, 10, bearer("evil"))

    # The answering node need not own the group, and reads the table, which follows with a checkpoint.
    poll_until(lambda: clients[0].ok("GET", f"{evil.path}/lag", headers=bearer("ada"))["lag"] == 7)
    assert [each["new_offset"] for each in reset(evil, topic, dry_run=True, headers=bearer("ada"))["offsets"]] == [10]
    missing = reset(clients[0].group(fresh_id("billing-")), topic, dry_run=True, headers=bearer("ada"))
    assert missing["code"] in {"INVALID_REQUEST", "UNKNOWN_TOPIC_OR_PARTITION"}


def test_forwarded_request_keeps_the_trust_of_its_token(clients: list[Client], guarded_rows: PsycopgConnection) -> None:
    for number in range(8):
        topic = fresh_id("orders-")
        commit(clients[number % 2].group(fresh_id("billing-")), topic, 1, 5, bearer("billing"))
        end_is(guarded_rows, topic, 5)


def test_an_operator_of_every_group_is_trusted_unless_its_token_names_topics(
    clients: list[Client], guarded_rows: PsycopgConnection
) -> None:
    topic = fresh_id("anything")
    commit(clients[0].group(fresh_id("billing-")), topic, 1, 5, bearer("ada"))
    end_is(guarded_rows, topic, 5)


# -- how old an end may be -------------------------------------------------------------------------------------


@pytest.fixture
def set_max_age(client: Client) -> Iterator[Callable[[int], None]]:
    """Set the age limit of log end offsets in seconds; reset it to the default at the end."""

    def put(seconds: int | None) -> None:
        values = {"log_end_max_age_ms": None if seconds is None else 1_000 * seconds}
        client.ok("PUT", "/v1/config", {"values": values, "reason": "a test"})

    yield put
    put(None)


def test_every_view_uses_the_age_limit_of_the_cluster(
    client: Client, group: Group, topic: str, rows: PsycopgConnection, set_max_age: Callable[[int], None]
) -> None:
    commit(group, topic, 100, 100)
    end_is(rows, topic, 100)
    age(rows, topic, 400)
    for limit_s, is_stale in ((300, True), (3_600, False), (100, True), (500, False)):
        set_max_age(limit_s)
        lag = None if is_stale else 0

        assert (lag_of(group)["lag"], lag_of(group)["is_log_end_stale"]) == (lag, is_stale)
        assert client.ok("GET", f"{group.path}/lag/history")["points"][-1]["lag"] == lag
        assert (glance(group)["lag"], glance(group)["is_lag_lower_bound"]) == (lag, is_stale)
        for view in ("group_overview", "partition_lag"):
            in_sql = f"SELECT lag_records, is_lag_lower_bound FROM dashboards.{view} WHERE group_id = %s"  # noqa: S608
            assert run_sql(rows, in_sql, group.group_id) == [(lag, is_stale)], view
        (preview,) = reset(group, topic, dry_run=True)["offsets"]
        assert (preview["note"] is not None) == is_stale
        found = [] if is_stale else [0.0]
        poll_until(partial(is_scraped, client, "kafka_consumergroup_lag", group.group_id, found))


def is_scraped(client: Client, name: str, group_id: str, values: list[float]) -> bool:
    return scraped(client, name, group_id) == values


def test_lag_history_uses_the_age_limit_of_the_cluster(
    group: Group, other: Group, topic: str, rows: PsycopgConnection, set_max_age: Callable[[int], None]
) -> None:
    commit(group, topic, 100, 100)
    end_is(rows, topic, 100)
    age(rows, topic, 400)
    commit(other, topic, 100, None)
    wait_for_checkpoint(rows)
    of_other = "SELECT lag_records, is_lag_lower_bound FROM dashboards.lag_history WHERE group_id = %s ORDER BY at DESC"
    assert run_sql(rows, of_other, other.group_id) == [(None, True)]
    set_max_age(500)
    assert run_sql(rows, of_other, other.group_id) == [(0, False)]


def test_age_limit_cannot_be_set_for_a_group(group: Group, client: Client) -> None:
    body = {"values": {"log_end_max_age_ms": 60_000}, "reason": "a test"}
    refused = client.call("PUT", f"{group.path}/config", body)
    assert (refused.status, refused.code) == (400, "INVALID_REQUEST")
    assert "log_end_max_age_ms is a setting of the cluster" in refused.json["detail"]
    assert "log_end_max_age_ms" in client.ok("GET", "/v1/config")["values"]


# -- an end that is wrong --------------------------------------------------------------------------------------


def delete_ends(client: Client, topic: str, query: str = "", headers: dict[str, str] | None = None) -> Answer:
    return client.call("DELETE", f"/v1/topics/{topic}/log-ends?reason=too+far{query}", headers=headers)


def test_deleted_log_end_is_unknown_to_all_groups_until_the_next_report(
    client: Client, group: Group, other: Group, topic: str, rows: PsycopgConnection
) -> None:
    commit(group, topic, 90, 100)
    end_is(rows, topic, 100)
    age(rows, topic, 120)
    commit(other, topic, 3, LARGEST)
    end_is(rows, topic, LARGEST)
    assert lag_of(group)["lag"] == LARGEST - 90
    wrong = [{"partition": 0, "log_end_offset": LARGEST}]

    tried = delete_ends(client, topic, "&dry_run=true")
    assert "x-muster-change-id" not in tried.headers
    assert [{key: each[key] for key in wrong[0]} for each in tried.json["log_ends"]] == wrong
    assert run_sql(rows, "SELECT count(*) FROM log_end_offsets WHERE topic = %s", topic) == [(1,)]
    done = delete_ends(client, topic, "&partition=0")
    assert done.json == tried.json
    answer_fits(client.ok("GET", "/openapi.json"), "delete", "/v1/topics/{topic}/log-ends", done.json)

    assert lag_of(group)["lag"] == 10
    commit(group, topic, 95, 110)
    end_is(rows, topic, 110)
    assert lag_of(group)["lag"] == 15
    history = "SELECT max(log_end_offset) FROM dashboards.lag_history WHERE group_id = %s AND topic = %s"
    assert run_sql(rows, history, group.group_id, topic) == [(110,)]
    made = client.ok("GET", f"/v1/changes/{done.headers['x-muster-change-id']}")
    assert (made["action"], made["reason"], made["actor"]) == ("delete_log_ends", "too far", "ada")
    assert made["before"]["log_ends"][0]["log_end_offset"] == LARGEST
    undo = client.call("POST", f"/v1/changes/{made['change_id']}/undo", {"reason": "a test"})
    assert (undo.status, "the next report of an end brings it back" in undo.json["detail"]) == (409, True)


def test_deletion_of_an_unknown_log_end_has_no_effect(client: Client, topic: str) -> None:
    assert delete_ends(client, topic).json == {"topic": topic, "log_ends": []}
    assert client.call("DELETE", f"/v1/topics/{topic}/log-ends").status == 400
    assert delete_ends(client, topic, "&partition=-1").status == 400


def test_dry_run_of_a_deletion_needs_neither_actor_nor_reason(client: Client, topic: str) -> None:
    answer = client.send("DELETE", f"/v1/topics/{topic}/log-ends?dry_run=true")
    assert (answer.status, answer.json) == (200, {"topic": topic, "log_ends": []})
    for query in ("", "?reason="):
        refused = client.call("DELETE", f"/v1/topics/{topic}/log-ends{query}")
        assert (refused.status, refused.json["detail"][:7]) == (400, "reason:")


@pytest.mark.parametrize("who", ["billing", "narrow"])
def test_only_an_operator_of_every_group_deletes_ends(clients: list[Client], who: str) -> None:
    assert delete_ends(clients[0], "orders-eu", headers=bearer(who)).status == 403
    assert delete_ends(clients[0], "orders-eu", headers=bearer("ada")).status == 200
