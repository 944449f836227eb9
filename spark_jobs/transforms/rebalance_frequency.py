"""Sum up the rebalances of an interval in one row per group, which depends on the interval only."""

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from coordinator_core.analytics.frequency import Thresholds
from spark_jobs.rules import frequency as rules
from spark_jobs.rules.advice import identity_of

REBALANCE_COLUMNS = (
    "group_id",
    "shard_id",
    "group_created_at",
    "trigger",
    "outcome",
    "started_at",
    "completed_at",
    "restarts",
)
LIFETIME_COLUMNS = ("group_id", "shard_id", "group_created_at", "died_at")
CONSUMER_COLUMNS = ("group_id", "shard_id", "member_id", "group_instance_id", "client_id", "client_host")
WAIT_COLUMNS = (*CONSUMER_COLUMNS, "waited_for_ms")
EVICTION_COLUMNS = (*CONSUMER_COLUMNS, "group_created_at", "ended_at", "silent_since")
JOIN_COLUMNS = (*CONSUMER_COLUMNS, "joined_at")

REPORT_COLUMNS = (
    "group_id",
    "shard_id",
    "rebalances",
    "completed",
    "emptied",
    "abandoned",
    "by_trigger",
    "restarts",
    "took_p50_ms",
    "took_p95_ms",
    "took_max_ms",
    "took_total_ms",
    "rebalancing_ms",
    "existed_ms",
    "rebalancing_share",
    "evicted",
    "spuriously_evicted",
    "waited_for_member_id",
    "waited_for_instance_id",
    "waited_for_client_id",
    "waited_for_client_host",
    "waited_for_members",
    "waited_for_ms",
    "churn_periods",
    "churn_rebalances",
    "rebalancing_since",
    "is_churning",
)

KEY = "group_id"
OUTCOMES = ("completed", "emptied", "abandoned")
TOTALS = ("rebalances", *OUTCOMES, "restarts", "took_total_ms", "rebalancing_ms", "churn_periods", "churn_rebalances")
COUNTS = (*TOTALS, "evicted", "spuriously_evicted")
"""Columns that are 0 instead of NULL if nothing happened."""


