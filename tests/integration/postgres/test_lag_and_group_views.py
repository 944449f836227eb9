"""Views on lag, rebalances per hour, rebalancing groups, idle members, expiry, changes and runs."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.log_ends import LogEnd, lag_at, monotonic_log_ends
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.state_store.awaited import AwaitedMember, AwaitedMembers
from coordinator_core.state_store.log_ends import LogEndReport
from coordinator_core.state_store.postgres import PostgresStore
from spark_jobs import submit
from tests.support.log_ends import relevant_log_ends
from tests.support.report_rows import FREQUENCY, complete_row, insert_reports, report
from tests.support.store_rows import (
    MINUTE_MS,
    NOW_MS,
    SHARD,
    change_row,
    committed,
    group_row,
    member_row,
    part_row,
    rebalance_row,
    removed,
    run_row,
    uuid_of,
    write,
)
from tests.support.store_worlds import NODE, TTL_MS, Owner, propose

EXAMPLES = count()
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
Query = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def owner(postgres_store: PostgresStore) -> Owner:
    return Owner(postgres_store)


@pytest.fixture
def query(sql_connection: PsycopgConnection) -> Query:
    def run(question: str, *parameters: object) -> list[tuple[Any, ...]]:
        with sql_connection.cursor() as cursor:
            cursor.execute(question, parameters or None)
            return cursor.fetchall()

    return run


@pytest.fixture
def now_ms(query: Query) -> int:
    return int(query("SELECT extract(epoch FROM now()) * 1000")[0][0])


def span(*partitions: int, topic: str = "clicks") -> object:
    return {
        "topic": topic,
        "partitions": list(partitions),
        "since_ms": 0,
        "generation": 1,
        "rebalance_id": uuid_of("first"),
    }


# -- rebalances by the hour ---------------------------------------------------------------------------------


def test_rebalances_are_counted_by_hour_and_trigger(owner: Owner, query: Query, now_ms: int) -> None:
    hour_ms = now_ms - now_ms % HOUR_MS
    ends: dict[str, dict[str, Any]] = {
        "a": {"completed_at_ms": hour_ms, "restarts": 2, "started_at_ms": hour_ms - 4_000},
        "b": {"completed_at_ms": hour_ms + 1, "outcome": "emptied", "started_at_ms": hour_ms},
        "c": {"completed_at_ms": hour_ms - 1, "started_at_ms": hour_ms - 2},
        "d": {"completed_at_ms": hour_ms, "trigger": "admin", "started_at_ms": hour_ms},
        "e": {"completed_at_ms": hour_ms - 8 * DAY_MS, "started_at_ms": hour_ms - 8 * DAY_MS},
    }
    owner.write(write(rebalances=tuple(rebalance_row(name, **given) for name, given in ends.items())))
    found = query(
        "SELECT (extract(epoch FROM hour) * 1000)::bigint, trigger, rebalances, completed, emptied, abandoned,"
        " restarts, partitions_moved, took_total_ms, took_max_ms, group_id, shard_id"
        " FROM dashboards.rebalances_per_hour ORDER BY hour, trigger"
    )
    assert found == [
        (hour_ms - HOUR_MS, "member_joined", 1, 1, 0, 0, 0, 2, 1, 1, "orders", SHARD),
        (hour_ms, "admin", 1, 1, 0, 0, 0, 2, 0, 0, "orders", SHARD),
        (hour_ms, "member_joined", 2, 1, 1, 0, 2, 4, 4_001, 4_000, "orders", SHARD),
    ]


# -- unsettled groups ---------------------------------------------------------------------------------------

UNSETTLED = (
    "SELECT group_id, state, rebalance_trigger, trigger_member_id, client_reason, restarts, rebalance_timeout_ms,"
    " (extract(epoch FROM phase_deadline_at - state_since) * 1000)::bigint, last_waited_for_client_id, "
    "last_waited_for_ms,"
    " node_id, node_url FROM dashboards.rebalancing_groups ORDER BY group_id"
)


def test_rebalancing_group_has_trigger_deadline_and_last_slowest_member(owner: Owner, query: Query) -> None:
    in_progress = {"trigger_member_id": "m-2", "client_reason": "polls late", "restarts": 3}
    preparing = group_row(
        state="PreparingRebalance", rebalance_trigger="member_joined", rebalance={"in_progress": in_progress}
    )
    members = {
        "m-1": member_row("m-1", rebalance_timeout_ms=60_000),
        "m-2": member_row("m-2", rebalance_timeout_ms=90_000),
    }
    parts = (part_row("m-1", client_id="quick", waited_for_ms=5), part_row("m-2", client_id="slow", waited_for_ms=900))
    owner.store.renew(NODE, {"http": "http://node"}, "1", owner.epochs, TTL_MS)
    owner.write(
        write(group=preparing, members=members, rebalances=(rebalance_row(),), rebalance_members=parts),
        write("stable", group=group_row("stable")),
    )
    why = ("member_joined", "m-2", "polls late", 3)
    assert query(UNSETTLED) == [
        ("orders", "PreparingRebalance", *why, 90_000, 90_000, "slow", 900, NODE, "http://node")
    ]


AWAITED = (
    "SELECT awaited_phase, awaited_since = state_since, awaited_count, awaited_member_ids, awaited_instance_ids,"
    " awaited_client_ids, awaited_client_hosts, last_waited_for_client_id FROM dashboards.rebalancing_groups"
)


def test_a_rebalancing_group_names_the_members_that_it_waits_for_now(owner: Owner, query: Query) -> None:
    members = (
        AwaitedMember("m-2", None, "stuck", "10.0.0.2"),
        AwaitedMember("m-1", "i-1", "static", "10.0.0.1"),
        AwaitedMember("pending"),
    )
    row = group_row(state="PreparingRebalance")
    awaited = AwaitedMembers("join", row.state_since_ms, 7, members).to_json()
    parts = (part_row("m-9", client_id="slow last time", waited_for_ms=900),)
    owner.write(
        write(group=replace(row, awaited_members=awaited), rebalances=(rebalance_row(),), rebalance_members=parts)
    )
    assert query(AWAITED) == [
        (
            "join",
            True,
            7,
            ["m-2", "m-1", "pending"],
            [None, "i-1", None],
            ["stuck", "static", None],
            ["10.0.0.2", "10.0.0.1", None],
            "slow last time",
        )
    ]
    owner.write(write(group=row))
    assert query(AWAITED) == [(*[None] * 7, "slow last time")]


def test_the_timeout_of_a_rebalancing_group_is_the_narrowest_that_is_set(owner: Owner, query: Query) -> None:
    owner.write(write(group=group_row(state="CompletingRebalance"), members={"m-1": member_row()}))
    timeouts = []
    for group_id, value in ((None, "7000"), ("orders", "5000")):
        name = f"{group_id} {value}"
        owner.store.put_settings(group_id, {"rebalance_timeout_ms": value}, change_row(name, group_id=group_id))
        timeouts.append(query("SELECT rebalance_timeout_ms FROM dashboards.rebalancing_groups"))
    assert timeouts == [[(7_000,)], [(5_000,)]]


@pytest.mark.parametrize(
    ("group_value", "cluster_value", "effective_ms"),
    [("10", None, 1_000), ("soon", "7000", 7_000), ("", "99999999999", 2_147_483_647), ("7 s", "1e4", 60_000)],
)
def test_stored_timeout_counts_in_the_view_as_on_nodes(
    owner: Owner, query: Query, group_value: str, cluster_value: str | None, effective_ms: int
) -> None:
    members = {"m-1": member_row(rebalance_timeout_ms=60_000)}
    owner.write(write(group=group_row(state="CompletingRebalance"), members=members))
    for group_id, value in (("orders", group_value), (None, cluster_value)):
        owner.store.put_settings(group_id, {"rebalance_timeout_ms": value}, change_row(str(group_id)))
    cache = MetadataCache(GroupSettings(), frozenset())
    cache.update(owner.store.versions(), owner.store.settings(), [])
    assert (cache.context("orders").settings.rebalance_timeout_ms or 60_000) == effective_ms
    found = query(
        "SELECT rebalance_timeout_ms, (extract(epoch FROM phase_deadline_at - state_since) * 1000)::bigint"
        " FROM dashboards.rebalancing_groups"
    )
    assert found == [(effective_ms, effective_ms)]


def test_previous_rebalance_of_a_group_is_none_of_a_former_group_of_its_name(owner: Owner, query: Query) -> None:
    parts = (part_row("m-1", client_id="of the former group", waited_for_ms=900),)
    owner.write(write(group=group_row(), rebalances=(rebalance_row(),), rebalance_members=parts))
    created_at_ms = group_row().created_at_ms + 1
    owner.write(write(group=group_row(state="PreparingRebalance", created_at_ms=created_at_ms)))
    assert query("SELECT last_waited_for_client_id FROM dashboards.rebalancing_groups") == [(None,)]


# -- what will expire ---------------------------------------------------------------------------------------


def test_expiry_forecast_comes_from_the_newest_run(
    owner: Owner, query: Query, sql_connection: PsycopgConnection, now_ms: int
) -> None:
    owner.write(
        write(group=group_row(state="Empty", state_since_ms=now_ms - 1)),
        write("woke", group=group_row("woke", state_since_ms=now_ms + 1_000)),
        write("simple", committed=(committed(),)),
    )
    propose(sql_connection, run_row("old", as_of_ms=now_ms - DAY_MS), [], [forecast("old news", 9, 9, now_ms)])
    propose(
        sql_connection,
        run_row("new", as_of_ms=now_ms),
        [],
        [
            forecast("orders", 1, 4, now_ms + 5),
            forecast("woke", 0, 2, now_ms),
            forecast("gone", 0, 1, now_ms),
            forecast("simple", 1, 1, now_ms),
        ],
    )
    found = query(
        "SELECT group_id, state, within_a_day, within_a_week, has_changed FROM dashboards.offsets_expiring ORDER BY 1"
    )
    assert found == [
        ("gone", None, 0, 1, True),
        ("orders", "Empty", 1, 4, False),
        ("simple", None, 1, 1, False),
        ("woke", "Stable", 0, 2, True),
    ]


def test_forecast_of_a_run_as_of_a_future_time_is_not_used_yet(
    owner: Owner, query: Query, sql_connection: PsycopgConnection, now_ms: int
) -> None:
    propose(sql_connection, run_row("now", as_of_ms=now_ms), [], [forecast("orders", 1, 4, now_ms)])
    propose(sql_connection, run_row("then", as_of_ms=now_ms + DAY_MS), [], [forecast("later", 9, 9, now_ms + DAY_MS)])
    assert query("SELECT group_id, within_a_day FROM dashboards.offsets_expiring") == [("orders", 1)]


def test_a_second_run_of_an_interval_replaces_what_the_first_found(
    owner: Owner, query: Query, sql_connection: PsycopgConnection, now_ms: int
) -> None:
    for name in ("b", "a", "c"):
        propose(sql_connection, run_row(name, as_of_ms=now_ms), [], [forecast("orders", 1, 4, now_ms)])
        assert query("SELECT group_id, within_a_day FROM dashboards.offsets_expiring") == [("orders", 1)]


def forecast(group_id: str, within_a_day: int, within_a_week: int, next_expiry_at_ms: int) -> Any:  # noqa: ANN401 - a row
    return (group_id, SHARD, within_a_day, within_a_week, next_expiry_at_ms)


# -- idle members -------------------------------------------------------------------------------------------


def test_member_without_partitions_is_idle(owner: Owner, query: Query) -> None:
    members = {
        "m-1": member_row("m-1", ownership=[span(0, 1), span(2, topic="views")]),
        "m-2": member_row("m-2", ownership=[], assigned_since_ms=None, client_id="idle one"),
        "m-3": member_row("m-3", ownership=[span(3)]),
    }
    idle = {"x": member_row("x", "nothing to do", ownership=[])}
    moving = {name: member_row(name, "moving", ownership=held) for name, held in (("a", [span(0)]), ("b", []))}
    owner.write(
        write(group=group_row(member_count=3, state_since_ms=NOW_MS + 5), members=members),
        write("nothing to do", group=group_row("nothing to do"), members=idle),
        write("moving", group=group_row("moving", state="PreparingRebalance"), members=moving),
    )
    found = query(
        "SELECT group_id, member_id, client_id, members_with_partitions, partitions, member_count,"
        " floor(extract(epoch FROM assigned_since) * 1000)::bigint FROM dashboards.idle_members"
    )
    assert found == [("orders", "m-2", "idle one", 2, 4, 3, NOW_MS + 5)]


# -- changes ------------------------------------------------------------------------------------------------


def test_recent_changes_are_listed_with_their_undo_actor(owner: Owner, query: Query, now_ms: int) -> None:
    for name, at_ms in (("new", now_ms - 1_000), ("old", now_ms - 8 * DAY_MS)):
        change = change_row(name, at_ms=at_ms, group_id="orders", actor="ada", reason=f"a {name} one")
        owner.store.put_settings("orders", {"group_max_size": str(at_ms)}, change)
    owner.store.undo_settings(
        uuid_of("new"), change_row("undo", at_ms=now_ms, group_id="orders", actor="bob", action="undo", reason="oops")
    )
    found = query(
        "SELECT actor, group_id, reason, undone_by_actor, undone_reason, undone_at IS NULL"
        " FROM dashboards.recent_changes ORDER BY at"
    )
    assert found == [("ada", "orders", "a new one", "bob", "oops", False), ("bob", "orders", "oops", None, None, True)]


# -- lag ----------------------------------------------------------------------------------------------------


def test_lag_is_returned_by_partition_with_owner(owner: Owner, query: Query, now_ms: int) -> None:
    at: dict[str, Any] = {"at_ms": now_ms}
    offsets = (
        committed(partition=0, offset=5, log_end_offset=9, **at),
        committed(partition=1, offset=9, log_end_offset=8, **at),
        committed(partition=2, offset=1, **at),
    )
    owner.write(write(group=group_row(), members={"m-1": member_row(ownership=[span(0, 2)])}, committed=offsets))
    found = query(
        "SELECT partition, member_id, client_id, committed_offset, log_end_offset, lag_records, lag_seconds IS NULL,"
        " is_lag_lower_bound FROM dashboards.partition_lag WHERE group_id = 'orders' ORDER BY partition"
    )
    assert found == [
        (0, "m-1", "client", 5, 9, 4, False, True),
        (1, None, None, 9, 9, 0, False, False),
        (2, "m-1", "client", 1, None, None, True, None),
    ]


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 12), st.sampled_from(["nobody", "own", "trusted"])),
    min_size=2,
    max_size=8,
)
"""Minutes that pass, records written, lag of the commit, and the reporter of the log end."""


@given(steps=STEPS, pause_minutes=st.integers(0, 60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lag_in_seconds_follows_the_rule(
    owner: Owner, query: Query, steps: list[tuple[int, int, int, str]], pause_minutes: int
) -> None:
    """The view's columns and the coordinator's function are one rule, written twice."""
    length = sum(minutes for minutes, *_ in steps) + pause_minutes
    (began_ms,) = query("SELECT floor(extract(epoch FROM now()) * 1000)::bigint - %s * 60000", length + 1)[0]
    group_id = topic = f"life-{next(EXAMPLES)}"
    minute = end = offset = 0
    own: list[LogEnd] = []
    trusted: list[LogEnd] = []
    for minutes, written, behind_by, reporter in steps:
        minute, end = minute + minutes, end + written
        at_ms, offset = began_ms + minute * MINUTE_MS, max(0, end - behind_by)
        record = committed(topic, offset=offset, log_end_offset=end if reporter == "own" else None, at_ms=at_ms)
        owner.write(write(group_id, committed=(record,)))
        own = [each for each in own if each.at_ms // MINUTE_MS < at_ms // MINUTE_MS]
        if reporter == "own":
            own.append(LogEnd(at_ms, end))
        elif reporter == "trusted":
            owner.store.report_log_ends([LogEndReport(topic, 0, end, at_ms)], 0)
            trusted = [each for each in trusted if each.at_ms // MINUTE_MS < at_ms // MINUTE_MS]
            trusted.append(LogEnd(at_ms, end))
    ((lag, lag_s, now_ms, at_least, is_stale),) = query(
        "SELECT lag_records, lag_seconds, floor(extract(epoch FROM now()) * 1000)::bigint, is_lag_lower_bound,"
        " is_log_end_stale FROM dashboards.partition_lag WHERE group_id = %s",
        group_id,
    )
    reported = relevant_log_ends(own, offset) if steps[-1][3] == "own" else []
    expected = lag_at(monotonic_log_ends([*reported, *relevant_log_ends(trusted, offset)]), offset, now_ms)
    if expected is None:
        assert (lag, lag_s, at_least, is_stale) == (None, None, None, None)
    elif not expected.is_known:
        assert (lag, lag_s, at_least, is_stale) == (None, None, True, True)
    else:
        assert (lag, at_least, is_stale) == (expected.records, expected.is_lower_bound, expected.is_stale)
        assert lag_s == pytest.approx(expected.ms / 1000, abs=0.01)


def test_lag_is_returned_over_time(owner: Owner, query: Query, now_ms: int) -> None:
    for minute, offset, end in ((5, 1, 9), (3, 2, None), (0, 3, 2)):
        record = committed(offset=offset, log_end_offset=end, at_ms=now_ms - minute * MINUTE_MS)
        owner.write(write(committed=(record,)))
    found = query("SELECT committed_offset, lag_records, member_id FROM dashboards.lag_history ORDER BY at")
    assert found == [(1, 8, "m-1"), (2, None, "m-1"), (3, 0, "m-1")]


def test_a_stuck_group_falls_behind_minute_by_minute(owner: Owner, query: Query, now_ms: int) -> None:
    began_ms = now_ms - 10 * MINUTE_MS
    owner.write(write(committed=(committed(offset=5, log_end_offset=5, at_ms=began_ms),)))
    for minute in range(1, 5):
        owner.store.report_log_ends([LogEndReport("clicks", 0, 5 + 10 * minute, began_ms + minute * MINUTE_MS)], 0)
    found = query(
        "SELECT committed_offset, lag_records, is_lag_lower_bound FROM dashboards.lag_history"
        " WHERE group_id = 'orders' ORDER BY at"
    )
    assert found == [(5, 0, False), (5, 10, False), (5, 20, False), (5, 30, False), (5, 40, False)]


@pytest.mark.parametrize("is_reset", [True, False], ids=["reset", "deleted"])
def test_offset_counts_until_it_is_reset_or_deleted(owner: Owner, query: Query, now_ms: int, is_reset: bool) -> None:
    began_ms = now_ms - 10 * MINUTE_MS
    for minute, offset in ((0, 3), (1, 5)):
        owner.write(write(committed=(committed(offset=offset, at_ms=began_ms + minute * MINUTE_MS),)))
    (seen,) = owner.store.stored_offsets("orders")
    at_ms = began_ms + 4 * MINUTE_MS
    later = (committed(offset=0, at_ms=at_ms, member_id=""),) if is_reset else ()
    owner.write(write(removed=(removed(seen, at_ms=at_ms),), committed=later, changes=(change_row("delete"),)))
    if not is_reset:
        owner.write(write(committed=(committed(offset=0, at_ms=began_ms + 7 * MINUTE_MS),)))
    for minute in (2, 5, 8):
        owner.store.report_log_ends([LogEndReport("clicks", 0, 100 + minute, began_ms + minute * MINUTE_MS)], 0)
    found = query(
        "SELECT (extract(epoch FROM at) * 1000 - %s)::bigint / 60000, committed_offset, lag_records"
        " FROM dashboards.lag_history ORDER BY at",
        began_ms,
    )
    before = [(0, 3, None), (1, 5, None), (2, 5, 97)]
    assert found == [*before, *([(4, 0, 102), (5, 0, 105)] if is_reset else [(7, 0, 105)]), (8, 0, 108)]


# -- runs ---------------------------------------------------------------------------------------------------


def test_newest_run_of_each_job_is_returned(owner: Owner, query: Query, sql_connection: PsycopgConnection) -> None:
    for name, kind, as_of_ms in (("a", "offset_retention", 1_000), ("b", "offset_retention", 2_000)):
        propose(sql_connection, run_row(name, kind=kind, as_of_ms=as_of_ms), [])
    propose(sql_connection, run_row("c", kind="undo", as_of_ms=9_000), [])
    found = query("SELECT kind, extract(epoch FROM as_of), run_id::text, status FROM dashboards.newest_runs")
    assert found == [("offset_retention", 2, uuid_of("b"), "proposed")]


def test_newest_run_of_one_interval_is_the_last_proposal(query: Query, sql_connection: PsycopgConnection) -> None:
    """Airflow repeats a run of a day as of the same time."""
    for name in ("b", "a", "c"):
        propose(sql_connection, run_row(name, as_of_ms=1_000), [])
        assert query("SELECT run_id::text FROM dashboards.newest_runs") == [(uuid_of(name),)]


@pytest.mark.parametrize("kind", submit.PROPOSALS)
def test_every_proposing_job_reports_its_last_run_unless_not_due(
    owner: Owner, query: Query, sql_connection: PsycopgConnection, now_ms: int, kind: str
) -> None:
    propose(sql_connection, run_row("now", kind=kind, as_of_ms=now_ms), [])
    propose(sql_connection, run_row("then", kind=kind, as_of_ms=now_ms + DAY_MS), [])
    assert query("SELECT kind, run_id::text FROM dashboards.newest_runs") == [(kind, uuid_of("now"))]


@pytest.mark.parametrize("name", submit.REPORTS)
def test_every_reporting_job_has_its_newest_run_in_the_view(
    query: Query, sql_connection: PsycopgConnection, name: str
) -> None:
    job = submit.JOBS[name]
    insert_reports(sql_connection, job.subject, [complete_row(job.reports[0], "orders", day) for day in (0, 1)])
    found = query("SELECT kind, as_of, status FROM dashboards.newest_runs")
    assert found == [(name, complete_row(job.reports[0], "orders", 1)["as_of"], None)]


def test_report_as_of_a_future_time_is_not_the_newest_yet(
    owner: Owner, query: Query, sql_connection: PsycopgConnection, now_ms: int
) -> None:
    reports = [report("orders", of=FREQUENCY), report("orders", day=1, of=FREQUENCY)]
    reports[1]["as_of"] = datetime.fromtimestamp(now_ms // 1_000 + 86_400, UTC)
    insert_reports(sql_connection, "rebalances", reports)
    found = query("SELECT kind, as_of FROM dashboards.newest_runs")
    assert found == [("rebalance_frequency_report", reports[0]["as_of"])]
