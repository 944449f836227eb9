"""Tests of rebalance_frequency_report against a real Postgres."""

import random
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.jobs.rebalance_frequency_report import JOB
from spark_jobs.report_job import ReportArguments, describe, report
from spark_jobs.submit import default_options
from tests.support.stored_history import (
    BORN,
    DAY,
    GROUP,
    SHARD,
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


def report_rows(connection: pg.connection) -> dict[str, dict[str, Any]]:
    """Return the rows by group."""
    return {row["group_id"]: row for row in table_rows(connection, TABLE)}


# -- columns of a row -------------------------------------------------------------------------------------------


def test_report_of_a_groups_day_is_complete(spark: SparkSession, database: Database, connection: pg.connection) -> None:
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
    counts = report(JOB, spark, database, connection, of_day())
    (row,) = table_rows(connection, TABLE)
    assert row == {
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
    assert describe(JOB, of_day(), counts) == (
        "rebalance_frequency_report: wrote the report of 2026-11-01T00:00:00+00:00 to 2026-11-02T00:00:00+00:00:"
        " rebalance_frequency_reports 1."
    )
    assert table_rows(connection, f"{TABLE}_staging") == []


@pytest.mark.slow
def test_rebalance_over_midnight_counts_on_the_day_it_ended(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    insert(connection, "rebalances", rebalance(at(24, -60), took_s=90))
    for day in (DAY, DAY + ONE_DAY):
        report(JOB, spark, database, connection, of_day(day))
    one, other = table_rows(connection, TABLE)
    assert (one["rebalances"], one["rebalancing_ms"], one["rebalancing_since"]) == (0, 60_000, at(24, -60))
    assert (other["rebalances"], other["rebalancing_ms"], other["rebalancing_since"]) == (1, 30_000, None)
    assert (one["took_max_ms"], other["took_max_ms"], other["took_total_ms"]) == (None, 90_000, 90_000)


@pytest.mark.slow
def test_a_rebalance_that_ends_with_its_interval_counts_in_the_next_one_only(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    insert(connection, "rebalances", rebalance(at(24, -60), took_s=60))
    for day in (DAY, DAY + ONE_DAY):
        report(JOB, spark, database, connection, of_day(day))
    one, other = table_rows(connection, TABLE)
    assert (one["rebalances"], one["rebalancing_ms"], one["rebalancing_since"]) == (0, 60_000, at(24, -60))
    assert (other["rebalances"], other["rebalancing_ms"], other["took_max_ms"]) == (1, 0, 60_000)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_first_member_id_is_returned_for_equal_waits(
    spark: SparkSession, database: Database, connection: pg.connection, names: tuple[str, str]
) -> None:
    first, second = rebalance(at(1)), rebalance(at(2))
    insert(connection, "rebalances", first, second)
    insert(connection, "rebalance_members", wait(first, names[0], 500), wait(second, names[1], 500))
    report(JOB, spark, database, connection, of_day())
    assert report_rows(connection)[GROUP]["waited_for_member_id"] == "a"


def test_the_member_ids_of_a_crash_loop_are_one_consumer(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    """A new member id each time, and together more than the one long wait for another client."""
    crashes = [rebalance(at(1, 60 * number)) for number in range(5)]
    insert(connection, "rebalances", *crashes)
    insert(connection, "rebalance_members", wait(crashes[0], "clicks-2", 61_000, client_id="clicks-2"))
    for number, each in enumerate(crashes):
        insert(connection, "rebalance_members", wait(each, f"clicks-3-{number}", 60_400, client_id="clicks-3"))
    elsewhere = {"client_id": "clicks-3", "client_host": "/10.0.0.2"}
    insert(connection, "rebalance_members", wait(crashes[1], "clicks-3-a", 60_900, **elsewhere))
    report(JOB, spark, database, connection, of_day())
    row = report_rows(connection)[GROUP]
    named = ("member_id", "client_id", "client_host", "members", "ms")
    assert [row[f"waited_for_{name}"] for name in named] == ["clicks-3-0", "clicks-3", "/10.0.0.1", 5, 302_000]


def died(created_at: datetime, died_at: datetime) -> dict[str, Any]:
    return transition(created_at, died_at, "Empty", "Dead")


def transition(created_at: datetime, moment: datetime, before: str | None, state: str) -> dict[str, Any]:
    key = {"group_id": GROUP, "shard_id": SHARD, "group_created_at": created_at, "at": moment}
    return {**key, "generation": 3, "from_state": before, "to_state": state, "reason": "test"}


def test_share_of_a_new_group_is_of_its_lifetime(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    born = at(18)
    insert(connection, "rebalances", rebalance(at(19), took_s=3_600, group_created_at=born))
    report(JOB, spark, database, connection, of_day())
    row = report_rows(connection)[GROUP]
    assert (row["existed_ms"], row["rebalancing_ms"], row["rebalancing_share"]) == (6 * 3_600_000, 3_600_000, 1 / 6)


def test_lifetimes_of_a_recreated_group_are_summed(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    """A lifetime before the interval, one with offsets only, and a current one with a rebalance under way."""
    second, third = at(6), at(20)
    insert(connection, "rebalances", rebalance(at(-1), took_s=2 * 3_600))
    insert(connection, "group_transitions", died(BORN, at(2)), transition(second, second, None, "Empty"))
    insert(connection, "group_transitions", died(second, at(7)), transition(third, third, None, "Empty"))
    insert(connection, "groups", group(created_at=third, rebalance_started_at=at(22), rebalance_trigger="admin"))
    report(JOB, spark, database, connection, of_day())
    row = report_rows(connection)[GROUP]
    assert (row["existed_ms"], row["rebalancing_ms"]) == ((2 + 1 + 4) * 3_600_000, (1 + 2) * 3_600_000)
    assert row["rebalancing_share"] == 3 / 7


def test_rebalance_churn_and_stuck_groups_are_reported(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    insert(connection, "rebalances", *(rebalance(at(1, 120 * n), group_id="churning") for n in range(5)))
    insert(connection, "rebalances", *(rebalance(at(1, 151 * n), group_id="calm") for n in range(5)))
    insert(connection, "rebalances", rebalance(at(1), group_id="falls back", restarts=10))
    open_ones = {"long": at(23.5), "just": at(24, -599), "tomorrow": at(24)}
    started = [{"rebalance_started_at": start, "rebalance_trigger": "admin"} for start in open_ones.values()]
    insert(connection, "groups", *(group(name, **each) for name, each in zip(open_ones, started, strict=True)))
    report(JOB, spark, database, connection, of_day())
    found = report_rows(connection)
    assert {
        name: (row["churn_periods"], row["churn_rebalances"]) for name, row in found.items() if row["completed"] > 1
    } == {
        "churning": (1, 5),
        "calm": (0, 0),
    }
    assert {name for name, row in found.items() if row["is_churning"]} == {"falls back", "long"}
    assert {name: row["rebalancing_since"] for name, row in found.items() if row["rebalancing_since"]} == {
        "long": at(23.5),
        "just": at(24, -599),
    }


@pytest.mark.parametrize(("grace_ms", "count"), [(60_000, 3), (59_999, 2)])
def test_rejoin_within_the_grace_is_a_spurious_eviction(
    spark: SparkSession, database: Database, connection: pg.connection, grace_ms: int, count: int
) -> None:
    """One is back as the same instance, one from the same process (as a present member), one at the last moment."""
    pod = {"group_instance_id": "pod"}
    insert(
        connection,
        "member_sessions",
        session("gone 1", at(0), at(1), client_host="a", **pod),
        session("back 1", at(1, 1), at(2), client_host="b", client_id="new", end_reason="left", **pod),
        session("gone 2", at(0), at(3)),
        session("gone 3", at(0), at(5), client_id="last"),
        session("back 3", at(5, 60), at(7), client_id="last", end_reason="hour"),
        session("gone 4", at(0), at(9), client_id="other host"),
        session("back 4", at(9, 1), at(10), client_id="other host", client_host="b", end_reason="left"),
        session("gone 5", at(0), at(11), client_id="too early"),
        session("back 5", at(11, -1), at(12), client_id="too early", end_reason="left"),
    )
    insert(connection, "groups", group())
    insert(connection, "members", member("back 2", ["t"], {}, joined_at=at(3, 30)))
    report(JOB, spark, database, connection, of_day(grace_ms=grace_ms))
    (row,) = table_rows(connection, TABLE)
    assert (row["evicted"], row["spuriously_evicted"]) == (5, count)


def test_silent_client_with_a_successor_had_crashed(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    """A process crashes, restarts before its eviction, and crashes again: each time a client joins soon after."""
    insert(
        connection,
        "member_sessions",
        session("first", at(-1), at(0, 5), last_heartbeat_at=at(0, -10)),
        session("second", at(0, -2), at(0, 30), last_heartbeat_at=at(0, 15)),
        session("third", at(0, 18), at(1), end_reason="left"),
    )
    report(JOB, spark, database, connection, of_day())
    (row,) = table_rows(connection, TABLE)
    assert (row["evicted"], row["spuriously_evicted"]) == (2, 0)


# -- runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_second_run_replaces_only_its_interval(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    insert(connection, "rebalances", rebalance(at(1)), rebalance(at(25), group_id="later"))
    report(JOB, spark, database, connection, of_day())
    report(JOB, spark, database, connection, of_day(DAY + ONE_DAY))
    before = table_rows(connection, TABLE)
    rows(connection, "UPDATE rebalance_frequency_reports SET rebalances = 99, group_id = 'x' WHERE group_id = 'orders'")
    report(JOB, spark, database, connection, of_day())
    assert table_rows(connection, TABLE) == before


def test_dry_run_counts_and_changes_no_table(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    insert(connection, "rebalances", rebalance(at(1)))
    dry = replace(of_day(), is_dry_run=True)
    assert describe(JOB, dry, report(JOB, spark, database, connection, dry)).endswith(f"{TABLE} 1.")
    assert table_rows(connection, TABLE) == table_rows(connection, f"{TABLE}_staging") == []


@pytest.mark.slow
def test_reports_are_kept_for_report_days(spark: SparkSession, database: Database, connection: pg.connection) -> None:
    insert(connection, "rebalances", *(rebalance(at(24 * day + 1), group_id=f"day {day}") for day in range(3)))
    for day in range(3):
        report(JOB, spark, database, connection, of_day(DAY + day * ONE_DAY, report_days=1))
    assert report_rows(connection).keys() == {"day 1", "day 2"}


def test_an_interval_that_is_not_over_is_refused(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    tomorrow = datetime.now(DAY.tzinfo) + ONE_DAY
    with pytest.raises(JobError, match="can be reported from"):
        report(JOB, spark, database, connection, of_day(tomorrow))
    with pytest.raises(JobError, match="is empty"):
        report(JOB, spark, database, connection, replace(of_day(), interval_end=DAY))


def test_the_role_for_jobs_is_enough(spark: SparkSession, database: Database, connection: pg.connection) -> None:
    insert(connection, "rebalances", rebalance(at(1)))
    rows(connection, "CREATE ROLE jobs_reporting LOGIN PASSWORD 'p@ss/word' IN ROLE muster_jobs")
    as_jobs = replace(database, user="jobs_reporting", password="p@ss/word")
    with closing(as_jobs.connect()) as own:
        report(JOB, spark, as_jobs, own, of_day())
    rows(connection, "DROP ROLE jobs_reporting")
    assert report_rows(connection).keys() == {GROUP}


# -- a backfill ---------------------------------------------------------------------------------------------------

DAYS = 10
GROUPS = [f"group {number}" for number in range(9)]
"""A run costs much and a group little, so a few days of many groups show as much as many days of a few."""
FIRST_DAY = DAY - DAYS * ONE_DAY


@pytest.mark.slow
def test_backfill_of_ten_days_equals_ten_daily_runs(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    """A daily run reads rows stored by then, and open rebalances in `groups`; a backfill reads completed ones."""
    everything = _ten_days(random.Random(20261101))
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


def _ten_days(chance: random.Random) -> dict[str, list[dict[str, Any]]]:
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
