"""Tests of timeout_advice against a real Postgres."""

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg2.extensions as pg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from coordinator_core.analytics.advice.advise import advise
from coordinator_core.analytics.advice.policy import FIXED_MS, GRACE_MS, Bounds, CurrentTimeouts, Policy
from coordinator_core.analytics.advice.steps import STEPS_MS, place_of
from coordinator_core.queries.runner import Queries
from coordinator_core.queries.tuning_history import TuningQuery, read_tuning_history
from spark_jobs.database import Database, parse_url
from spark_jobs.errors import JobError
from spark_jobs.history import History, Relation, day_predicates
from spark_jobs.jdbc import shard_predicates
from spark_jobs.jobs.timeout_advice import JOB, defaults, find_evidence, wall_ms, window
from spark_jobs.report_job import ReportArguments, report
from spark_jobs.report_relations import (
    ASSIGNED,
    ended_rebalances_within,
    evictions_and_exits_within,
    missed_waits_within,
    new_member_rebalances_within,
    reconnects_within,
    rejoins_within,
    sessions_within,
)
from spark_jobs.rules import advice as columns
from spark_jobs.rules.advice_rows import evidence_of
from spark_jobs.submit import default_options
from spark_jobs.transforms.timeout_advice import END_COLUMNS, WAIT_COLUMNS, evictions
from tests.integration.spark.live_groups import rows
from tests.integration.spark.rows import NOW
from tests.support.databases import Databases
from tests.support.histories import KINDS
from tests.support.random_history import DAY, Past, scattered
from tests.support.stored_history import group, insert, member

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
OPTIONS = default_options("timeout_advice")
ARGUMENTS = ReportArguments(RUN_ID, NOW, NOW - DAY, NOW, is_dry_run=False, read_partitions=3, options=OPTIONS)

GRACE = timedelta(milliseconds=GRACE_MS)

# -- rules ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_columns_count_a_length_in_the_same_step_as_the_pure_rule(spark: SparkSession) -> None:
    bounds_ms = [step_ms + beside for step_ms in STEPS_MS for beside in (-1, 0, 1)]
    asked = [0, *bounds_ms, *range(17, 20_000_000, 99_991)]
    frame = spark.createDataFrame([(length_ms,) for length_ms in [*asked, None]], "length_ms bigint")
    answers = frame.select(columns.place_of(sf.col("length_ms")).alias("place")).collect()
    assert [answer.place for answer in answers] == [*map(place_of, asked), None]


# -- what is counted ------------------------------------------------------------------------------------------


@pytest.fixture
def past() -> Past:
    return Past(NOW)


@pytest.mark.slow
def test_spark_counts_equal_those_of_the_coordinator(
    spark: SparkSession, database: Database, connection: pg.connection, queries: Queries, past: Past
) -> None:
    """Both computations return the same evidence for random histories, with parallel reads in any order."""
    groups = [f"scattered {seed}" for seed in range(12)]
    for seed, group_id in enumerate(groups):
        scattered(past, group_id, seed)
        past.member(group_id, "c0", 60_000, NOW - timedelta(hours=seed), range(seed))
        past.assigned(group_id, "range")
    groups.append(just_now(past))
    past.store(connection)
    found = {row.group_id: row for row in evidence_rows(spark, database, connection)}
    assert sorted(found) == sorted(groups)
    for group_id in groups:
        start_ms, end_ms = map(wall_ms, window(ARGUMENTS))
        question = TuningQuery(group_id, start_ms, end_ms, GRACE_MS, max_rows=10**6, max_evictions=10**6)
        advice = queries.read(read_tuning_history, question)
        assert evidence_of(found[group_id].asDict(recursive=True)) == advice.evidence(), group_id
        assigned = (found[group_id].protocol_name, found[group_id].partitions)
        assert assigned == (advice.assigned.protocol_name, advice.assigned.partitions)
        present = (found[group_id].present_session_ms, found[group_id].present_rebalance_ms)
        assert present == (advice.requested_session_ms, advice.requested_rebalance_ms)


