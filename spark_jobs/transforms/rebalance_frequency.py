"""What happened to groups within an interval becomes a row a group, which depends on the interval only."""

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from coordinator_core.protocol.reports.frequency import Thresholds
from spark_jobs.rules import frequency as rules
from spark_jobs.rules.advice import identity_of
from spark_jobs.rules.frequency import ConsumerColumns

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
LIFE_COLUMNS = ("group_id", "shard_id", "group_created_at", "died_at")
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
    "took_ms_p50",
    "took_ms_p95",
    "took_ms_max",
    "took_ms_total",
    "rebalancing_ms",
    "lived_ms",
    "rebalancing_share",
    "evicted",
    "spuriously_evicted",
    "waited_for_member_id",
    "waited_for_instance_id",
    "waited_for_client_id",
    "waited_for_client_host",
    "waited_for_members",
    "waited_for_ms",
    "storms",
    "stormy_rebalances",
    "unsettled_since",
    "never_settles",
)

KEY = "group_id"
OUTCOMES = ("completed", "emptied", "abandoned")
TOTALS = ("rebalances", *OUTCOMES, "restarts", "took_ms_total", "rebalancing_ms", "storms", "stormy_rebalances")
COUNTS = (*TOTALS, "evicted", "spuriously_evicted")
"""What is 0 and not unknown where nothing happened."""


class Interval:
    """The interval, as the columns need it: its start belongs to it, and its end does not."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.start_ms, self.end_ms = (at // timedelta(milliseconds=1) for at in (start - _EPOCH, end - _EPOCH))


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def rebalance_frequency(
    rebalances: DataFrame,
    lives: DataFrame,
    waits: DataFrame,
    evictions: DataFrame,
    joins: DataFrame,
    interval: Interval,
    thresholds: Thresholds,
) -> DataFrame:
    """Tell how often, how long and why groups rebalanced.

    Args:
        rebalances: A row a rebalance of which some part lies within the interval, REBALANCE_COLUMNS; `completed_at` is
            NULL while it is under way.
        lives: A row a life of a group that began or ended within the interval, LIFE_COLUMNS; `died_at` is NULL of one
            that began.
        waits: A row a member that was waited for in a rebalance that was over within the interval, WAIT_COLUMNS.
        evictions: A row a member that was put out within the interval, EVICTION_COLUMNS.
        joins: A row a member that joined within the interval, the grace after it, or the longest silence before it,
            JOIN_COLUMNS.
        interval: Which it is.
        thresholds: What the rules go by.

    Returns:
        A row a group that rebalanced, or lost a member, within the interval, REPORT_COLUMNS.
    """
    timed = _timed(rebalances, interval)
    found = (
        _groups(rebalances, evictions)
        .join(_rebalances(timed, interval, thresholds), on=KEY, how="left")
        .join(_lived(rebalances, lives, evictions, interval), on=KEY, how="left")
        .join(_by_trigger(timed), on=KEY, how="left")
        .join(_evictions(evictions, joins, thresholds.grace_ms), on=KEY, how="left")
        .join(longest_waits(waits), on=KEY, how="left")
    )
    under_way_ms = sf.lit(interval.end_ms) - sf.unix_millis("unsettled_since")
    return (
        found.na.fill(0, subset=list(COUNTS))
        .na.fill("{}", subset=["by_trigger"])
        .withColumn("rebalancing_share", rules.rebalancing_share(sf.col("rebalancing_ms"), sf.col("lived_ms")))
        .withColumn("never_settles", rules.never_settles(under_way_ms, sf.col("restarts_max"), thresholds))
        .select(*REPORT_COLUMNS)
    )


def _timed(rebalances: DataFrame, interval: Interval) -> DataFrame:
    """Add milliseconds, and whether a rebalance was over within the interval; one that was not is under way."""
    completed_ms = sf.unix_millis("completed_at")
    is_over = completed_ms < interval.end_ms
    return (
        rebalances.withColumn("started_ms", sf.unix_millis("started_at"))
        .withColumn("completed_ms", completed_ms)
        .withColumn("is_over", sf.coalesce(is_over, sf.lit(False)))
    )


def _groups(rebalances: DataFrame, evictions: DataFrame) -> DataFrame:
    both = rebalances.select(KEY, "shard_id").union(evictions.select(KEY, "shard_id"))
    return both.groupBy(KEY).agg(sf.max("shard_id").alias("shard_id"))


def _lived(rebalances: DataFrame, lives: DataFrame, evictions: DataFrame, interval: Interval) -> DataFrame:
    """Add up how long each group lived in the interval; a life without events in it is its only one."""
    key = (KEY, "group_created_at")
    undated = rebalances.select(*key).union(evictions.select(*key)).withColumn("died_at", sf.lit(None))
    by_life = lives.select(*key, "died_at").union(undated).groupBy(*key).agg(sf.max("died_at").alias("died_at"))
    created_ms, died_ms = sf.unix_millis("group_created_at"), sf.unix_millis("died_at")
    lived = rules.lived_ms(created_ms, died_ms, interval.start_ms, interval.end_ms)
    return by_life.groupBy(KEY).agg(sf.sum(lived).alias("lived_ms"))


def _rebalances(timed: DataFrame, interval: Interval, thresholds: Thresholds) -> DataFrame:
    """Add up rebalances: those that were over by their lengths, and all by the parts that lie within the interval."""
    is_over, outcome = sf.col("is_over"), sf.col("outcome")
    return (
        _with_storms(timed, thresholds)
        .withColumn("took_ms", sf.when(is_over, sf.col("completed_ms") - sf.col("started_ms")))
        .withColumn("over_restarts", sf.when(is_over, sf.col("restarts")))
        .groupBy(KEY)
        .agg(
            sf.count_if(is_over).cast("int").alias("rebalances"),
            *(sf.count_if(is_over & (outcome == each)).cast("int").alias(each) for each in OUTCOMES),
            sf.sum("over_restarts").alias("restarts"),
            sf.max("over_restarts").alias("restarts_max"),
            rules.median("took_ms").alias("took_ms_p50"),
            rules.high("took_ms").alias("took_ms_p95"),
            sf.max("took_ms").alias("took_ms_max"),
            sf.sum("took_ms").alias("took_ms_total"),
            sf.sum(_ms_within(interval)).alias("rebalancing_ms"),
            sf.min(sf.when(~is_over, sf.col("started_at"))).alias("unsettled_since"),
            sf.count_if(is_over & sf.col("begins_storm")).cast("int").alias("storms"),
            sf.count_if(is_over & sf.col("is_stormy")).cast("int").alias("stormy_rebalances"),
        )
    )


def _ms_within(interval: Interval) -> Column:
    end_ms = sf.lit(interval.end_ms)
    until_ms = sf.least(sf.coalesce("completed_ms", end_ms), end_ms)
    return until_ms - sf.greatest("started_ms", sf.lit(interval.start_ms))


def _with_storms(timed: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Mark rebalances that are part of a storm; those that were over make up storms of their own."""
    in_order = Window.partitionBy(KEY, "is_over").orderBy("started_ms", "completed_ms")
    begins = rules.begins_storm_window(sf.col("started_ms"), in_order, thresholds)
    return (
        timed.withColumn("begins", begins)
        .withColumn("is_stormy", rules.is_stormy(sf.col("begins"), in_order, thresholds))
        .withColumn("begins_storm", rules.begins_storm(sf.col("begins"), in_order, thresholds))
    )


