"""Tests of timeout_advice against a real Postgres."""

import json
import re
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg2.extensions as pg
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from coordinator_core.analytics.advice.advise import advise
from coordinator_core.analytics.advice.policy import FIXED_MS, GRACE_MS, Bounds, CurrentTimeouts, Policy
from coordinator_core.analytics.advice.steps import STEPS_MS, place_of
from coordinator_core.queries.runner import Queries
from coordinator_core.queries.tuning_history import TuningQuery, read_tuning_history
from muster.cli.jobs import run_job
from muster.settings import load_settings
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.history import History, Relation, day_predicates
from spark_jobs.jdbc import shard_predicates
from spark_jobs.jobs.timeout_advice import JOB, defaults, find_evidence, wall_ms, window
from spark_jobs.report_job import ReportArguments, describe, report
from spark_jobs.report_relations import (
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
from spark_jobs.submit import default_options, maintenance_run_id
from spark_jobs.transforms.timeout_advice import END_COLUMNS, WAIT_COLUMNS, evictions
from tests.integration.spark.live_groups import rows
from tests.integration.spark.rows import NOW
from tests.support.histories import KINDS
from tests.support.random_history import DAY, Past, scattered

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
OPTIONS = default_options("timeout_advice")
ARGUMENTS = ReportArguments(RUN_ID, NOW, NOW - DAY, NOW, is_dry_run=False, read_partitions=3, options=OPTIONS)

GRACE = timedelta(milliseconds=GRACE_MS)

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)

# -- rules ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=4, phases=UNSHRUNK)
@given(st.lists(st.integers(0, 20_000_000), min_size=30, max_size=60))
def test_columns_count_a_length_in_the_same_step_as_the_pure_rule(spark: SparkSession, lengths_ms: list[int]) -> None:
    asked = [*lengths_ms, *(step_ms + beside for step_ms in STEPS_MS for beside in (-1, 0, 1))]
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


@pytest.mark.slow
@pytest.mark.parametrize("timeouts_ms", [(30_000, 10_000), (10_000, 30_000)])
def test_last_of_simultaneous_sessions_has_the_longest_timeout(
    spark: SparkSession, database: Database, connection: pg.connection, past: Past, timeouts_ms: tuple[int, int]
) -> None:
    past.session("orders", "longer, but before", NOW - DAY, NOW - timedelta(microseconds=2), "left", timeout_ms=60_000)
    for timeout_ms in timeouts_ms:
        end = NOW - timedelta(microseconds=1)
        past.session("orders", f"c{timeout_ms}", NOW - DAY, end, "left", timeout_ms=timeout_ms)
    past.store(connection)
    assert [row.present_session_ms for row in evidence_rows(spark, database, connection)] == [30_000]


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


