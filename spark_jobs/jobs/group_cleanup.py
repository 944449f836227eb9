"""Propose Empty groups without offsets; the coordinator evaluates each again before it retires it.

Run by spark-submit; `spark_jobs.submit` builds the command line. Running it again with the same run id replaces the
proposal until it is applied or rejected.
"""

import sys
from collections.abc import Sequence

import psycopg2.extensions as pg
from pyspark.sql import SparkSession

from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.jdbc import read_by_shard
from spark_jobs.proposal_job import Found, ProposingJob, Reading, run
from spark_jobs.proposal_job import propose as propose_with
from spark_jobs.publish import CandidateTable, Published
from spark_jobs.relations import EMPTY_GROUPS, GROUP_COUNT
from spark_jobs.transforms.group_cleanup import CANDIDATE_COLUMNS, GROUP_COLUMNS, cleanup_candidates


def find(reading: Reading, _: JobArguments) -> Found:
    """Read the Empty groups, and return those to retire."""
    groups = read_by_shard(reading.spark, reading.database, EMPTY_GROUPS, GROUP_COLUMNS, reading.predicates)
    return Found(cleanup_candidates(groups))


JOB = ProposingJob(
    kind="group_cleanup",
    find=find,
    candidates=CandidateTable("cleanup_candidates", CANDIDATE_COLUMNS, GROUP_COUNT),
)


def propose(spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments) -> Published:
    """Publish the groups to retire as a proposal."""
    return propose_with(JOB, spark, database, connection, arguments)


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the job; return the exit status."""
    return run(JOB, command_line)


if __name__ == "__main__":
    sys.exit(main())