def just_now(past: Past) -> str:
    """Add a group of two members that were evicted within the last minute, of which one has rejoined."""
    second = timedelta(seconds=1)
    past.session("just now", "may come", NOW - DAY, NOW - 30 * second, "session_expired")
    past.session("just now", "is back", NOW - DAY, NOW - 20 * second, "session_expired")
    past.session("just now", "is back", NOW - 10 * second, NOW + timedelta(hours=1), "hour")
    past.member("just now", "operator", 60_000)
    return "just now"


def evidence_rows(spark: SparkSession, database: Database, connection: pg.connection) -> list[Any]:
    history = History(spark, database, connection, shard_predicates(50, 3))
    return find_evidence(history, ARGUMENTS).collect()


@pytest.fixture(scope="module")
def present_settings(databases: Databases, spark: SparkSession) -> Iterator[dict[str, tuple[int | None, ...]]]:
    """Find the effective settings of several groups."""
    past, url = Past(NOW), databases.create()
    for name in ("asks", "set", "gone"):
        past.session(name, "c", NOW - DAY, NOW - timedelta(hours=1), "hour", timeout_ms=9_000)
    past.member("asks", "c", 60_000)
    past.member("set", "c", 60_000)
    last, before = NOW - timedelta(microseconds=1), NOW - timedelta(microseconds=2)
    for timeouts_ms in ((30_000, 10_000), (10_000, 30_000)):
        name = f"first {timeouts_ms[0]}"
        past.session(name, "longer, but before", NOW - DAY, before, "left", timeout_ms=60_000)
        for timeout_ms in timeouts_ms:
            past.session(name, f"c{timeout_ms}", NOW - DAY, last, "left", timeout_ms=timeout_ms)
    database = parse_url(url)
    with closing(database.connect()) as connection, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS", "700")
        past.store(connection)
        rows(connection, "INSERT INTO cluster_configs VALUES ('group_min_session_timeout_ms', '8000', 'test', now())")
        rows(connection, "INSERT INTO group_configs VALUES ('set', 'session_timeout_ms', '12000', 'test', now())")
        rows(connection, "INSERT INTO group_configs VALUES ('set', 'rebalance_timeout_ms', '70000', 'test', now())")
        rows(connection, "INSERT INTO group_configs VALUES ('set', 'heartbeat_interval_ms', '9000', 'test', now())")
        evidence = evidence_rows(spark, database, connection)
    yield {
        row.group_id: (
            row.present_session_ms,
            row.present_rebalance_ms,
            row.present_initial_delay_ms,
            row.least_session_ms,
        )
        for row in evidence
    }
    databases.drop(url)


@pytest.mark.slow
def test_effective_settings_fall_back_to_the_members_requests(
    present_settings: dict[str, tuple[int | None, ...]],
) -> None:
    assert {name: present_settings[name] for name in ("asks", "set", "gone")} == {
        "asks": (10_000, 60_000, 700, 8_000),
        "set": (12_000, 70_000, 700, 9_001),
        "gone": (9_000, None, 700, 8_000),
    }


@pytest.mark.slow
@pytest.mark.parametrize("first_ms", [30_000, 10_000])
def test_last_of_simultaneous_sessions_has_the_longest_timeout(
    present_settings: dict[str, tuple[int | None, ...]], first_ms: int
) -> None:
    assert present_settings[f"first {first_ms}"][0] == 30_000


def consumers(spark: SparkSession, count: int) -> DataFrame:
    """Return members of one group."""
    return spark.range(count).select(
        sf.lit("g").alias("group_id"),
        sf.lit(1).alias("shard_id"),
        sf.concat(sf.lit("m"), "id").alias("member_id"),
        sf.lit(None).cast("string").alias("group_instance_id"),
        sf.col("id").cast("string").alias("client_id"),
        sf.lit("host").alias("client_host"),
    )


def counted(gone: DataFrame, back: DataFrame, silent_since: datetime, reason: str, grace_ms: int) -> Any:  # noqa: ANN401 - rows
    """Return the evictions of members that were last heard long before they ended, and were back at that instant."""
    ended_at = sf.lit(NOW - timedelta(hours=1))
    ended = gone.withColumns({"session_timeout_ms": sf.lit(10_000), "ended_at": ended_at, "end_reason": sf.lit(reason)})
    ended = ended.withColumn("silent_since", sf.lit(silent_since)).select(*END_COLUMNS)
    waits = gone.sparkSession.createDataFrame([], schema=f"{', '.join(f'{name} string' for name in WAIT_COLUMNS)}")
    reconnects = back.withColumn("member_id", sf.lit("new")).withColumn("joined_at", ended_at)
    ((row,),) = (
        evictions(ended, reconnects, waits, end_ms=wall_ms(NOW), grace_ms=grace_ms).select("evictions").collect()
    )
    return row


