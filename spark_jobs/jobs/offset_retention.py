"""Offsets whose time is over, by Kafka's rules, become a proposal; the coordinator judges each again before it goes.

What will be due within a week is told too, group by group, as a forecast. Run by spark-submit; `spark_jobs.submit`
makes the command line. Running it again with the same run id replaces the proposal and the forecast until somebody has
asked for the proposal to be applied.
"""

import sys
from collections.abc import Sequence

import psycopg2.extensions as pg
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.jdbc import read_by_shard
from spark_jobs.proposing import Found, ProposingJob, Reading, run
from spark_jobs.proposing import propose as propose_with
from spark_jobs.publish import CandidateTable, Published, ReportTable, least_retention_ms
from spark_jobs.relations import LARGEST_EXPIRY, OFFSET_COUNT, RETENTION_KEY, offsets_that_can_be_due
from spark_jobs.transforms.offset_retention import (
    CANDIDATE_COLUMNS,
    FORECAST_COLUMNS,
    FORECAST_MS,
    OFFSET_COLUMNS,
    expiry_candidates,
    expiry_forecasts,
    offsets_due,
    summed_up,
)


def find(reading: Reading, arguments: JobArguments) -> Found:
    """Read what the rule asks for, and apply it once for what is due now and what will be."""
    summed = summed_up(find_due(reading, arguments), now_ms=arguments.now_ms)
    # Kept as rows, which costs a fraction of what Spark's cache by columns does. A worker that is lost takes its part
    # along: then the job fails, and is tried again as after any other failure.
    kept = summed.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)
    return Found(expiry_candidates(kept), expiry_forecasts(kept))


def find_due(reading: Reading, arguments: JobArguments) -> DataFrame:
    """Return a row an offset that is due by the end of the forecast."""
    until_ms = arguments.now_ms + FORECAST_MS
    least_ms = least_retention_ms(reading.connection, RETENTION_KEY, arguments.retention_ms)
    relation = offsets_that_can_be_due(until_ms, least_ms)
    return offsets_due(
        read_by_shard(reading.spark, reading.database, relation, OFFSET_COLUMNS, reading.predicates),
        retention_ms=arguments.retention_ms,
        until_ms=until_ms,
    )


JOB = ProposingJob(
    kind="offset_retention",
    find=find,
    candidates=CandidateTable("expiry_candidates", CANDIDATE_COLUMNS, OFFSET_COUNT, LARGEST_EXPIRY),
    report=ReportTable("offset_expiry_forecasts", FORECAST_COLUMNS),
)


def propose(spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments) -> Published:
    """Propose what is due, and forecast what will be."""
    return propose_with(JOB, spark, database, connection, arguments)


def main(command_line: Sequence[str] | None = None) -> int:
    """Propose what is due at `--as-of`; return the exit status."""
    return run(JOB, command_line)


if __name__ == "__main__":
    sys.exit(main())
