"""Propose Empty groups without offsets; the coordinator evaluates each again before it retires it.

Run by spark-submit; `spark_jobs.submit` builds the command line. Running it again with the same run id replaces the
proposal until it is applied or rejected.
"""

import sys

from coordinator_core.jobs import JOBS
from spark_jobs.arguments import JobArguments
from spark_jobs.jdbc import read_by_shard
from spark_jobs.proposal_job import Found, ProposingJob, Reading, run
from spark_jobs.relations import EMPTY_GROUPS, GROUP_COUNT
from spark_jobs.transforms.group_cleanup import GROUP_COLUMNS, cleanup_candidates


def find(reading: Reading, _: JobArguments) -> Found:
    """Read the Empty groups, and return those to retire."""
    groups = read_by_shard(reading.spark, reading.database, EMPTY_GROUPS, GROUP_COLUMNS, reading.predicates)
    return Found(cleanup_candidates(groups))


JOB = ProposingJob(JOBS["group_cleanup"], find, of=GROUP_COUNT)

if __name__ == "__main__":
    sys.exit(run(JOB))
