"""An offset that is past its time becomes a candidate which carries what was seen of it and of its group."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.rules.retention import RetentionFacts, expiry_reason, retention_ms_from_setting

RETENTION_KEY = "offsets_retention_minutes"

OFFSET_COLUMNS = (
    "group_id",
    "shard_id",
    "topic",
    "partition",
    "commit_version",
    "committed_at",
    "expires_at",
)
GROUP_COLUMNS = ("group_id", "generation", "state", "state_since", "protocol_type", "subscribed_topics")
CLUSTER_CONFIG_COLUMNS = ("key", "value")
GROUP_CONFIG_COLUMNS = ("group_id", "key", "value")

CANDIDATE_COLUMNS = (
    "group_id",
    "shard_id",
    "generation",
    "state_since",
    "topic",
    "partition",
    "commit_version",
    "committed_at",
    "reason",
)


def expiry_candidates(
    offsets: DataFrame,
    groups: DataFrame,
    cluster_config: DataFrame,
    group_configs: DataFrame,
    *,
    retention_ms: int,
    now_ms: int,
) -> DataFrame:
    """Find the offsets whose time is over.

    Args:
        offsets: A row an offset, OFFSET_COLUMNS.
        groups: A row a group, GROUP_COLUMNS; an offset without one belongs to a simple group.
        cluster_config: CLUSTER_CONFIG_COLUMNS, at most one row a key.
        group_configs: GROUP_CONFIG_COLUMNS, at most one row a group and key.
        retention_ms: The retention where neither the cluster nor the group sets one; below zero for ever.
        now_ms: The wall time by which to judge.

    Returns:
        A row an expired offset, CANDIDATE_COLUMNS; `generation` and `state_since` are NULL without a group row.
    """
    in_force = sf.coalesce("group_retention_ms", "cluster_retention_ms", sf.lit(retention_ms).cast("long"))
    return (
        offsets.join(groups, on="group_id", how="left")
        .join(_retention_by_group(group_configs), on="group_id", how="left")
        .crossJoin(_retention_of_cluster(cluster_config))
        .withColumn("reason", expiry_reason(_facts(), in_force, sf.lit(now_ms).cast("long")))
        .where(sf.col("reason").isNotNull())
        .select(*CANDIDATE_COLUMNS)
    )


def _retention_by_group(group_configs: DataFrame) -> DataFrame:
    """A row a group that sets its own retention: group_id, group_retention_ms."""
    own = group_configs.where(_is_retention())
    return own.select("group_id", retention_ms_from_setting(sf.col("value")).alias("group_retention_ms"))


def _retention_of_cluster(cluster_config: DataFrame) -> DataFrame:
    """Exactly one row, of which cluster_retention_ms is NULL when the cluster sets none."""
    widest = sf.max(retention_ms_from_setting(sf.col("value")))
    return sf.broadcast(cluster_config.where(_is_retention()).agg(widest.alias("cluster_retention_ms")))


def _is_retention() -> Column:
    return sf.col("key") == RETENTION_KEY


def _facts() -> RetentionFacts:
    return RetentionFacts(
        state=sf.col("state"),
        protocol_type=sf.col("protocol_type"),
        state_since=sf.col("state_since"),
        subscribed_topics=sf.col("subscribed_topics"),
        topic=sf.col("topic"),
        committed_at=sf.col("committed_at"),
        expires_at=sf.col("expires_at"),
    )
