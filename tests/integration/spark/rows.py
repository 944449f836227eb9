"""Builders of test rows and DataFrames with default values, in the schema that JDBC reads."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.relations import RETENTION_KEY
from spark_jobs.transforms.offset_retention import (
    FORECAST_MS,
    expiry_candidates,
    expiry_forecasts,
    offsets_due,
    summed_up,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
RETENTION = timedelta(days=7)
RETENTION_MS = int(RETENTION.total_seconds() * 1000)
DUE = NOW - RETENTION
LONG_AGO = NOW - timedelta(days=90)
JUST_NOW = NOW - timedelta(minutes=1)

OFFSETS = (
    "group_id string, shard_id smallint, topic string, partition int, commit_version bigint,"
    " committed_at timestamp, expires_at timestamp"
)
GROUPS = (
    "group_id string, generation int, state string, state_since timestamp, protocol_type string,"
    " subscribed_topics array<string>"
)
CLUSTER_CONFIG = "key string, value string"
GROUP_CONFIGS = "group_id string, key string, value string"
CANDIDATES = (
    "group_id string, shard_id smallint, generation int, state_since timestamp, topic string, partition int,"
    " commit_version bigint, committed_at timestamp, reason string"
)


def offset(group_id: str, topic: str = "orders", partition: int = 0, **columns: object) -> Row:
    """Build a row of `offsets` that was committed long ago."""
    given = {"shard_id": 1, "commit_version": 1, "committed_at": LONG_AGO, "expires_at": None, **columns}
    return Row(group_id=group_id, topic=topic, partition=partition, **given)


def group(group_id: str, **columns: object) -> Row:
    """Build a row of `groups`: a consumer group that has been empty since long ago."""
    given = {
        "generation": 3,
        "state": "Empty",
        "state_since": LONG_AGO,
        "protocol_type": "consumer",
        "subscribed_topics": [],
        **columns,
    }
    return Row(group_id=group_id, **given)


def candidate(group_id: str, topic: str = "orders", partition: int = 0, **columns: object) -> Row:
    """Build the candidate that is expected for `offset` and `group`."""
    given = {
        "shard_id": 1,
        "generation": 3,
        "state_since": LONG_AGO,
        "commit_version": 1,
        "committed_at": LONG_AGO,
        "reason": "group_empty",
        **columns,
    }
    return Row(group_id=group_id, topic=topic, partition=partition, **given)


def frame(spark: SparkSession, schema: str, rows: Sequence[Row]) -> DataFrame:
    """Build a frame of the schema, taking each row's values by name."""
    names = [column.split()[0] for column in schema.split(", ")]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)


def find_candidates(
    spark: SparkSession,
    offsets: Sequence[Row],
    groups: Sequence[Row] = (),
    **settings: Any,  # noqa: ANN401 - what `find_due` takes
) -> DataFrame:
    """Find what is due at NOW."""
    return expiry_candidates(summed_up(find_due(spark, offsets, groups, **settings), now_ms=NOW_MS))


def find_forecasts(
    spark: SparkSession,
    offsets: Sequence[Row],
    groups: Sequence[Row] = (),
    **settings: Any,  # noqa: ANN401 - what `find_due` takes
) -> DataFrame:
    """Forecast what will be due, at NOW."""
    return expiry_forecasts(summed_up(find_due(spark, offsets, groups, **settings), now_ms=NOW_MS))


def find_due(
    spark: SparkSession,
    offsets: Sequence[Row],
    groups: Sequence[Row] = (),
    *,
    cluster_configs: Sequence[Row] = (),
    group_configs: Sequence[Row] = (),
    retention_ms: int = RETENTION_MS,
) -> DataFrame:
    """Run the transform on rows; Postgres joins offsets with their groups and settings, and here Spark does."""
    is_retention = sf.col("key") == RETENTION_KEY
    own = frame(spark, GROUP_CONFIGS, group_configs).where(is_retention)
    common = frame(spark, CLUSTER_CONFIG, cluster_configs).where(is_retention)
    joined = (
        frame(spark, OFFSETS, offsets)
        .join(frame(spark, GROUPS, groups), on="group_id", how="left")
        .join(own.select("group_id", sf.col("value").alias("group_retention")), on="group_id", how="left")
        .join(common.select(sf.col("value").alias("cluster_retention")), how="left")
    )
    return offsets_due(joined, retention_ms=retention_ms, until_ms=NOW_MS + FORECAST_MS)
