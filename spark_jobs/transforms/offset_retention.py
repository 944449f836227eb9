"""An offset that is past its time becomes a candidate which carries what was seen; what soon will be is forecast."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_jobs.rules.retention import RetentionFacts, due_at_ms, expiry_reason, retention_ms_from_setting

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
    "group_retention",
    "cluster_retention",
)

GROUP = ("group_id", "shard_id")

CANDIDATE_COLUMNS = (
    *GROUP,
    "generation",
    "state_since",
    "topic",
    "partition",
    "commit_version",
    "committed_at",
    "reason",
)
DUE_COLUMNS = (*CANDIDATE_COLUMNS, "due_at_ms")

IS_DUE = "is_due"

FORECAST_COLUMNS = (*GROUP, "within_a_day", "within_a_week", "next_at")


def offsets_due(offsets: DataFrame, *, retention_ms: int, until_ms: int) -> DataFrame:
    """Find the offsets whose time is over by some instant, if their groups stay as they are.

    Args:
        offsets: A row an offset, OFFSET_COLUMNS; `state` is NULL where its group has no row, and a retention, the text
            of its setting, where that is not set.
        retention_ms: The retention where neither the cluster nor the group sets one; below zero for ever.
        until_ms: The instant, as wall time.

    Returns:
        A row an offset, DUE_COLUMNS; `generation` and `state_since` are NULL without a group row.
    """
    levels = (retention_ms_from_setting(sf.col(name)) for name in ("group_retention", "cluster_retention"))
    in_force = sf.coalesce(*levels, sf.lit(retention_ms).cast("long"))
    return (
        offsets.withColumn("due_at_ms", due_at_ms(_facts(), in_force))
        .where(sf.col("due_at_ms") <= until_ms)
        # Of the few that are left, so that the rule is not gone through once more for all.
        .withColumn("reason", expiry_reason(_facts()))
        .select(*DUE_COLUMNS)
    )


def summed_up(due: DataFrame, *, now_ms: int) -> DataFrame:
    """Keep what is due now row by row, and make of what will be due a row a group.

    Both come of one pass over the offsets, and what is left is small enough to be looked at twice.

    Args:
        due: A row an offset, DUE_COLUMNS, as far as FORECAST_MS from now.
        now_ms: Wall time.

    Returns:
        IS_DUE, CANDIDATE_COLUMNS (NULL but for the group's where not IS_DUE), and FORECAST_COLUMNS.
    """
    at = sf.col("due_at_ms")
    is_due = at <= now_ms
    of_candidates = [sf.when(is_due, sf.col(name)).alias(name) for name in CANDIDATE_COLUMNS if name not in GROUP]
    return due.groupBy(is_due.alias(IS_DUE), *GROUP, *of_candidates).agg(
        sf.count_if(at <= now_ms + DAY_MS).alias("within_a_day"),
        sf.count("*").alias("within_a_week"),
        sf.timestamp_millis(sf.min(at)).alias("next_at"),
    )


def expiry_candidates(summed: DataFrame) -> DataFrame:
    """Return what `summed_up` kept of what is due now: a row an offset, CANDIDATE_COLUMNS."""
    return summed.where(sf.col(IS_DUE)).select(*CANDIDATE_COLUMNS)


def expiry_forecasts(summed: DataFrame) -> DataFrame:
    """Tell how much will expire in the days to come, beyond what is due now, by what `summed_up` made.

    Returns:
        A row a group that has anything to expire, FORECAST_COLUMNS; the week's number includes the day's.
    """
    return summed.where(~sf.col(IS_DUE)).select(*FORECAST_COLUMNS)


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