def test_a_short_grace_and_a_long_silence_are_no_more_work(spark: SparkSession) -> None:
    one = consumers(spark, 1)
    (row,) = counted(one, one, NOW - 30 * DAY, "session_expired", grace_ms=0)
    assert (row.end_reason, row.place, row["count"]) == ("session_expired", place_of(10_000), 1)


def test_members_that_left_after_a_long_silence_are_no_more_work(spark: SparkSession) -> None:
    """Those of a mirror were heard last when they joined, perhaps months ago."""
    many = consumers(spark, 2_000)
    (row,) = counted(many, many, NOW - 300 * DAY, "left_or_expired", GRACE_MS)
    assert (row.is_restart, row["count"]) == (True, 2_000)


@pytest.mark.parametrize("text", ["soon", "0", "99999999999"])
def test_setting_that_nodes_reject_is_reported_in_one_sentence(text: str) -> None:
    with pytest.raises(JobError, match="MUSTER_SESSION_TIMEOUT_MS"):
        defaults({"MUSTER_SESSION_TIMEOUT_MS": text})


# -- what is read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "relation"),
    [
        ("member_sessions", sessions_within(*window(ARGUMENTS))),
        ("member_sessions", evictions_and_exits_within(*window(ARGUMENTS))),
        ("member_sessions", reconnects_within(*window(ARGUMENTS), GRACE)),
        ("rebalances", missed_waits_within(*window(ARGUMENTS))),
        ("rebalance_members", missed_waits_within(*window(ARGUMENTS))),
        ("rebalance_members", rejoins_within(*window(ARGUMENTS))),
        ("rebalances", new_member_rebalances_within(*window(ARGUMENTS))),
        ("rebalances", ended_rebalances_within(*window(ARGUMENTS))),
    ],
)
def test_only_relevant_days_and_requested_shards_are_read(
    connection: pg.connection, table: str, relation: Relation
) -> None:
    for day in ("2026-10-01", "2026-11-10", "2026-12-24"):
        name = f"{table}_p{day.replace('-', '')}"
        bounds = f"FROM ('{day} 00:00+00') TO ('{day} 23:00+00')"
        rows(connection, f"CREATE TABLE {name} PARTITION OF {table} FOR VALUES {bounds}")
    shards = shard_predicates(50, 3)[1]
    explained = f"EXPLAIN SELECT * FROM {relation.in_postgres} WHERE {shards}"  # noqa: S608 - ours
    plan = "\n".join(line for (line,) in rows(connection, explained))
    assert set(re.findall(rf"{table}_p\d+", plan)) == {f"{table}_p20261110"}
    assert "shard_id >= 16" in plan


def test_reads_of_a_window_cover_disjoint_days(connection: pg.connection) -> None:
    start, end = window(ARGUMENTS)
    days = [f"{start + number * DAY:%Y%m%d}" for number in range(29)]
    for day in days:
        bounds = f"FROM ('{day} 00:00+00') TO ('{day} 23:59:59+00')"
        rows(connection, f"CREATE TABLE member_sessions_p{day} PARTITION OF member_sessions FOR VALUES {bounds}")
    for relation in (
        sessions_within(start, end),
        evictions_and_exits_within(start, end),
        reconnects_within(start, end, GRACE),
    ):
        asked = day_predicates(relation.at, start, end, 4)
        explained = [f"EXPLAIN SELECT * FROM {relation.in_postgres} WHERE {each}" for each in asked]  # noqa: S608 - ours
        plans = ["\n".join(line for (line,) in rows(connection, each)) for each in explained]
        looked_through = [set(re.findall(r"member_sessions_p(\d+)", plan)) for plan in plans]
        assert [len(each) for each in looked_through] == [7, 7, 7, 8]
        assert set[str]().union(*looked_through) == set(days)


