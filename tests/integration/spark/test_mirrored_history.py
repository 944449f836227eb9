"""Jobs on the history of a mirrored cluster, in which what the cluster's log does not say is null."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from coordinator_core.analytics.advice.advise import advise
from coordinator_core.analytics.advice.policy import Bounds, CurrentTimeouts, Policy
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.queries.runner import Queries
from coordinator_core.queries.tuning_history import TuningQuery, read_tuning_history
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.postgres import PostgresStore
from mirror.decide import decide
from mirror.mirror import Mirror
from mirror.observed import ObservedCommit
from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.jobs import assignment_balance_audit, rebalance_frequency_report, timeout_advice
from spark_jobs.report_job import ReportArguments, ReportingJob, report
from spark_jobs.submit import default_options
from tests.integration.spark.archive.old_days import RUN_ID, apply
from tests.support.stored_history import rows, table_rows
from tests.unit.coordinator_core.runtime.nodes import config, until
from tests.unit.mirror.fake_log import FakeLog
from tests.unit.mirror.observations import SYNC_MS, T0_MS, appended_ms, generation, member

pytestmark = pytest.mark.slow

GROUP = "payments"
SHARDS = 50
MIDNIGHT = datetime.fromtimestamp(T0_MS / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAY = timedelta(days=1)
LAST_MS = T0_MS + 60_000


RESTARTS = 3
GENERATIONS = [[member("a", 0, 1, 2)]]
for number in range(RESTARTS):
    GENERATIONS += [[member("a", 0, 1), member(f"b-{number}", 2)], [member("a", 0, 1, 2)]]
GENERATIONS += [[member("a", 0, 1), member("b", 2)]]
"""A member joins, and another one, which disappears three times and is back with a new id a second later."""


async def mirror_log(store: PostgresStore) -> None:
    """Let a mirror follow a log with the generations, and a commit."""
    log, shard = FakeLog(SHARDS), shard_of(GROUP, SHARDS)
    async with following(store, log):
        for number, members in enumerate(GENERATIONS, start=1):
            observed = generation(number, *members, group_id=GROUP)
            log.say(appended_ms(observed), observed, shard)
        log.say(LAST_MS, ObservedCommit(GROUP, "orders", 0, 7, -1, "", LAST_MS, None), shard)
        await until(lambda: bool(store.fetch_offsets(GROUP)), "the checkpoint of the commit")


@asynccontextmanager
async def following(store: PostgresStore, log: FakeLog) -> AsyncIterator[None]:
    """Run a mirror for the time of a block, which begins when it has read the log as it is."""
    coordinator = Coordinator(store, config(offsets_checkpoint_interval_ms=20, lease_ttl_ms=60_000), mirror=decide)
    await coordinator.start()
    coordinator.follow(Mirror(coordinator, log.opened, "cluster"))
    try:
        await until(lambda: log.idle_polls > 1, "the mirror to read the log")
        yield
    finally:
        await coordinator.stop()


@pytest.fixture
def mirrored(database_url: str, connection: pg.connection) -> pg.connection:
    """Connect to a database that has mirrored the log."""
    with closing(PostgresStore(database_url)) as store:
        store.mirror_of("cluster")
        asyncio.run(mirror_log(store))
    return connection


def run_report(
    job: ReportingJob, spark: SparkSession, database: Database, connection: pg.connection, archive: str = ""
) -> dict[str, Any]:
    """Report the day of the log, and return the row of the group."""
    start, end = MIDNIGHT, MIDNIGHT + DAY
    options = default_options(job.spec.name)
    given = ReportArguments(
        RUN_ID, end, start, end, is_dry_run=False, read_partitions=2, options=options, archive=archive
    )
    report(job, spark, database, connection, given)
    (row,) = table_rows(connection, job.spec.reports[0])
    assert row["group_id"] == GROUP
    return row


def test_balance_is_that_of_the_mirrored_assignment(
    spark: SparkSession, database: Database, mirrored: pg.connection
) -> None:
    row = run_report(assignment_balance_audit.JOB, spark, database, mirrored)
    owned = rows(mirrored, "SELECT sum(jsonb_array_length(ownership -> 0 -> 'partitions'))::int FROM members")
    assert [(row["partitions"],)] == owned == [(3,)]
    assert (row["generation"], row["members"], row["partitions_max"], row["score"]) == (len(GENERATIONS), 2, 2, 100)
    assert (row["moved"], row["lag_max"]) == (1, None), "the mirror has read no log end"


def test_advice_is_of_what_the_mirror_knows_and_that_of_the_present_is_the_same(
    spark: SparkSession, database: Database, mirrored: pg.connection, queries: Queries
) -> None:
    row = run_report(timeout_advice.JOB, spark, database, mirrored)
    assert (row["heartbeats"], row["session_verdict"]) == (0, "too_little_data")
    assert (row["session_present_ms"], row["rebalance_present_ms"]) == (10_000, 60_000)
    assert (row["rebalance_verdict"], row["initial_delay_verdict"]) == ("too_little_data", "too_little_data")
    advice = {each["name"]: each["effect"] for each in row["recommendations"]}
    assert advice["static_membership"]["restarts"] == RESTARTS
    from_ms, to_ms = (round((MIDNIGHT + days * DAY).timestamp() * 1000) for days in (-27, 1))
    question = TuningQuery(GROUP, from_ms, to_ms, grace_ms=60_000, max_rows=100, max_evictions=100)
    found = queries.read(read_tuning_history, question)
    live = advise(found.evidence(), CurrentTimeouts(10_000, 60_000, 3_000), found.assigned, Bounds(), Policy())
    assert [each.as_json() for each in live.recommendations] == row["recommendations"]
    assert (live.session.because, live.rebalance.because) == (row["session_reason"], row["rebalance_reason"])


def test_frequency_is_that_of_the_mirrored_rebalances_also_when_their_days_are_archived(
    spark: SparkSession, database: Database, mirrored: pg.connection, database_url: str, tmp_path: Path
) -> None:
    history = rows(mirrored, "SELECT trigger, completed_at - started_at FROM rebalances WHERE outcome = 'completed'")
    by_trigger = Counter(trigger for trigger, _ in history)
    assert by_trigger == {"member_joined": 2 + RESTARTS, "member_left_or_expired": RESTARTS}
    row = run_report(rebalance_frequency_report.JOB, spark, database, mirrored)
    assert (row["rebalances"], row["completed"]) == (len(GENERATIONS), len(GENERATIONS))
    assert row["by_trigger"] == by_trigger
    took_ms = sum((took for _, took in history), timedelta()) // timedelta(milliseconds=1)
    assert (row["took_p50_ms"], row["took_total_ms"]) == (SYNC_MS, took_ms)
    assert (row["evicted"], row["spuriously_evicted"]) == (0, 0), "the log does not say which members were evicted"
    assert (row["waited_for_member_id"], row["waited_for_ms"]) == (None, None)

    (not_measured,) = rows(mirrored, "SELECT count(*) FROM member_sessions WHERE heartbeat_count IS NULL")
    assert not_measured == (RESTARTS,)
    archive = f"file://{tmp_path}/archive"
    arguments = JobArguments(
        RUN_ID, datetime.now(UTC), None, None, -1, is_dry_run=False, read_partitions=2, keep_days=1, archive=archive
    )
    archived = archive_closed_days(spark, database, mirrored, arguments)
    assert archived.unverified == ()
    tables = {table for (table,) in rows(mirrored, "SELECT table_name FROM archive_candidates")}
    assert tables >= {"rebalances", "rebalance_members", "member_sessions"}
    apply(database_url)
    assert rows(mirrored, "SELECT count(*) FROM rebalances") == [(0,)]
    assert run_report(rebalance_frequency_report.JOB, spark, database, mirrored, archive) == row
