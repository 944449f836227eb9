"""Select due offsets as candidates, with the state in which they were seen, and forecast expiries."""

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

FORECAST_COLUMNS = (*GROUP, "within_a_day", "within_a_week", "next_expiry_at")


def offsets_due(offsets: DataFrame, *, retention_ms: int, until_ms: int) -> DataFrame:
    """Find the offsets that are due by an instant if their groups do not change.

    Args:
        offsets: One row per offset, OFFSET_COLUMNS; `state` is NULL if its group has no row, and a retention (the
            setting's text) is NULL if it is not set.
        retention_ms: The retention where neither cluster nor group sets one; negative for forever.
        until_ms: The instant, as Unix time in milliseconds.

    Returns:
        One row per offset, DUE_COLUMNS; `generation` and `state_since` are NULL without a group row.
    """
    levels = (retention_ms_from_setting(sf.col(name)) for name in ("group_retention", "cluster_retention"))
    effective = sf.coalesce(*levels, sf.lit(retention_ms).cast("long"))
    return (
        offsets.withColumn("due_at_ms", due_at_ms(_facts(), effective))
        .where(sf.col("due_at_ms") <= until_ms)
        # Computed after the filter, so that the rule does not run again for all offsets.
        .withColumn("reason", expiry_reason(_facts()))
        .select(*DUE_COLUMNS)
    )


def summed_up(due: DataFrame, *, now_ms: int) -> DataFrame:
    """Keep one row per offset due now, and sum up later expiries in one row per group.

    Both need one pass over the offsets; the result is small enough to be read twice.

    Args:
        due: One row per offset, DUE_COLUMNS, up to FORECAST_MS from now.
        now_ms: Unix time in milliseconds.

    Returns:
        IS_DUE, CANDIDATE_COLUMNS (NULL but for the group's where not IS_DUE), and FORECAST_COLUMNS.
    """
    at = sf.col("due_at_ms")
    is_due = at <= now_ms
    of_candidates = [sf.when(is_due, sf.col(name)).alias(name) for name in CANDIDATE_COLUMNS if name not in GROUP]
    return due.groupBy(is_due.alias(IS_DUE), *GROUP, *of_candidates).agg(
        sf.count_if(at <= now_ms + DAY_MS).alias("within_a_day"),
        sf.count("*").alias("within_a_week"),
        sf.timestamp_millis(sf.min(at)).alias("next_expiry_at"),
    )


def expiry_candidates(summed: DataFrame) -> DataFrame:
    """Return the offsets due now from the result of `summed_up`: one row per offset, CANDIDATE_COLUMNS."""
    return summed.where(sf.col(IS_DUE)).select(*CANDIDATE_COLUMNS)


def expiry_forecasts(summed: DataFrame) -> DataFrame:
    """Return the forecast, without offsets due now, from the result of `summed_up`.

    Returns:
        One row per group with expiring offsets, FORECAST_COLUMNS; the week's number includes the day's.
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