def test_rows_outside_of_the_window_are_filtered_in_postgres(connection: pg.connection, past: Past) -> None:
    minute = timedelta(minutes=1)
    past.session("g", "too early", NOW - 40 * DAY, NOW - 28 * DAY - minute, "left")
    past.session("g", "first", NOW - 40 * DAY, NOW - 28 * DAY, "left")
    past.session("g", "last", NOW - DAY, NOW - minute, "left")
    past.session("g", "came back in time", NOW + minute, NOW + 60 * minute, "hour")
    past.session("g", "came too late", NOW + 2 * minute, NOW + 60 * minute, "hour")
    past.session("g", "was there before", NOW - DAY, NOW + 25 * 60 * minute, "left")
    past.member("g", "is here since then", 60_000, NOW)
    past.member("g", "is here since later", 60_000, NOW + 2 * minute)
    past.store(connection)

    def found(relation: Relation, column: str) -> list[Any]:
        return [value for (value,) in rows(connection, f"SELECT {column} FROM {relation.in_postgres} ORDER BY 1")]  # noqa: S608 - ours

    assert found(sessions_within(*window(ARGUMENTS)), "ended_at") == [NOW - 28 * DAY, NOW - minute]
    came = found(reconnects_within(*window(ARGUMENTS), GRACE), "client_id")
    assert came == ["came back in time", "is here since then", "last"]


def test_assignment_that_cannot_be_read_leaves_other_groups_their_advice(connection: pg.connection) -> None:
    insert(connection, "groups", group("damaged"), group())
    broken: list[object] = [{"topic": "t", "partitions": 3}, {"topic": "t"}, {"partitions": [0]}]
    insert(connection, "members", member("a", ["t"], {}, group_id="damaged", assignment=broken))
    insert(connection, "members", member("b", ["t"], {"t": {0: 1, 1: 1}}))
    found = dict(rows(connection, f"SELECT group_id, partitions FROM {ASSIGNED}"))  # noqa: S608 - ours
    assert found == {"damaged": 1, "orders": 2}


# -- what is advised ------------------------------------------------------------------------------------------


SEEDS = range(3)
KNOWN = {f"{kind}-{seed}" for kind in KINDS for seed in SEEDS}
"""Groups of each kind, with the history of a whole window."""


class Advised(NamedTuple):
    """Two reports on one interval, between which history has gone on, and the database."""

    first: dict[str, dict[str, Any]]
    second: dict[str, dict[str, Any]]
    url: str


@pytest.fixture(scope="module")
def advised(databases: Databases, spark: SparkSession) -> Iterator[Advised]:
    """Report twice as the role for jobs; return the rows by group."""
    past, url = Past(NOW), databases.create()
    for kind in KINDS:
        for seed in SEEDS:
            past.group(kind, seed)
    past.group("stalling", 3, days=1)
    flapping = past.group("flapping", 5)
    slow_to_join(past)
    later = Past(NOW + 20 * DAY)
    later.session(flapping, "steady", NOW, NOW + 2 * DAY, "session_expired")
    later.session(flapping, "steady", NOW + 2 * DAY, NOW + 3 * DAY, "left")
    as_jobs = parse_url(databases.jobs_url(url))
    with closing(parse_url(url).connect()) as connection, closing(as_jobs.connect()) as own:
        found = []
        for added in (past, later):
            added.store(connection)
            counts = report(JOB, spark, as_jobs, own, ARGUMENTS)
            reported = rows(connection, "SELECT row_to_json(timeout_advice) FROM timeout_advice")
            found.append({row["group_id"]: row for (row,) in reported})
            assert counts == [len(reported)] == [len(found[-1])]
        assert rows(connection, "SELECT * FROM timeout_advice_staging") == []
    yield Advised(found[0], found[1], url)
    databases.drop(url)


def test_every_kind_of_group_gets_the_advice_that_it_needs(advised: Advised) -> None:
    names = [*(f"{kind}-1" for kind in KINDS), "stalling-3"]
    found = {name: advised.first[name] for name in names}
    assert {name: row["session_verdict"] for name, row in found.items()} == {
        "healthy-1": "keep",
        "flapping-1": "change",
        "pausing-1": "change",
        "stalling-1": "change",
        "stalling-3": "too_little_data",
        "dying-1": "change",
        "mixed-1": "change",
    }
    assert found["dying-1"]["session_advised_ms"] == 6_000
    assert 20_000 <= found["flapping-1"]["session_advised_ms"] <= 26_000
    assert [name for name, row in found.items() if row["back_test"] is None] == ["stalling-3"]