class Interval:
    """The interval's bounds as columns; the start is inclusive, the end exclusive."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.start_ms, self.end_ms = (at // timedelta(milliseconds=1) for at in (start - _EPOCH, end - _EPOCH))


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def rebalance_frequency(
    rebalances: DataFrame,
    lifetimes: DataFrame,
    waits: DataFrame,
    evictions: DataFrame,
    joins: DataFrame,
    interval: Interval,
    thresholds: Thresholds,
) -> DataFrame:
    """Return how often, how long and why groups rebalanced.

    Args:
        rebalances: One row per rebalance that overlaps the interval, REBALANCE_COLUMNS; `completed_at` is NULL while it
            is in progress.
        lifetimes: One row per creation or deletion of a group within the interval, LIFETIME_COLUMNS; `died_at` is NULL
            for a creation.
        waits: One row per awaited member of a rebalance that ended within the interval, WAIT_COLUMNS.
        evictions: One row per member evicted within the interval, EVICTION_COLUMNS.
        joins: One row per member that joined within the interval, SILENCE_MAX before it, or the grace after it,
            JOIN_COLUMNS.
        interval: The interval.
        thresholds: The rules' thresholds.

    Returns:
        One row per group that rebalanced, or evicted a member, within the interval, REPORT_COLUMNS.
    """
    found = (
        _rebalances(_timed(rebalances, interval), interval, thresholds)
        .join(spurious_evictions(evictions, joins, thresholds.grace_ms), on=KEY, how="full")
        .join(_lifetimes(lifetimes), on=KEY, how="left")
        .join(longest_waits(waits), on=KEY, how="left")
    )
    under_way_ms = sf.lit(interval.end_ms) - sf.unix_millis("rebalancing_since")
    return (
        found.na.fill(0, subset=list(COUNTS))
        .withColumn("shard_id", sf.coalesce("shard_id", "evicted_shard_id"))
        .withColumn("by_trigger", sf.to_json(_counted(sf.coalesce("triggers", sf.array()))))
        .withColumn("existed_ms", _existed_ms(interval))
        .withColumn("rebalancing_share", rules.rebalancing_share(sf.col("rebalancing_ms"), sf.col("existed_ms")))
        .withColumn("is_churning", rules.is_churning(under_way_ms, sf.col("restarts_max"), thresholds))
        .select(*REPORT_COLUMNS)
    )


def _timed(rebalances: DataFrame, interval: Interval) -> DataFrame:
    """Add milliseconds, and whether a rebalance ended within the interval; others were in progress at its end."""
    completed_ms = sf.unix_millis("completed_at")
    is_over = completed_ms < interval.end_ms
    return (
        rebalances.withColumn("started_ms", sf.unix_millis("started_at"))
        .withColumn("completed_ms", completed_ms)
        .withColumn("is_over", sf.coalesce(is_over, sf.lit(False)))
    )


def _lifetimes(lifetimes: DataFrame) -> DataFrame:
    each = sf.struct("group_created_at", "died_at")
    return lifetimes.groupBy(KEY).agg(sf.collect_list(each).alias("lifetimes"))


def _existed_ms(interval: Interval) -> Column:
    """Return how long a group existed in the interval; without events, it existed throughout."""
    known = sf.coalesce("lifetimes", sf.array())
    began = [
        known.getField("group_created_at"),
        *(sf.coalesce(name, sf.array()) for name in ("lives", "evicted_lives")),
    ]

    def existed_ms(created_at: Column) -> Column:
        of_life = sf.filter(known, lambda each: each["group_created_at"] == created_at)
        died_ms = sf.unix_millis(sf.array_max(of_life.getField("died_at")))
        return rules.existed_ms(sf.unix_millis(created_at), died_ms, interval.start_ms, interval.end_ms)

    lives = sf.array_distinct(sf.concat(*began))
    return sf.aggregate(lives, sf.lit(0).cast("long"), lambda total, created_at: total + existed_ms(created_at))


def _rebalances(timed: DataFrame, interval: Interval, thresholds: Thresholds) -> DataFrame:
    """Sum up rebalances: full durations of ended ones, and of all the time within the interval."""
    is_over, outcome = sf.col("is_over"), sf.col("outcome")
    return (
        _with_churn(timed, thresholds)
        .withColumn("took_ms", sf.when(is_over, sf.col("completed_ms") - sf.col("started_ms")))
        .withColumn("over_restarts", sf.when(is_over, sf.col("restarts")))
        .groupBy(KEY)
        .agg(
            sf.max("shard_id").alias("shard_id"),
            sf.collect_set("group_created_at").alias("lives"),
            sf.collect_list(sf.when(is_over, sf.col("trigger"))).alias("triggers"),
            sf.count_if(is_over).cast("int").alias("rebalances"),
            *(sf.count_if(is_over & (outcome == each)).cast("int").alias(each) for each in OUTCOMES),
            sf.sum("over_restarts").alias("restarts"),
            sf.max("over_restarts").alias("restarts_max"),
            rules.median("took_ms").alias("took_p50_ms"),
            rules.high("took_ms").alias("took_p95_ms"),
            sf.max("took_ms").alias("took_max_ms"),
            sf.sum("took_ms").alias("took_total_ms"),
            sf.sum(_ms_within(interval)).alias("rebalancing_ms"),
            sf.min(sf.when(~is_over, sf.col("started_at"))).alias("rebalancing_since"),
            sf.count_if(is_over & sf.col("begins_churn")).cast("int").alias("churn_periods"),
            sf.count_if(is_over & sf.col("is_in_churn")).cast("int").alias("churn_rebalances"),
        )
    )


def _ms_within(interval: Interval) -> Column:
    end_ms = sf.lit(interval.end_ms)
    until_ms = sf.least(sf.coalesce("completed_ms", end_ms), end_ms)
    return until_ms - sf.greatest("started_ms", sf.lit(interval.start_ms))


def _with_churn(timed: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Mark rebalances that are part of churn, which is computed separately for ended ones."""
    in_order = Window.partitionBy(KEY, "is_over").orderBy("started_ms", "completed_ms")
    begins = rules.begins_churn_window(sf.col("started_ms"), in_order, thresholds)
    return (
        timed.withColumn("begins", begins)
        .withColumn("is_in_churn", rules.is_in_churn(sf.col("begins"), in_order, thresholds))
        .withColumn("begins_churn", rules.begins_churn(sf.col("begins"), in_order, thresholds))
    )


