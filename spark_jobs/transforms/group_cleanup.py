"""A group that nothing keeps becomes a candidate which carries what was seen of it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_jobs.rules.retention import is_of_no_use

REASON = "empty_without_offsets"

GROUP_COLUMNS = ("group_id", "shard_id", "generation", "state", "state_since", "has_offsets")

CANDIDATE_COLUMNS = ("group_id", "shard_id", "generation", "state_since", "reason")


def cleanup_candidates(groups: DataFrame) -> DataFrame:
    """Find the groups to retire.

    Args:
        groups: A row a group, GROUP_COLUMNS.

    Returns:
        A row a group that has nothing left to be kept for, CANDIDATE_COLUMNS.
    """
    return (
        groups.where(is_of_no_use(sf.col("state"), sf.col("has_offsets")))
        .withColumn("reason", sf.lit(REASON))
        .select(*CANDIDATE_COLUMNS)
    )
