"""The lag of a large group, of which only a page and the partitions that lag most are read."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from api.http import base64url
from coordinator_core.queries import lag
from muster.settings import psql_url
from tests.integration.http.node_pair import OPTIONS, Pair
from tests.support.databases import Databases
from tests.support.http_client import Client, Group, fresh_id, gives, position
from tests.support.nodes import running_node
from tests.support.offset_log import wait_for_checkpoint

Json = Any
SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}


HISTORY = "INSERT INTO offset_history SELECT %s, 1, 'orders', 0, now() - interval '10 minutes', 3, 4, ''"


@pytest.fixture(scope="module")
def url(databases: Databases) -> Iterator[str]:
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture(scope="module")
def pair(url: str) -> Iterator[Pair]:
    """Serve two nodes; to the second one a group of three offsets is large."""
    with ExitStack() as stack:
        pair = Pair(
            [stack.enter_context(running_node(url, **OPTIONS, **limits)) for limits in ({}, {"max_lag_partitions": 2})]
        )
        for client in pair.clients:
            stack.enter_context(closing(client))
        pair.balance_shards()
        yield pair


@pytest.fixture
def rows(url: str) -> Iterator[PsycopgConnection]:
    with closing(psycopg2.connect(psql_url(url))) as connection:
        connection.autocommit = True
        yield connection


@pytest.fixture
def group(pair: Pair) -> Group:
    return pair.clients[0].group(fresh_id())


@pytest.fixture
def few(pair: Pair) -> Client:
    return pair.clients[1]


def lag_of(group: Group, query: str = "") -> Json:
    return group.client.ok("GET", f"{group.path}/lag{query}")


def test_lag_of_a_large_group_is_that_of_a_small_one(few: Client, group: Group, rows: PsycopgConnection) -> None:
    member = group.join()
    member.sync(gives(member.member_id, 1, 4, 6))
    ends: tuple[int | None, ...] = (4, 9, None, 300, 2**63 - 1)
    member.commit(*(position(5, partition=each, log_end_offset=end) for each, end in enumerate(ends)))
    with rows.cursor() as cursor:
        cursor.execute(HISTORY, (group.group_id,))
    wait_for_checkpoint(rows)

    def lag_by(client: Client, limit: int) -> list[Json]:
        pages = [lag_of(client.group(group.group_id), f"?limit={limit}")]
        while cursor := pages[-1].pop("next_cursor"):
            pages.append(lag_of(client.group(group.group_id), f"?limit={limit}&cursor={cursor}"))
        return [without_seconds(page) for page in pages]

    for limit in (1, 2, 3, 5, 6, 100):
        assert lag_by(few, limit) == lag_by(group.client, limit)
    assert lag_of(few.group(group.group_id))["lag_seconds"] == pytest.approx(lag_of(group)["lag_seconds"], abs=60)


def without_seconds(page: Json) -> Json:
    """Return a response without what depends on the time."""
    partitions = [{**each, "lag_seconds": each["lag_seconds"] is None} for each in page["partitions"]]
    return {**page, "lag_seconds": page["lag_seconds"] is None, "partitions": partitions}


def test_lag_of_a_large_group_without_log_ends_is_unknown(few: Client, group: Group, rows: PsycopgConnection) -> None:
    group.post(
        "offsets",
        {**SIMPLE_CONSUMER, "offsets": [position(5, partition=each, topic="unreported") for each in range(3)]},
    )
    wait_for_checkpoint(rows)

    reported = lag_of(few.group(group.group_id))
    assert (reported["lag"], reported["lag_seconds"], reported["log_end_at"]) == (None, None, None)
    assert len(reported["partitions"]) == 3


def test_a_page_of_a_large_group_is_small_and_the_total_is_a_lower_bound(
    few: Client, group: Group, rows: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "LARGE_GROUP_PAGE_MAX", 2)
    monkeypatch.setattr(lag, "MOST_LAGGING", 2)
    offsets = [position(5, partition=each, log_end_offset=9) for each in range(3)]
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": offsets})
    wait_for_checkpoint(rows)

    reported = lag_of(few.group(group.group_id))
    assert [each["partition"] for each in reported["partitions"]] == [0, 1]
    assert (reported["lag"], reported["is_lag_lower_bound"]) == (12, True)
    last = lag_of(few.group(group.group_id), f"?cursor={reported['next_cursor']}")
    assert ([each["partition"] for each in last["partitions"]], last["next_cursor"]) == ([2], None)


def test_pages_of_a_large_group_have_the_total_of_the_first_one(
    few: Client, group: Group, rows: PsycopgConnection
) -> None:
    """It is not computed again, which takes longer than a page of a very large group."""

    def commit(log_end: int) -> None:
        offsets = [position(5, partition=each, log_end_offset=log_end) for each in range(3)]
        group.post("offsets", {**SIMPLE_CONSUMER, "offsets": offsets})
        wait_for_checkpoint(rows)

    commit(9)
    large = few.group(group.group_id)
    first = lag_of(large, "?limit=1")
    commit(99)
    second = lag_of(large, f"?limit=1&cursor={first['next_cursor']}")

    assert (first["lag"], second["lag"], lag_of(large)["lag"]) == (12, 12, 282)
    assert second["partitions"][0]["lag"] == 94
    assert lag_of(group, f"?limit=1&cursor={first['next_cursor']}")["lag"] == 282


@pytest.mark.parametrize(
    "place",
    [
        ["orders", 0],
        ["orders", 0, None, 10**18],
        ["orders", 0, [2**70, 1, False, False], None],
        ["orders", 0, [1, 1, False], None],
        ["orders", 0, "much", None],
    ],
)
def test_forged_cursor_is_refused(few: Client, group: Group, place: list[object]) -> None:
    forged = few.call("GET", f"{group.path}/lag?cursor={base64url.encode(json.dumps(place))}")
    assert (forged.status, forged.json["code"]) == (400, "INVALID_REQUEST")
