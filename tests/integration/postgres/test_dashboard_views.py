"""The views answer the questions in their first lines."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.postgres import PostgresStore
from tests.support.store_rows import (
    NOW_MS,
    SHARD,
    committed,
    group_row,
    member_row,
    ownership_row,
    part_row,
    rebalance_row,
    session_row,
    uuid_of,
    write,
)
from tests.support.store_worlds import NODE, Owner

Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def owner(postgres_store: PostgresStore) -> Owner:
    return Owner(postgres_store)


@pytest.fixture
def query(sql_connection: PsycopgConnection) -> Query:
    def run(question: str) -> list[tuple[Any, ...]]:
        with sql_connection.cursor() as cursor:
            cursor.execute(question)
            return cursor.fetchall()

    return run


LAST_REBALANCE = """
SELECT extract(epoch FROM last_rebalance_at) * 1000, last_rebalance_trigger, last_rebalance_trigger_member_id,
    last_rebalance_client_reason, last_rebalance_outcome
FROM dashboards.group_overview
"""


def test_overview_shows_state_and_coordinator(owner: Owner, query: Query) -> None:
    owner.write(write(group=group_row(member_count=3, generation=5)))
    overview = "SELECT group_id, state, generation, protocol_name, member_count, node_id, shard_id"
    assert query(f"{overview} FROM dashboards.group_overview") == [("orders", "Stable", 5, "range", 3, NODE, SHARD)]


def test_overview_sums_known_lag(owner: Owner, query: Query) -> None:
    owner.write(
        write(
            group=group_row(),
            committed=(
                committed(partition=0, offset=5, log_end_offset=15),
                committed(partition=1, offset=9, log_end_offset=8),
                committed(partition=2, offset=1, log_end_offset=None),
            ),
        ),
        write("silent", group=group_row("silent"), committed=(committed(),)),
        write("new", group=group_row("new")),
    )
    lags = query("SELECT group_id, partitions_committed, lag_records FROM dashboards.group_overview ORDER BY group_id")
    assert lags == [("new", None, None), ("orders", 3, 10), ("silent", 1, None)]


def test_overview_caps_the_sum_of_lag_at_int64(owner: Owner, query: Query) -> None:
    ends = tuple(committed(partition=each, offset=0, log_end_offset=2**63 - 1) for each in (0, 1))
    owner.write(write(group=group_row(), committed=ends))
    assert query("SELECT lag_records FROM dashboards.group_overview") == [(2**63 - 1,)]


def test_overview_shows_the_newest_rebalance(owner: Owner, query: Query) -> None:
    newest = rebalance_row("second", started_at_ms=NOW_MS + 9, completed_at_ms=NOW_MS + 9_999, trigger="member_left")
    owner.write(write(group=group_row(), rebalances=(newest, rebalance_row("first"))))
    assert query(LAST_REBALANCE) == [(NOW_MS + 9, "member_left", "m-1", newest.client_reason, "completed")]


def test_a_rebalance_under_way_comes_before_those_that_are_over(owner: Owner, query: Query) -> None:
    in_progress = group_row(rebalance_started_at_ms=NOW_MS + 50, rebalance_trigger="admin")
    owner.write(write(group=in_progress, rebalances=(rebalance_row(),)))
    assert query(LAST_REBALANCE) == [(NOW_MS + 50, "admin", None, None, None)]


def test_a_group_that_never_rebalanced_is_in_the_overview(owner: Owner, query: Query) -> None:
    owner.write(write(group=group_row()))
    assert query(LAST_REBALANCE) == [(None, None, None, None, None)]


def test_a_rebalance_of_a_former_group_of_that_name_is_not_the_last_one(owner: Owner, query: Query) -> None:
    owner.write(write(group=group_row(), rebalances=(rebalance_row(group_created_at_ms=NOW_MS - 1),)))
    assert query(LAST_REBALANCE) == [(None, None, None, None, None)]


def test_ownership_shows_past_and_present_together(owner: Owner, query: Query) -> None:
    span = {
        "topic": "clicks",
        "partitions": [3, 1],
        "since_ms": NOW_MS + 5_000,
        "generation": 2,
        "rebalance_id": uuid_of("second"),
    }
    owner.write(
        write(
            group=group_row(created_at_ms=NOW_MS - 1),
            members={"m-2": member_row("m-2", ownership=[span]), "idle": member_row("idle", ownership=[])},
            ownerships=(ownership_row(group_created_at_ms=NOW_MS - 1),),
        )
    )
    spans = query(
        "SELECT member_id, topic, partitions, generation, rebalance_id::text, extract(epoch FROM valid_from) * 1000,"
        " extract(epoch FROM valid_to) * 1000, extract(epoch FROM group_created_at) * 1000, shard_id"
        " FROM dashboards.ownership ORDER BY valid_from"
    )
    assert spans == [
        ("m-1", "clicks", [0, 1], 1, uuid_of("first"), NOW_MS, NOW_MS + 5_000, NOW_MS - 1, SHARD),
        ("m-2", "clicks", [3, 1], 2, uuid_of("second"), NOW_MS + 5_000, None, NOW_MS - 1, SHARD),
    ]


# -- damaged values -----------------------------------------------------------------------------------------

DAMAGES = {
    "a number": "[7]",
    "partitions that are a number": '[{"topic": "t", "partitions": 7}]',
    "partitions that are an object": '[{"topic": "t", "partitions": {"0": 1}}]',
    "a partition that is a text": '[{"topic": "t", "partitions": ["x"], "since_ms": 0}]',
    "partitions that do not fit": '[{"topic": "t", "partitions": [99999999999], "since_ms": 0}]',
    "numbers that are texts": '[{"topic": "t", "generation": "x", "since_ms": "x", "rebalance_id": "x"}]',
    "numbers that do not fit": '[{"topic": "t", "generation": 1e30, "since_ms": 1e300}]',
}


@pytest.mark.parametrize("ownership", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_ownership_hides_that_of_its_member_only(
    owner: Owner, query: Query, sql_connection: PsycopgConnection, ownership: str
) -> None:
    span = {"topic": "t", "partitions": [0], "since_ms": NOW_MS, "generation": 1, "rebalance_id": uuid_of("first")}
    members = {name: member_row(name, ownership=held) for name, held in (("a", []), ("b", [span]), ("c", [span]))}
    owner.write(write(group=group_row(member_count=3), members=members))
    with sql_connection.cursor() as cursor:
        cursor.execute("UPDATE members SET ownership = %s WHERE member_id = 'c'", (ownership,))
    known = query("SELECT member_id FROM dashboards.ownership WHERE partitions IS NOT NULL AND valid_from IS NOT NULL")
    idle = query("SELECT member_id, members_with_partitions FROM dashboards.idle_members")
    assert (known, [member_id for member_id, _ in idle]) == ([("b",)], ["a"])


@pytest.mark.parametrize(
    "damage",
    [
        """awaited_members = '{"members": 7, "since_ms": "x", "count": "x"}'""",
        """rebalance = '{"in_progress": {"restarts": "x"}}'""",
    ],
)
def test_damaged_rebalance_hides_no_other(
    owner: Owner, query: Query, sql_connection: PsycopgConnection, damage: str
) -> None:
    owner.write(*(write(name, group=group_row(name, state="PreparingRebalance")) for name in ("a", "b")))
    with sql_connection.cursor() as cursor:
        cursor.execute(f"UPDATE groups SET {damage} WHERE group_id = 'a'")  # noqa: S608 - ours
    columns = "group_id, restarts, awaited_since, awaited_count, awaited_member_ids"
    found = query(f"SELECT {columns} FROM dashboards.rebalancing_groups ORDER BY 1")  # noqa: S608 - columns of ours
    assert found == [(name, None, None, None, None) for name in ("a", "b")]


# -- slowest members ----------------------------------------------------------------------------------------


def test_three_slowest_members_of_recent_rebalances_are_returned(owner: Owner, query: Query) -> None:
    waits = {"a": 10, "b": 0, "c": 900, "d": 20, "e": 30}
    parts = [part_row(name, client_id=name, waited_for_ms=wait) for name, wait in waits.items()]
    owner.write(write(group=group_row(), rebalances=(rebalance_row(),), rebalance_members=tuple(parts)))
    found = query("SELECT member_id, waited_for_ms, took_ms, trigger FROM dashboards.slowest_members")
    assert found == [(name, waits[name], 3_000, "member_joined") for name in "ced"]


def test_member_ids_of_a_crash_loop_count_as_one_slow_consumer(owner: Owner, query: Query) -> None:
    crashes = [part_row(f"c-{number}", client_id="crashes", waited_for_ms=40 + number) for number in range(3)]
    others = [
        part_row("other", client_id="other", waited_for_ms=100),
        part_row("old", client_id="crashes", client_host="10.0.0.8", waited_for_ms=90),
        part_row("static-1", client_id="x", group_instance_id="pod", waited_for_ms=50),
        part_row("static-2", client_id="y", client_host="10.0.0.9", group_instance_id="pod", waited_for_ms=51),
    ]
    owner.write(write(group=group_row(), rebalances=(rebalance_row(),), rebalance_members=(*crashes, *others)))
    columns = "member_id, client_id, client_host, member_count, waited_for_ms"
    assert query(f"SELECT {columns} FROM dashboards.slowest_members") == [  # noqa: S608 - columns of ours
        ("c-2", "crashes", "10.0.0.1", 3, 123),
        ("static-2", "y", "10.0.0.9", 2, 101),
        ("other", "other", "10.0.0.1", 1, 100),
    ]


def test_members_of_a_former_group_of_that_name_are_not_slow(owner: Owner, query: Query) -> None:
    former = rebalance_row("former", group_created_at_ms=NOW_MS - 1, completed_at_ms=NOW_MS + 1)
    parts = (part_row("m-1", "former", completed_at_ms=NOW_MS + 1), part_row("m-2"))
    owner.write(write(group=group_row(), rebalances=(former, rebalance_row()), rebalance_members=parts))
    assert query("SELECT member_id FROM dashboards.slowest_members") == [("m-2",)]


def test_members_never_awaited_and_old_rebalances_are_not_slow(owner: Owner, query: Query) -> None:
    ends = {f"r{number}": NOW_MS + 10_000 + number for number in range(22)}
    rows = [rebalance_row(name, completed_at_ms=at_ms) for name, at_ms in ends.items()]
    parts = [part_row("m-1", name, completed_at_ms=at_ms) for name, at_ms in ends.items()]
    parts.append(part_row("m-2", "r21", completed_at_ms=ends["r21"], waited_for_ms=0))
    owner.write(write(group=group_row(), rebalances=tuple(rows), rebalance_members=tuple(parts)))
    found = query("SELECT rebalance_id::text, member_id FROM dashboards.slowest_members ORDER BY completed_at")
    assert found == [(uuid_of(f"r{number}"), "m-1") for number in range(2, 22)]


# -- spurious evictions -------------------------------------------------------------------------------------

EVICTED_MS = NOW_MS + 9_000
EVICTED = session_row("old", end_reason="session_expired")


def spurious(query: Query) -> list[tuple[Any, ...]]:
    return query(
        "SELECT member_id, reconnected_as, extract(epoch FROM reconnected_at - evicted_at) * 1000 "
        "FROM dashboards.spurious_evictions"
    )


def test_rejoin_within_a_minute_is_a_spurious_eviction(owner: Owner, query: Query) -> None:
    back = member_row("new", joined_at_ms=EVICTED_MS + 60_000)
    owner.write(write(group=group_row(), members={"new": back}, sessions=(EVICTED,)))
    assert spurious(query) == [("old", "new", 60_000)]


def test_reconnected_member_that_left_again_counts(owner: Owner, query: Query) -> None:
    again = session_row("new", joined_at_ms=EVICTED_MS + 5, ended_at_ms=EVICTED_MS + 50)
    owner.write(write(group=group_row(), sessions=(EVICTED, again)))
    assert spurious(query) == [("old", "new", 5)]


@pytest.mark.parametrize(
    ("evicted", "back"),
    [
        ({}, {"joined_at_ms": EVICTED_MS + 60_001}),
        ({}, {"joined_at_ms": EVICTED_MS - 1}),
        ({}, {"client_id": "another"}),
        ({}, {"client_host": "elsewhere"}),
        ({}, {"group_instance_id": "I"}),
        ({"end_reason": "left"}, {}),
        ({"end_reason": "hour"}, {}),
        ({"group_id": "other"}, {}),
    ],
    ids=["too late", "before", "another client", "another host", "a static one", "it left", "it stayed", "elsewhere"],
)
def test_other_or_unevicted_member_is_no_rejoin(
    owner: Owner, query: Query, evicted: dict[str, Any], back: dict[str, Any]
) -> None:
    gone = session_row("old", **({"end_reason": "session_expired"} | evicted))
    came = member_row("new", **({"joined_at_ms": EVICTED_MS + 10} | back))
    owner.write(write(group=group_row(), members={"new": came}), write(gone.group_id, sessions=(gone,)))
    assert spurious(query) == []


@pytest.mark.parametrize("heard_ms", [8_000, None], ids=["heard once", "never heard"])
def test_eviction_with_an_earlier_successor_was_a_crash(owner: Owner, query: Query, heard_ms: int | None) -> None:
    heard_at_ms = None if heard_ms is None else NOW_MS + heard_ms
    gone = session_row("old", end_reason="session_expired", last_heartbeat_at_ms=heard_at_ms)
    successor = session_row("second", joined_at_ms=EVICTED_MS - 1, ended_at_ms=EVICTED_MS + 20_000)
    third = member_row("third", joined_at_ms=EVICTED_MS + 10)
    owner.write(write(group=group_row(), members={"third": third}, sessions=(gone, successor)))
    assert spurious(query) == []


def test_client_that_joined_before_the_last_heartbeat_is_no_successor(owner: Owner, query: Query) -> None:
    beside = member_row("beside", joined_at_ms=EVICTED.last_heartbeat_at_ms)
    back = member_row("new", joined_at_ms=EVICTED_MS)
    owner.write(write(group=group_row(), members={"beside": beside, "new": back}, sessions=(EVICTED,)))
    assert spurious(query) == [("old", "new", 0)]


def test_reconnects_are_searched_in_rows_of_the_following_hours(owner: Owner, query: Query) -> None:
    late_ms = EVICTED_MS + 2 * 3_600_000 + 60_000
    ends = {"in": late_ms, "beyond": late_ms + 1}
    gone = [session_row(name, client_id=name, end_reason="session_expired") for name in ends]
    back = [session_row(f"{name}2", client_id=name, joined_at_ms=EVICTED_MS, ended_at_ms=ends[name]) for name in ends]
    owner.write(write(group=group_row(), sessions=(*gone, *back)))
    assert [member for member, _, _ in spurious(query)] == ["in"]


def test_static_member_is_identified_by_its_instance_id_on_any_host(owner: Owner, query: Query) -> None:
    gone = session_row("old", end_reason="rebalance_timeout", group_instance_id="I")
    came = member_row("new", group_instance_id="I", client_host="elsewhere", joined_at_ms=EVICTED_MS + 10)
    owner.write(write(group=group_row(), members={"new": came}, sessions=(gone,)))
    assert spurious(query) == [("old", "new", 10)]
