"""Propose offsets that are due by Kafka's retention rules; the coordinator evaluates each again before it expires it.

The job also forecasts, per group, what will be due within a week. Run by spark-submit; `spark_jobs.submit` builds the
command line. Running it again with the same run id replaces the proposal and the forecast until the run is applied or
rejected.
"""

import sys

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from coordinator_core.jobs import JOBS
from spark_jobs.arguments import JobArguments
from spark_jobs.jdbc import read_by_shard
from spark_jobs.proposal_job import Found, ProposingJob, Reading, run
from spark_jobs.publish import least_retention_ms
from spark_jobs.relations import LARGEST_EXPIRY, OFFSET_COUNT, RETENTION_KEY, offsets_that_can_be_due
from spark_jobs.transforms.offset_retention import (
    FORECAST_MS,
    OFFSET_COLUMNS,
    expiry_candidates,
    expiry_forecasts,
    offsets_due,
    summed_up,
)


def find(reading: Reading, arguments: JobArguments) -> Found:
    """Read the offsets, and return those due now and the forecast."""
    summed = summed_up(find_due(reading, arguments), now_ms=arguments.now_ms)
    # Checkpointed as rows, which is much cheaper than Spark's columnar cache. If a worker is lost, so is its part: the
    # job fails and is retried.
    kept = summed.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)
    return Found(expiry_candidates(kept), expiry_forecasts(kept))


def find_due(reading: Reading, arguments: JobArguments) -> DataFrame:
    """Return one row per offset that is due by the end of the forecast."""
    until_ms = arguments.now_ms + FORECAST_MS
    least_ms = least_retention_ms(reading.connection, RETENTION_KEY, arguments.retention_ms)
    relation = offsets_that_can_be_due(until_ms, least_ms)
    return offsets_due(
        read_by_shard(reading.spark, reading.database, relation, OFFSET_COLUMNS, reading.predicates),
        retention_ms=arguments.retention_ms,
        until_ms=until_ms,
    )


JOB = ProposingJob(JOBS["offset_retention"], find, of=OFFSET_COUNT, largest=LARGEST_EXPIRY)


if __name__ == "__main__":
    sys.exit(run(JOB))
