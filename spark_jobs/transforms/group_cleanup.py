"""Select the groups to retire as candidates, with the state in which they were seen."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_jobs.rules.retention import is_unused

REASON = "empty_without_offsets"

GROUP_COLUMNS = ("group_id", "shard_id", "generation", "state", "state_since", "has_offsets")

CANDIDATE_COLUMNS = ("group_id", "shard_id", "generation", "state_since", "reason")


def cleanup_candidates(groups: DataFrame) -> DataFrame:
    """Find the groups to retire.

    Args:
        groups: One row per group, GROUP_COLUMNS.

    Returns:
        One row per Empty group without offsets, CANDIDATE_COLUMNS.
    """
    return (
        groups.where(is_unused(sf.col("state"), sf.col("has_offsets")))
        .withColumn("reason", sf.lit(REASON))
        .select(*CANDIDATE_COLUMNS)
    )
