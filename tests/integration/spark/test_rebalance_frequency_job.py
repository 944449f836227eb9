"""Tests of rebalance_frequency_report against a real Postgres."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from spark_jobs.database import Database, parse_url
from spark_jobs.errors import JobError
from spark_jobs.history import History
from spark_jobs.jobs.rebalance_frequency_report import JOB
from spark_jobs.report_job import ReportArguments, describe, report
from spark_jobs.submit import default_options
from tests.support.databases import Databases
from tests.support.stored_history import (
    BORN,
    DAY,
    GROUP,
    SHARD,
    Row,
    at,
    group,
    insert,
    member,
    rebalance,
    rows,
    session,
    table_rows,
    wait,
)

TABLE = "rebalance_frequency_reports"
ONE_DAY = timedelta(days=1)
RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"


def of_day(day: datetime = DAY, **options: int) -> ReportArguments:
    given = {**default_options(JOB.spec.name), **options}
    return ReportArguments(
        RUN_ID, day + ONE_DAY, day, day + ONE_DAY, is_dry_run=False, read_partitions=3, options=given
    )


# -- one report of many groups ----------------------------------------------------------------------------------

GRACE_MS = 59_999
"""Other than the default, so that a report that ignores it is noticed."""


@pytest.fixture(scope="module")
def days(databases: Databases, spark: SparkSession) -> Iterator[list[dict[str, Row]]]:
    """Report two days as the role for jobs, and return the rows of each by group; tests have groups of their own."""
    url = databases.create()
    as_jobs = parse_url(databases.jobs_url(url))
    with closing(parse_url(url).connect()) as connection, closing(as_jobs.connect()) as own:
        for store in STORED:
            store(connection)
        both = (DAY, DAY + ONE_DAY)
        counts = [report(JOB, spark, as_jobs, own, of_day(day, grace_ms=GRACE_MS)) for day in both]
        found = table_rows(connection, TABLE)
        by_day = [{row["group_id"]: row for row in found if row["interval_start"] == day} for day in both]
        assert (counts, table_rows(connection, f"{TABLE}_staging")) == ([[len(rows)] for rows in by_day], [])
    yield by_day
    databases.drop(url)


@pytest.fixture
def day(days: list[dict[str, Row]]) -> dict[str, Row]:
    """Return the rows of DAY by group."""
    return days[0]


def store_a_day(connection: pg.connection) -> None:
    first = rebalance(at(1), took_s=10, restarts=2)
    second = rebalance(at(2), took_s=30, trigger="session_expired")
    emptied = rebalance(at(3), took_s=5, trigger="member_left", outcome="emptied")
    insert(connection, "rebalances", first, second, emptied)
    insert(connection, "rebalance_members", wait(first, "slow", 6_000), wait(second, "slow", 1_000))
    insert(connection, "rebalance_members", wait(second, "other", 6_500, group_instance_id="pod-1"))
    insert(
        connection,
        "member_sessions",
        session("gone", at(0), at(2)),
        session("back", at(2, 59), at(5), end_reason="left"),
        session("for good", at(0), at(4), client_host="/10.0.0.9", end_reason="rebalance_timeout"),
        session("left", at(0), at(4), end_reason="left"),
    )


def test_report_of_a_groups_day_is_complete(day: dict[str, Row]) -> None:
    assert day[GROUP] == {
        "interval_start": DAY,
        "interval_end": DAY + ONE_DAY,
        "group_id": GROUP,
        "shard_id": SHARD,
        "run_id": RUN_ID,
        "as_of": DAY + ONE_DAY,
        "rebalances": 3,
        "completed": 2,
        "emptied": 1,
        "abandoned": 0,
        "by_trigger": {"member_joined": 1, "member_left": 1, "session_expired": 1},
        "restarts": 2,
        "took_p50_ms": 10_000,
        "took_p95_ms": 30_000,
        "took_max_ms": 30_000,
        "took_total_ms": 45_000,
        "rebalancing_ms": 45_000,
        "existed_ms": 86_400_000,
        "rebalancing_share": 45 / 86_400,
        "evicted": 2,
        "spuriously_evicted": 1,
        "waited_for_member_id": "slow",
        "waited_for_instance_id": None,
        "waited_for_client_id": "client of slow",
        "waited_for_client_host": "/10.0.0.1",
        "waited_for_members": 1,
        "waited_for_ms": 7_000,
        "churn_periods": 0,
        "churn_rebalances": 0,
        "rebalancing_since": None,
        "is_churning": False,
    }


def test_result_is_described_in_one_line() -> None:
    assert describe(JOB, of_day(), [1]) == (
        "rebalance_frequency_report: wrote the report of 2026-11-01T00:00:00+00:00 to 2026-11-02T00:00:00+00:00:"
        " rebalance_frequency_reports 1."
    )
    assert " would write the report of " in describe(JOB, replace(of_day(), is_dry_run=True), [1])


def store_midnights(connection: pg.connection) -> None:
    insert(connection, "rebalances", rebalance(at(24, -60), took_s=90, group_id="over midnight"))
    insert(connection, "rebalances", rebalance(at(24, -60), took_s=60, group_id="until midnight"))


def test_rebalance_over_midnight_counts_on_the_day_it_ended(days: list[dict[str, Row]]) -> None:
    one, other = (rows["over midnight"] for rows in days)
    assert (one["rebalances"], one["rebalancing_ms"], one["rebalancing_since"]) == (0, 60_000, at(24, -60))
    assert (other["rebalances"], other["rebalancing_ms"], other["rebalancing_since"]) == (1, 30_000, None)
    assert (one["took_max_ms"], other["took_max_ms"], other["took_total_ms"]) == (None, 90_000, 90_000)


def test_a_rebalance_that_ends_with_its_interval_counts_in_the_next_one_only(days: list[dict[str, Row]]) -> None:
    one, other = (rows["until midnight"] for rows in days)
    assert (one["rebalances"], one["rebalancing_ms"], one["rebalancing_since"]) == (0, 60_000, at(24, -60))
    assert (other["rebalances"], other["rebalancing_ms"], other["took_max_ms"]) == (1, 0, 60_000)


def store_equal_waits(connection: pg.connection) -> None:
    for names in (("a", "b"), ("b", "a")):
        first, second = (rebalance(at(hour), group_id=f"waits for {names[0]} first") for hour in (1, 2))
        insert(connection, "rebalances", first, second)
        insert(connection, "rebalance_members", wait(first, names[0], 500), wait(second, names[1], 500))


@pytest.mark.parametrize("first", ["a", "b"])
def test_first_member_id_is_returned_for_equal_waits(day: dict[str, Row], first: str) -> None:
    assert day[f"waits for {first} first"]["waited_for_member_id"] == "a"


def store_a_crash_loop(connection: pg.connection) -> None:
    """A new member id each time, and together more than the one long wait for another client."""
    crashes = [rebalance(at(1, 60 * number), group_id="crash loop") for number in range(5)]
    insert(connection, "rebalances", *crashes)
    insert(connection, "rebalance_members", wait(crashes[0], "clicks-2", 61_000, client_id="clicks-2"))
    for number, each in enumerate(crashes):
        insert(connection, "rebalance_members", wait(each, f"clicks-3-{number}", 60_400, client_id="clicks-3"))
    elsewhere = {"client_id": "clicks-3", "client_host": "/10.0.0.2"}
    insert(connection, "rebalance_members", wait(crashes[1], "clicks-3-a", 60_900, **elsewhere))


def test_the_member_ids_of_a_crash_loop_are_one_consumer(day: dict[str, Row]) -> None:
    named = ("member_id", "client_id", "client_host", "members", "ms")
    found = [day["crash loop"][f"waited_for_{name}"] for name in named]
    assert found == ["clicks-3-0", "clicks-3", "/10.0.0.1", 5, 302_000]


def died(created_at: datetime, died_at: datetime) -> Row:
    return transition(created_at, died_at, "Empty", "Dead")


def transition(created_at: datetime, moment: datetime, before: str | None, state: str) -> Row:
    key = {"group_id": "recreated", "shard_id": SHARD, "group_created_at": created_at, "at": moment}
    return {**key, "generation": 3, "from_state": before, "to_state": state, "reason": "test"}


def store_lifetimes(connection: pg.connection) -> None:
    """Store a new group, and one with a lifetime since before DAY, one with offsets only, and a present one."""
    new = rebalance(at(19), took_s=3_600, group_id="new", group_created_at=at(18))
    insert(connection, "rebalances", new, rebalance(at(-1), took_s=2 * 3_600, group_id="recreated"))
    second, third = at(6), at(20)
    insert(connection, "group_transitions", died(BORN, at(2)), transition(second, second, None, "Empty"))
    insert(connection, "group_transitions", died(second, at(7)), transition(third, third, None, "Empty"))
    under_way = {"rebalance_started_at": at(22), "rebalance_trigger": "admin"}
    insert(connection, "groups", group("recreated", created_at=third, **under_way))


def test_share_of_a_new_group_is_of_its_lifetime(day: dict[str, Row]) -> None:
    row = day["new"]
    assert (row["existed_ms"], row["rebalancing_ms"], row["rebalancing_share"]) == (6 * 3_600_000, 3_600_000, 1 / 6)


def test_lifetimes_of_a_recreated_group_are_summed(day: dict[str, Row]) -> None:
    row = day["recreated"]
    assert (row["existed_ms"], row["rebalancing_ms"]) == ((2 + 1 + 4) * 3_600_000, (1 + 2) * 3_600_000)
    assert row["rebalancing_share"] == 3 / 7


UNDER_WAY = {"long": at(23.5), "just": at(24, -599), "tomorrow": at(24)}


def store_churn(connection: pg.connection) -> None:
    insert(connection, "rebalances", *(rebalance(at(1, 120 * n), group_id="churning") for n in range(5)))
    insert(connection, "rebalances", *(rebalance(at(1, 151 * n), group_id="calm") for n in range(5)))
    insert(connection, "rebalances", rebalance(at(1), group_id="falls back", restarts=10))
    for name, started_at in UNDER_WAY.items():
        insert(connection, "groups", group(name, rebalance_started_at=started_at, rebalance_trigger="admin"))


def test_rebalance_churn_and_stuck_groups_are_reported(day: dict[str, Row]) -> None:
    found = {name: day[name] for name in ("churning", "calm", "falls back", *UNDER_WAY) if name in day}
    churn = {name: (row["churn_periods"], row["churn_rebalances"]) for name, row in found.items()}
    assert churn == {"churning": (1, 5), **dict.fromkeys(("calm", "falls back", "long", "just"), (0, 0))}
    assert {name for name, row in found.items() if row["is_churning"]} == {"falls back", "long"}
    assert {name: row["rebalancing_since"] for name, row in found.items() if row["rebalancing_since"]} == {
        "long": at(23.5),
        "just": at(24, -599),
    }


def store_rejoins(connection: pg.connection) -> None:
    """One is back as the same instance, one from the same process (as a present member), one at the last moment."""
    name, pod = {"group_id": "rejoined"}, {"group_id": "rejoined", "group_instance_id": "pod"}
    insert(
        connection,
        "member_sessions",
        session("gone 1", at(0), at(1), client_host="a", **pod),
        session("back 1", at(1, 1), at(2), client_host="b", client_id="new", end_reason="left", **pod),
        session("gone 2", at(0), at(3), **name),
        session("gone 3", at(0), at(5), client_id="last", **name),
        session("back 3", at(5, 59.999), at(7), client_id="last", end_reason="hour", **name),
        session("gone 4", at(0), at(9), client_id="other host", **name),
        session("back 4", at(9, 1), at(10), client_id="other host", client_host="b", end_reason="left", **name),
        session("gone 5", at(0), at(11), client_id="too early", **name),
        session("back 5", at(11, -1), at(12), client_id="too early", end_reason="left", **name),
        session("gone 6", at(0), at(13), client_id="too late", **name),
        session("back 6", at(13, 60), at(14), client_id="too late", end_reason="left", **name),
    )
    insert(connection, "groups", group("rejoined"))
    insert(connection, "members", member("back 2", ["t"], {}, joined_at=at(3, 30), **name))


def test_rejoin_within_the_grace_is_a_spurious_eviction(day: dict[str, Row]) -> None:
    assert (day["rejoined"]["evicted"], day["rejoined"]["spuriously_evicted"]) == (6, 3)


def store_crashes(connection: pg.connection) -> None:
    """A process crashes, restarts before its eviction, and crashes again: each time a client joins soon after."""
    insert(
        connection,
        "member_sessions",
        session("first", at(-1), at(0, 5), last_heartbeat_at=at(0, -10), group_id="crashed"),
        session("second", at(0, -2), at(0, 30), last_heartbeat_at=at(0, 15), group_id="crashed"),
        session("third", at(0, 18), at(1), end_reason="left", group_id="crashed"),
    )


def test_silent_client_with_a_successor_had_crashed(day: dict[str, Row]) -> None:
    assert (day["crashed"]["evicted"], day["crashed"]["spuriously_evicted"]) == (2, 0)


def test_a_group_without_rebalances_is_reported_with_its_evictions_and_lifetime(day: dict[str, Row]) -> None:
    row = day["crashed"]
    assert (row["shard_id"], row["rebalances"], row["by_trigger"]) == (SHARD, 0, {})
    assert (row["existed_ms"], row["rebalancing_share"]) == (86_400_000, 0.0)


STORED = (
    store_a_day,
    store_midnights,
    store_equal_waits,
    store_a_crash_loop,
    store_lifetimes,
    store_churn,
    store_rejoins,
    store_crashes,
)


# -- runs ---------------------------------------------------------------------------------------------------------


def test_an_interval_that_is_not_over_is_refused(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    tomorrow = datetime.now(DAY.tzinfo) + ONE_DAY
    with pytest.raises(JobError, match="can be reported from"):
        report(JOB, spark, database, connection, of_day(tomorrow))
    with pytest.raises(JobError, match="is empty"):
        report(JOB, spark, database, connection, replace(of_day(), interval_end=DAY))


def test_each_history_is_read_once(spark: SparkSession, database: Database, connection: pg.connection) -> None:
    """Each read is a query of all its days in Postgres."""
    (found,) = JOB.find(History(spark, database, connection), of_day())
    plan = found._jdf.queryExecution().executedPlan().toString()
    relations = re.findall(r"JDBCRelation\(.*?\) AS (\w+)\)", plan, re.DOTALL)
    assert Counter(relations) == {
        "rebalances_within": 1,
        "lifetimes_within": 1,
        "waits_within": 1,
        "evictions_within": 1,
        "joins_within": 1,
    }


# -- a backfill ---------------------------------------------------------------------------------------------------

DAYS = 3
GROUPS = [f"group {number}" for number in range(30)]
"""A run costs much and a group little, so a few days of many groups show as much as many days of a few."""
FIRST_DAY = DAY - DAYS * ONE_DAY


@pytest.mark.slow
def test_backfill_of_three_days_equals_three_daily_runs(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    """A daily run reads rows stored by then, and open rebalances in `groups`; a backfill reads completed ones."""
    everything = _three_days(random.Random(20261101))
    for day in range(DAYS):
        now = FIRST_DAY + (day + 1) * ONE_DAY + timedelta(minutes=5)
        for table in everything:
            rows(connection, f"TRUNCATE {table}")
        rows(connection, "DELETE FROM groups; DELETE FROM members")
        _store_as_of(connection, everything, now)
        report(JOB, spark, database, connection, replace(of_day(FIRST_DAY + day * ONE_DAY), read_partitions=1))
    daily = table_rows(connection, TABLE)
    assert len(daily) > DAYS
    assert {row["is_churning"] for row in daily} == {True, False}
    assert sum(row["spuriously_evicted"] for row in daily) > 0
    rows(connection, f"TRUNCATE {TABLE}")
    for day in reversed(range(DAYS)):
        report(JOB, spark, database, connection, replace(of_day(FIRST_DAY + day * ONE_DAY), read_partitions=1))
    assert table_rows(connection, TABLE) == daily


def _three_days(chance: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Make up the history of all groups: rebalances, some of them over midnight, and evicted members."""
    past: dict[str, list[dict[str, Any]]] = {"rebalances": [], "rebalance_members": [], "member_sessions": []}
    for name in GROUPS:
        now = FIRST_DAY
        while now < DAY:
            now += timedelta(seconds=chance.choice([30, 600, 40_000, 86_000]))
            took_s = chance.choice([1, 20, 5_000, 50_000])
            one = rebalance(now, took_s, group_id=name, trigger=chance.choice(["member_joined", "session_expired"]))
            past["rebalances"].append(one)
            past["rebalance_members"].append(wait(one, chance.choice(["m-1", "m-2"]), chance.randrange(1, 9_999)))
            reconnected_at = now + timedelta(seconds=chance.choice([1, 59, 61]))
            gone, back = (
                session(f"gone {now}", BORN, now),
                session(f"back {now}", reconnected_at, reconnected_at + timedelta(hours=1)),
            )
            past["member_sessions"] += [{**gone, "group_id": name}, {**back, "group_id": name, "end_reason": "hour"}]
            now += timedelta(seconds=took_s)
    return past


def _store_as_of(connection: pg.connection, past: dict[str, list[dict[str, Any]]], now: datetime) -> None:
    """Store what nodes would have stored by a time; what is open then is in `groups` and `members`."""
    over = {"rebalances": "completed_at", "rebalance_members": "completed_at", "member_sessions": "ended_at"}
    for table, ended in over.items():
        insert(connection, table, *(row for row in past[table] if row[ended] <= now))
    under_way = {row["group_id"]: row for row in past["rebalances"] if row["started_at"] <= now < row["completed_at"]}
    for name in GROUPS:
        one = under_way.get(name)
        open_one = {"rebalance_started_at": one["started_at"], "rebalance_trigger": one["trigger"]} if one else {}
        insert(connection, "groups", group(name, **open_one))
    present = [row for row in past["member_sessions"] if row["joined_at"] <= now < row["ended_at"]]
    staying = {(row["group_id"], row["member_id"]): row for row in present}
    for (name, member_id), row in staying.items():
        insert(connection, "members", member(member_id, ["t"], {}, group_id=name, joined_at=row["joined_at"]))
