"""Offsets whose time is over, by Kafka's rules, become a proposal; the coordinator judges each again before it goes.

Run by spark-submit; `spark_jobs.submit` makes the command line. Running it again with the same run id replaces the
proposal until somebody has asked for it to be applied.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import closing

import psycopg2.extensions as pg
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.arguments import JobArguments, read_arguments
from spark_jobs.database import Database, database_from_environment
from spark_jobs.errors import JobError
from spark_jobs.jdbc import read_by_shard, read_table, shard_predicates, write_staging
from spark_jobs.publish import CandidateTable, Published, count_shards, discard_staged, new_attempt_id, publish
from spark_jobs.session import open_session
from spark_jobs.transforms.offset_retention import (
    CANDIDATE_COLUMNS,
    CLUSTER_CONFIG_COLUMNS,
    GROUP_COLUMNS,
    GROUP_CONFIG_COLUMNS,
    OFFSET_COLUMNS,
    expiry_candidates,
)

KIND = "offset_retention"
CANDIDATES = CandidateTable("expiry_candidates", CANDIDATE_COLUMNS)


def main(command_line: Sequence[str] | None = None) -> int:
    """Propose what is due at `--as-of`; return the exit status."""
    arguments = read_arguments(KIND, command_line)
    try:
        database = database_from_environment()
        # Postgres is asked first: that costs nothing, and a wrong address need not wait for Spark.
        with closing(database.connect()) as connection, open_session(KIND) as spark:
            published = propose(spark, database, connection, arguments)
    except JobError as error:
        print(f"{KIND}: {error}", file=sys.stderr)
        return 1
    print(describe(arguments.run_id, published), flush=True)
    return 0


def propose(spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments) -> Published:
    """Find the candidates with Spark, stage them, and publish them in one transaction."""
    predicates = shard_predicates(count_shards(connection), arguments.read_partitions)
    # Whether an attempt was abandoned is a matter of the real clock, whatever instant the job judges by.
    started_at_ms = time.time_ns() // 1_000_000
    attempt_id = new_attempt_id(started_at_ms)
    candidates = find_candidates(spark, database, predicates, arguments)
    try:
        write_staging(candidates, database, CANDIDATES.staging, attempt_id, arguments.read_partitions)
        return publish(connection, arguments.proposal(KIND), CANDIDATES, attempt_id)
    finally:
        discard_staged(connection, CANDIDATES, attempt_id, started_at_ms)


def find_candidates(
    spark: SparkSession, database: Database, predicates: Sequence[str], arguments: JobArguments
) -> DataFrame:
    """Read what the rule asks for, and apply it; a row an expired offset."""
    return expiry_candidates(
        read_by_shard(spark, database, "offsets", OFFSET_COLUMNS, predicates),
        read_by_shard(spark, database, "groups", GROUP_COLUMNS, predicates),
        read_table(spark, database, "cluster_config", CLUSTER_CONFIG_COLUMNS),
        read_table(spark, database, "group_configs", GROUP_CONFIG_COLUMNS),
        retention_ms=arguments.retention_ms,
        now_ms=arguments.now_ms,
    )


def describe(run_id: str, published: Published) -> str:
    """Say in one line what came of it."""
    if not published.is_replaced:
        return f"{KIND}: run {run_id} is {published.status} already; nothing was changed."
    counts = ", ".join(f"{name} {count}" for name, count in published.counts.items())
    return f"{KIND}: proposed run {run_id}: {counts}."


if __name__ == "__main__":
    sys.exit(main())