def test_advised_changes_outperform_both_fixed_values_in_the_back_test(advised: Advised) -> None:
    found = [row for name, row in advised.first.items() if name in KNOWN]
    changes = [row["back_test"] for row in found if row["session_verdict"] == "change"]
    assert len(changes) >= 10
    for test in changes:
        own = (test["advised"]["excess"], test["advised"]["timeout_ms"])
        assert [rival["timeout_ms"] for rival in test["fixed"]] == list(FIXED_MS)
        assert all(own <= (rival["excess"], rival["timeout_ms"]) for rival in test["fixed"])
        assert test["held_back_days"] == 7


def test_past_interval_is_reported_again_as_of_its_time(advised: Advised) -> None:
    """Later rows do not change it."""
    assert advised.second == advised.first


def test_row_has_every_field_of_the_rules(advised: Advised) -> None:
    advice = advised.first["flapping-5"]
    assert (advice["run_id"], advice["session_present_ms"]) == (RUN_ID, 10_000)
    assert advice["session_effect"]["evictions_avoided"] == advice["session_effect"]["spurious_evictions"] > 80
    assert (advice["rebalance_verdict"], advice["rebalance_present_ms"]) == ("too_little_data", 300_000)
    assert (advice["initial_delay_verdict"], advice["initial_delay_present_ms"]) == ("too_little_data", 3_000)
    assert advice["heartbeats"] > 20_000
    assert advice["window_start"] == (NOW - 28 * DAY).isoformat()


def slow_to_join(past: Past) -> None:
    """A member heartbeats throughout and joins after 41 seconds; it had 10. Another one is restarted each time."""
    second, group_id = timedelta(seconds=1), "slow"
    for number in range(40):
        began = NOW - timedelta(hours=2) + number * 100 * second
        past.session(group_id, "restarted", began - 60 * second, began, "left", member_id=f"r{number}")
        heard = began + 9 * second
        slow = {"member_id": f"s{number}", "heard": heard, "timeout_ms": 45_000}
        past.session(group_id, "batch", began - 50 * second, began + 10 * second, "rebalance_timeout", **slow)
        parts = [("steady-now", 2_000, 2_000, "joined"), (f"s{number}", None, 10_000, "evicted")]
        past.rebalance(group_id, began, 11_000, parts, trigger="member_left")
        past.session(group_id, "restarted", began + second, began + 80 * second, "hour", member_id=f"r{number + 1}")
        returned = began + 41 * second
        past.session(group_id, "batch", returned, returned + 50 * second, "hour", member_id=f"s{number + 1}")
        past.rebalance(group_id, returned, 2_000, [("steady-now", 2_000, 2_000, "joined")], trigger="member_joined")
    past.assigned(group_id, "range")
    past.member(group_id, "steady", 10_000, partitions=range(6))


def test_a_timeout_that_evicts_a_slow_but_live_member_is_lengthened_and_a_rolling_restart_is_recommended_static(
    advised: Advised,
) -> None:
    row = advised.first["slow"]
    because, effect, recommendations = row["rebalance_reason"], row["rebalance_effect"], row["recommendations"]
    assert (row["rebalance_verdict"], row["rebalance_advised_ms"]) == ("change", 52_000)
    assert "40 of them by live members that had been evicted" in because
    assert (effect["rebalances_present"], effect["rebalances_advised"]) == (80, 40)
    assert [each["name"] for each in recommendations] == ["cooperative-sticky", "static_membership"]
    assert recommendations[1]["effect"]["restarts"] == 40
    start_ms, end_ms = map(wall_ms, window(ARGUMENTS))
    question = TuningQuery("slow", start_ms, end_ms, GRACE_MS, max_rows=10**6, max_evictions=10**6)
    with closing(Queries(advised.url)) as queries:
        advice = queries.read(read_tuning_history, question)
    live = advise(advice.evidence(), CurrentTimeouts(10_000, 10_000, 3_000), advice.assigned, Bounds(), Policy())
    assert (live.rebalance.because, dict(live.rebalance.effect)) == (because, effect)
    assert [each.as_json() for each in live.recommendations] == recommendations