def _counted(names: Column) -> Column:
    """Return an array's values, in order, and how often each occurs."""
    different = sf.array_sort(sf.array_distinct(names))
    return sf.map_from_arrays(
        different, sf.transform(different, lambda name: sf.size(sf.filter(names, lambda each: each == name)))
    )


def spurious_evictions(evictions: DataFrame, joins: DataFrame, grace_ms: int) -> DataFrame:
    """Return each group's shard and lives, and the number of its evictions and of spurious ones.

    A consumer's last join before an eviction and its first one after it decide. A member's own join does not: it comes
    before the last heartbeat.
    """
    who = identity_of(*map(sf.col, ("group_instance_id", "client_id", "client_host"))).alias("identity")
    ended_ms, joined_ms = sf.unix_millis("ended_at"), sf.unix_millis("joined_at")
    gone = evictions.select(
        *(KEY, who, "shard_id", "group_created_at"),
        ended_ms.alias("at_ms"),
        sf.unix_millis("silent_since").alias("silent_ms"),
    )
    back = joins.select(KEY, who, joined_ms.alias("at_ms"), joined_ms.alias("joined_ms"))
    events = gone.unionByName(back, allowMissingColumns=True)
    is_join = sf.col("joined_ms").isNotNull()
    of_consumer = Window.partitionBy(KEY, "identity")
    # A join at the instant of an eviction is one after it.
    before, after = of_consumer.orderBy("at_ms", is_join), of_consumer.orderBy(sf.desc("at_ms"), is_join.desc())
    joined_before_ms, joined_after_ms = (
        sf.last("joined_ms", ignorenulls=True).over(each.rowsBetween(Window.unboundedPreceding, Window.currentRow))
        for each in (before, after)
    )
    is_successor = rules.is_successor(sf.col("silent_ms"), joined_before_ms, sf.col("at_ms"))
    is_back = rules.is_back_within_grace(sf.col("at_ms"), joined_after_ms, grace_ms)
    return (
        events.withColumn("is_spurious", is_back & ~sf.coalesce(is_successor, sf.lit(False)))
        .where(~is_join)
        .groupBy(KEY)
        .agg(
            sf.max("shard_id").alias("evicted_shard_id"),
            sf.collect_set("group_created_at").alias("evicted_lives"),
            sf.count("*").cast("int").alias("evicted"),
            sf.count_if("is_spurious").cast("int").alias("spuriously_evicted"),
        )
    )


def longest_waits(waits: DataFrame) -> DataFrame:
    """Return the consumer that each group awaited longest in total, whatever its member ids.

    Source: coordinator_core/analytics/waiting.py, to which a property test compares this.
    """
    who = ("group_instance_id", "client_id", "client_host")
    consumer = identity_of(*map(sf.col, who)).alias("consumer")
    by_member = waits.groupBy(KEY, consumer, "member_id").agg(
        sf.sum("waited_for_ms").alias("member_ms"), *(sf.max(name).alias(name) for name in who)
    )
    longest = sf.min(sf.struct((-sf.col("member_ms")).alias("order"), "member_id", *who)).alias("longest")
    by_consumer = by_member.groupBy(KEY, "consumer").agg(
        longest, sf.count("*").cast("int").alias("members"), sf.sum("member_ms").alias("waited_ms")
    )
    ranked = sf.struct((-sf.col("waited_ms")).alias("order"), "longest.member_id", "longest", "members", "waited_ms")
    first = by_consumer.groupBy(KEY).agg(sf.min(ranked).alias("first"))
    return first.select(
        KEY,
        sf.col("first.longest.member_id").alias("waited_for_member_id"),
        sf.col("first.longest.group_instance_id").alias("waited_for_instance_id"),
        sf.col("first.longest.client_id").alias("waited_for_client_id"),
        sf.col("first.longest.client_host").alias("waited_for_client_host"),
        sf.col("first.members").alias("waited_for_members"),
        sf.col("first.waited_ms").alias("waited_for_ms"),
    )