@pytest.mark.slow
def test_effective_settings_fall_back_to_the_members_requests(
    spark: SparkSession, database: Database, connection: pg.connection, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS", "700")
    for name in ("asks", "set", "gone"):
        past.session(name, "c", NOW - DAY, NOW - timedelta(hours=1), "hour", timeout_ms=9_000)
    past.member("asks", "c", 60_000)
    past.member("set", "c", 60_000)
    past.store(connection)
    rows(connection, "INSERT INTO cluster_configs VALUES ('group_min_session_timeout_ms', '8000', 'test', now())")
    rows(connection, "INSERT INTO group_configs VALUES ('set', 'session_timeout_ms', '12000', 'test', now())")
    rows(connection, "INSERT INTO group_configs VALUES ('set', 'rebalance_timeout_ms', '70000', 'test', now())")
    rows(connection, "INSERT INTO group_configs VALUES ('set', 'heartbeat_interval_ms', '9000', 'test', now())")
    found = {
        row.group_id: (
            row.present_session_ms,
            row.present_rebalance_ms,
            row.present_initial_delay_ms,
            row.least_session_ms,
        )
        for row in evidence_rows(spark, database, connection)
    }
    assert found == {
        "asks": (10_000, 60_000, 700, 8_000),
        "set": (12_000, 70_000, 700, 9_001),
        "gone": (9_000, None, 700, 8_000),
    }


def test_a_short_grace_and_a_long_silence_are_no_more_work(
    spark: SparkSession, database: Database, connection: pg.connection, past: Past
) -> None:
    gone = NOW - timedelta(hours=1)
    past.session("silent", "c", gone - 30 * DAY, gone, "session_expired")
    past.session("silent", "c", gone, NOW, "left")
    past.store(connection)
    at_once = replace(ARGUMENTS, options={**OPTIONS, "grace_ms": 0})
    (found,) = find_evidence(History(spark, database, connection), at_once).collect()
    ends = [(each.end_reason, each.place, each["count"]) for each in found.evictions]
    assert ends == [("session_expired", place_of(10_000), 1)]


def test_members_that_left_after_a_long_silence_are_no_more_work(spark: SparkSession) -> None:
    """Those of a mirror were heard last when they joined, perhaps months ago."""
    consumers = spark.range(2_000).select(
        sf.lit("g").alias("group_id"),
        sf.lit(1).alias("shard_id"),
        sf.concat(sf.lit("m"), "id").alias("member_id"),
        sf.lit(None).cast("string").alias("group_instance_id"),
        sf.col("id").cast("string").alias("client_id"),
        sf.lit("host").alias("client_host"),
    )
    left_at, since = sf.lit(NOW - timedelta(hours=1)), sf.lit(NOW - 300 * DAY)
    ended = consumers.withColumns({"session_timeout_ms": sf.lit(10_000), "ended_at": left_at, "silent_since": since})
    ended = ended.withColumn("end_reason", sf.lit("left_or_expired")).select(*END_COLUMNS)
    reconnects = consumers.withColumn("member_id", sf.lit("new")).withColumn("joined_at", left_at)
    waits = spark.createDataFrame([], schema=f"{', '.join(f'{name} string' for name in WAIT_COLUMNS)}")
    counted = evictions(ended, reconnects, waits, end_ms=wall_ms(NOW), grace_ms=GRACE_MS)
    ((row,),) = (row.evictions for row in counted.collect())
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


# -- what is advised ------------------------------------------------------------------------------------------


def advised(connection: pg.connection) -> dict[str, tuple[Any, ...]]:
    found = "SELECT group_id, session_verdict, session_advised_ms, back_test FROM timeout_advice ORDER BY group_id"
    return {group_id: tuple(rest) for group_id, *rest in rows(connection, found)}


def test_every_kind_of_group_gets_the_advice_that_it_needs(
    spark: SparkSession, database: Database, connection: pg.connection, past: Past
) -> None:
    for kind in KINDS:
        past.group(kind, 1)
    past.group("stalling", 2, days=1)
    past.store(connection)
    counts = report(JOB, spark, database, connection, ARGUMENTS)
    found = advised(connection)
    assert (counts, len(found)) == ([7], 7)
    verdicts = {group_id: verdict for group_id, (verdict, *_) in found.items()}
    assert verdicts == {
        "healthy-1": "keep",
        "flapping-1": "change",
        "pausing-1": "change",
        "stalling-1": "change",
        "stalling-2": "too_little_data",
        "dying-1": "change",
        "mixed-1": "change",
    }
    assert found["dying-1"][1] == 6_000
    assert 20_000 <= found["flapping-1"][1] <= 26_000
    assert rows(connection, "SELECT * FROM timeout_advice_staging") == []
    assert [group_id for group_id, (*_, test) in found.items() if test is None] == ["stalling-2"]


@pytest.mark.slow
def test_advised_changes_outperform_both_fixed_values_in_the_back_test(
    spark: SparkSession, database: Database, connection: pg.connection, past: Past
) -> None:
    for kind in KINDS:
        for seed in range(3):
            past.group(kind, seed)
    past.store(connection)
    report(JOB, spark, database, connection, ARGUMENTS)
    found = advised(connection)
    changes = [test for verdict, _, test in found.values() if verdict == "change"]
    assert len(changes) >= 10
    for test in changes:
        own = (test["advised"]["excess"], test["advised"]["timeout_ms"])
        assert [rival["timeout_ms"] for rival in test["fixed"]] == list(FIXED_MS)
        assert all(own <= (rival["excess"], rival["timeout_ms"]) for rival in test["fixed"])
        assert test["held_back_days"] == 7


@pytest.fixture
def flapping(connection: pg.connection, past: Past) -> pg.connection:
    past.group("flapping", 5)
    past.store(connection)
    return connection


def everything(connection: pg.connection) -> list[tuple[Any, ...]]:
    return rows(connection, "SELECT * FROM timeout_advice ORDER BY group_id, interval_end, run_id")


@pytest.mark.slow
def test_second_run_reports_the_same(spark: SparkSession, database: Database, flapping: pg.connection) -> None:
    report(JOB, spark, database, flapping, ARGUMENTS)
    before = everything(flapping)
    report(JOB, spark, database, flapping, ARGUMENTS)
    assert len(before) == 1
    assert everything(flapping) == before


@pytest.mark.slow
def test_past_interval_is_reported_as_of_its_time(
    spark: SparkSession, database: Database, connection: pg.connection, past: Past
) -> None:
    """Later rows do not change it."""
    group_id = past.group("flapping", 5)
    past.store(connection)
    report(JOB, spark, database, connection, ARGUMENTS)
    before = everything(connection)
    later = Past(NOW + 20 * DAY)
    later.session(group_id, "steady", NOW, NOW + 2 * DAY, "session_expired")
    later.session(group_id, "steady", NOW + 2 * DAY, NOW + 3 * DAY, "left")
    later.store(connection)
    report(JOB, spark, database, connection, ARGUMENTS)
    assert everything(connection) == before


@pytest.mark.slow
def test_the_role_for_jobs_is_enough(spark: SparkSession, as_jobs_role: Database, flapping: pg.connection) -> None:
    with closing(as_jobs_role.connect()) as connection:
        assert report(JOB, spark, as_jobs_role, connection, ARGUMENTS) == [1]
    assert len(everything(flapping)) == 1


@pytest.mark.slow
def test_dry_run_writes_no_rows(spark: SparkSession, database: Database, flapping: pg.connection) -> None:
    dry = replace(ARGUMENTS, is_dry_run=True)
    counts = report(JOB, spark, database, flapping, dry)
    assert (counts, everything(flapping)) == ([1], [])
    assert describe(JOB, dry, counts).endswith("timeout_advice 1.")


@pytest.mark.usefixtures("jobs_in_warm_spark")
@pytest.mark.slow
def test_job_runs_without_airflow_and_prints_its_result(
    database_url: str, flapping: pg.connection, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run_job("timeout_advice", NOW, False, load_settings(database_url=database_url, data_dir=tmp_path))
    advice = rows(flapping, "SELECT run_id::text, interval_end FROM timeout_advice")
    assert advice == [(maintenance_run_id("timeout_advice", NOW.isoformat()), NOW)]
    assert capsys.readouterr().out.splitlines()[-1].endswith("timeout_advice 1.")


@pytest.mark.slow
def test_database_without_history_is_reported_without_rows(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    assert report(JOB, spark, database, connection, ARGUMENTS) == [0]


@pytest.mark.slow
def test_row_has_every_field_of_the_rules(spark: SparkSession, database: Database, flapping: pg.connection) -> None:
    report(JOB, spark, database, flapping, ARGUMENTS)
    advice = rows(flapping, "SELECT row_to_json(timeout_advice) FROM timeout_advice")[0][0]
    json.dumps(advice)
    assert (advice["group_id"], advice["run_id"], advice["session_present_ms"]) == ("flapping-5", RUN_ID, 10_000)
    assert advice["session_effect"]["evictions_avoided"] == advice["session_effect"]["spurious_evictions"] > 80
    assert (advice["rebalance_verdict"], advice["rebalance_present_ms"]) == ("too_little_data", 300_000)
    assert (advice["initial_delay_verdict"], advice["initial_delay_present_ms"]) == ("too_little_data", 3_000)
    assert advice["heartbeats"] > 20_000
    assert advice["window_start"] == (NOW - 28 * DAY).isoformat()


def test_a_timeout_that_evicts_a_slow_but_live_member_is_lengthened_and_a_rolling_restart_is_recommended_static(
    spark: SparkSession, database: Database, connection: pg.connection, queries: Queries, past: Past
) -> None:
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
    past.store(connection)
    report(JOB, spark, database, connection, ARGUMENTS)
    ((verdict, value_ms, because, effect, recommendations),) = rows(
        connection,
        "SELECT rebalance_verdict, rebalance_advised_ms, rebalance_reason, rebalance_effect, recommendations"
        " FROM timeout_advice",
    )
    assert (verdict, value_ms) == ("change", 52_000)
    assert "40 of them by live members that had been evicted" in because
    assert (effect["rebalances_present"], effect["rebalances_advised"]) == (80, 40)
    assert [each["name"] for each in recommendations] == ["cooperative-sticky", "static_membership"]
    assert recommendations[1]["effect"]["restarts"] == 40
    start_ms, end_ms = map(wall_ms, window(ARGUMENTS))
    question = TuningQuery(group_id, start_ms, end_ms, GRACE_MS, max_rows=10**6, max_evictions=10**6)
    advice = queries.read(read_tuning_history, question)
    live = advise(advice.evidence(), CurrentTimeouts(10_000, 10_000, 3_000), advice.assigned, Bounds(), Policy())
    assert (live.rebalance.because, dict(live.rebalance.effect)) == (because, effect)
    assert [each.as_json() for each in live.recommendations] == recommendations