def _by_trigger(timed: DataFrame) -> DataFrame:
    counted = timed.where("is_over").groupBy(KEY, "trigger").agg(sf.count("*").alias("count"))
    entries = sf.sort_array(sf.collect_list(sf.struct("trigger", "count")))
    return counted.groupBy(KEY).agg(sf.to_json(sf.map_from_entries(entries)).alias("by_trigger"))


def _evictions(evictions: DataFrame, joins: DataFrame, grace_ms: int) -> DataFrame:
    gone, back = evictions.alias("gone"), joins.alias("back")
    is_same = (sf.col("gone.group_id") == sf.col("back.group_id")) & rules.is_same_consumer(
        _consumer("gone"), _consumer("back")
    )
    gone_ms, joined_ms = sf.unix_millis("gone.ended_at"), sf.unix_millis("back.joined_at")
    is_back = is_same & rules.is_back_in_time(gone_ms, joined_ms, grace_ms)
    is_successor = is_same & rules.is_successor(sf.unix_millis("gone.silent_since"), joined_ms, gone_ms)
    alive = gone.join(back, on=is_successor, how="left_anti").alias("gone")
    spurious = alive.join(back, on=is_back, how="left_semi").groupBy(KEY)
    return (
        evictions.groupBy(KEY)
        .agg(sf.count("*").cast("int").alias("evicted"))
        .join(spurious.agg(sf.count("*").cast("int").alias("spuriously_evicted")), on=KEY, how="left")
    )


def _consumer(alias: str) -> ConsumerColumns:
    names = ("member_id", "group_instance_id", "client_id", "client_host")
    return ConsumerColumns(*(sf.col(f"{alias}.{name}") for name in names))


def longest_waits(waits: DataFrame) -> DataFrame:
    """Find the consumer that each group waited for longest, in all rebalances of the interval and under any member id.

    Source: coordinator_core/protocol/reports/waiting.py, to which a property test compares this.
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
