"""An offset that is past its time becomes a candidate which carries what was seen; what soon will be is forecast."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.rules.retention import RetentionFacts, due_at_ms, expiry_reason, retention_ms_from_setting

RETENTION_KEY = "offsets_retention_minutes"

DAY_MS = 86_400_000
FORECAST_MS = 7 * DAY_MS
"""How far the forecast looks ahead."""

OFFSET_COLUMNS = (
    "group_id",
    "shard_id",
    "topic",
    "partition",
    "commit_version",
    "committed_at",
    "expires_at",
    "generation",
    "state",
    "state_since",
    "protocol_type",
    "subscribed_topics",
)
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
DUE_COLUMNS = (*CANDIDATE_COLUMNS, "due_at_ms")

FORECAST_COLUMNS = ("group_id", "shard_id", "within_a_day", "within_a_week", "next_at")


def offsets_due(
    offsets: DataFrame, cluster_config: DataFrame, group_configs: DataFrame, *, retention_ms: int, until_ms: int
) -> DataFrame:
    """Find the offsets whose time is over by some instant, if their groups stay as they are.

    Args:
        offsets: A row an offset, OFFSET_COLUMNS; `state` is NULL where its group has no row.
        cluster_config: CLUSTER_CONFIG_COLUMNS, at most one row a key.
        group_configs: GROUP_CONFIG_COLUMNS, at most one row a group and key.
        retention_ms: The retention where neither the cluster nor the group sets one; below zero for ever.
        until_ms: The instant, as wall time.

    Returns:
        A row an offset, DUE_COLUMNS; `generation` and `state_since` are NULL without a group row.
    """
    in_force = sf.coalesce("group_retention_ms", "cluster_retention_ms", sf.lit(retention_ms).cast("long"))
    return (
        offsets.join(_retention_by_group(group_configs), on="group_id", how="left")
        .crossJoin(_retention_of_cluster(cluster_config))
        .withColumn("reason", expiry_reason(_facts(), in_force, sf.lit(until_ms).cast("long")))
        .withColumn("due_at_ms", due_at_ms(_facts(), in_force))
        .where(sf.col("reason").isNotNull())
        .select(*DUE_COLUMNS)
    )


def expiry_candidates(due: DataFrame, *, now_ms: int) -> DataFrame:
    """Return those of the offsets (DUE_COLUMNS) whose time is over now: a row an offset, CANDIDATE_COLUMNS."""
    return due.where(sf.col("due_at_ms") <= now_ms).select(*CANDIDATE_COLUMNS)


def expiry_forecasts(due: DataFrame, *, now_ms: int) -> DataFrame:
    """Tell how much will expire in the days to come, beyond what is due now.

    Args:
        due: A row an offset, DUE_COLUMNS, as far as FORECAST_MS from now.
        now_ms: Wall time.

    Returns:
        A row a group that has anything to expire, FORECAST_COLUMNS; the week's number includes the day's.
    """
    at = sf.col("due_at_ms")
    return (
        due.where((at > now_ms) & (at <= now_ms + FORECAST_MS))
        .groupBy("group_id", "shard_id")
        .agg(
            sf.count_if(at <= now_ms + DAY_MS).alias("within_a_day"),
            sf.count("*").alias("within_a_week"),
            sf.timestamp_millis(sf.min(at)).alias("next_at"),
        )
        .select(*FORECAST_COLUMNS)
    )


def _retention_by_group(group_configs: DataFrame) -> DataFrame:
    """A row a group that sets its own retention: group_id, group_retention_ms."""
    own = group_configs.where(_is_retention())
    # Few groups set their own, and a row of theirs is small: sent everywhere, it spares the offsets a shuffle.
    return sf.broadcast(own.select("group_id", retention_ms_from_setting(sf.col("value")).alias("group_retention_ms")))


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
