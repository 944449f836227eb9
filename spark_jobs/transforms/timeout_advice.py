"""A group's history becomes a row of counts, however large the group is, and the pure rules advise from that row.

stays, members, parts ── evictions ──┐
stays ─────────────────────── days ──┤
parts, evictions ────────── rejoins ─┼── evidence ── advice
rebalances ─────────────── startups ─┤
members, settings ──────── in force ─┘
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from coordinator_core.protocol.advice.policy import Policy
from coordinator_core.protocol.advice.startup import STARTUP_MS
from spark_jobs.rules.advice import day_of, identity_of, place_of, summed_gaps
from spark_jobs.rules.advised import TOLD, advised_row

SESSION_EXPIRED, REBALANCE_TIMEOUT = "session_expired", "rebalance_timeout"

STAY_COLUMNS = (
    "group_id",
    "shard_id",
    "member_id",
    "group_instance_id",
    "client_id",
    "client_host",
    "session_timeout_ms",
    "joined_at",
    "ended_at",
    "end_reason",
    "heartbeat_count",
    "heartbeat_gap_ms_max",
    "heartbeat_gap_histogram",
)
MEMBER_COLUMNS = (
    "group_id",
    "shard_id",
    "member_id",
    "group_instance_id",
    "client_id",
    "client_host",
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "joined_at",
)
PART_COLUMNS = (
    "group_id",
    "shard_id",
    "member_id",
    "outcome",
    "joined_after_ms",
    "waited_for_ms",
    "started_at",
    "completed_at",
)
REBALANCE_COLUMNS = (
    "group_id",
    "shard_id",
    "started_at",
    "joined_at",
    "completed_at",
    "restarts",
    "member_count_before",
)
SETTING_COLUMNS = ("group_id", "key", "value")
CLUSTER_COLUMNS = ("key", "value")

SETTINGS = (
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "group_initial_rebalance_delay_ms",
    "group_min_session_timeout_ms",
    "group_max_session_timeout_ms",
)
"""Settings that advice looks at."""

EVICTION_COLUMNS = ("group_id", "shard_id", "end_reason", "day", "limit_ms", "needed_ms")
DAY_FIELDS = ("day", "heartbeats", "gaps", "longest_gap_ms", "silences", "failures", "failures_limit_ms")
PRESENT_COLUMNS = (
    "present_session_ms",
    "present_rebalance_ms",
    "present_initial_delay_ms",
    "least_session_ms",
    "most_session_ms",
)
EVIDENCE_COLUMNS = (
    "group_id",
    "shard_id",
    "days",
    "rejoins",
    "late",
    "no_shows",
    "no_shows_limit_ms",
    "starts",
    "alone",
    "last_comers",
    "followers",
    *PRESENT_COLUMNS,
)

ADVICE_COLUMNS = (
    "group_id",
    "shard_id",
    "window_start",
    "heartbeats",
    *(column.split()[0] for column in TOLD.split(", ")),
)


def evictions(stays: DataFrame, members: DataFrame, parts: DataFrame, *, end_ms: int, grace_ms: int) -> DataFrame:
    """Find who was put out by a timeout, and the timeout that would not have.

    Args:
        stays: STAY_COLUMNS, those of returns included.
        members: MEMBER_COLUMNS, those who are there.
        parts: PART_COLUMNS, those that ended in an eviction at least.
        end_ms: Wall time at which the window ends.
        grace_ms: Who is back within this was alive; who may still come back by then is left out.

    Returns:
        A row an eviction, EVICTION_COLUMNS; `needed_ms` is NULL of members that stayed away.
    """
    at_ms = sf.unix_millis("ended_at")
    put_out = sf.col("end_reason").isin(SESSION_EXPIRED, REBALANCE_TIMEOUT) & (at_ms < end_ms)
    gone = _identified(stays.where(put_out))
    back = _identified(stays).unionByName(_identified(members), allowMissingColumns=True)
    back = back.select(
        "group_id", "identity", sf.col("member_id").alias("back_as"), sf.col("joined_at").alias("back_at")
    )
    late_ms = sf.unix_millis("back_at") - at_ms
    is_back = (sf.col("back_as") != sf.col("member_id")) & late_ms.between(0, grace_ms)
    returned = gone.join(back, on=["group_id", "identity"], how="inner").where(is_back)
    first = returned.groupBy("group_id", "member_id", "ended_at").agg(sf.min(late_ms).alias("late_ms"))
    limited = _with_limits(gone, parts).join(first, on=["group_id", "member_id", "ended_at"], how="left")
    is_decided = sf.col("late_ms").isNotNull() | (at_ms < end_ms - grace_ms)
    return limited.where(is_decided).select(
        "group_id",
        "shard_id",
        "end_reason",
        day_of(sf.col("ended_at")).alias("day"),
        "limit_ms",
        (sf.col("limit_ms") + sf.col("late_ms")).alias("needed_ms"),
    )


def _identified(rows: DataFrame) -> DataFrame:
    who = (sf.col("group_instance_id"), sf.col("client_id"), sf.col("client_host"))
    return rows.withColumn("identity", identity_of(*who))


def _with_limits(gone: DataFrame, parts: DataFrame) -> DataFrame:
    """Add `limit_ms`; by a limit on rejoining it is how long was waited, which is known when the rebalance is over."""
    waited = parts.where(sf.col("outcome") == "evicted").select(
        "group_id", "member_id", "waited_for_ms", "started_at", "completed_at"
    )
    by_session = gone.where(sf.col("end_reason") == SESSION_EXPIRED).withColumn(
        "limit_ms", sf.col("session_timeout_ms").cast("long")
    )
    by_rebalance = (
        gone.where(sf.col("end_reason") == REBALANCE_TIMEOUT)
        .join(waited, on=["group_id", "member_id"], how="inner")
        .where(sf.col("ended_at").between(sf.col("started_at"), sf.col("completed_at")))
        .withColumnRenamed("waited_for_ms", "limit_ms")
        .drop("started_at", "completed_at")
    )
    return by_session.unionByName(by_rebalance)


def days(stays: DataFrame, put_out: DataFrame, *, end_ms: int) -> DataFrame:
    """Count silences by day.

    Args:
        stays: STAY_COLUMNS.
        put_out: EVICTION_COLUMNS.
        end_ms: Wall time at which the window ends.

    Returns:
        A row a group: group_id, shard_id, `days` in order.
    """
    by_session = put_out.where(sf.col("end_reason") == SESSION_EXPIRED)
    is_failure = sf.col("needed_ms").isNull()
    failures = by_session.groupBy("group_id", "day").agg(
        sf.count_if(is_failure).alias("failures"),
        sf.coalesce(sf.sum(sf.when(is_failure, sf.col("limit_ms"))), sf.lit(0)).alias("failures_limit_ms"),
    )
    silences = _counted(by_session.where(~is_failure), "needed_ms", "silences", "group_id", "day")
    return (
        _measured(stays.where(sf.unix_millis("ended_at") < end_ms))
        .join(failures, on=["group_id", "day"], how="left")
        .join(silences, on=["group_id", "day"], how="left")
        .fillna(0, ["failures", "failures_limit_ms"])
        .groupBy("group_id", "shard_id")
        .agg(sf.sort_array(sf.collect_list(sf.struct(*DAY_FIELDS))).alias("days"))
    )


def _measured(stays: DataFrame) -> DataFrame:
    """Add heartbeats and gaps up: a row a group and day."""
    return stays.groupBy("group_id", "shard_id", day_of(sf.col("ended_at")).alias("day")).agg(
        sf.sum("heartbeat_count").alias("heartbeats"),
        summed_gaps(sf.col("heartbeat_gap_histogram")).alias("gaps"),
        sf.coalesce(sf.max("heartbeat_gap_ms_max"), sf.lit(0)).alias("longest_gap_ms"),
    )


def _counted(rows: DataFrame, length: str, counts: str, *keys: str) -> DataFrame:
    """Count lengths by steps: a row a key, with `counts` of those steps that have any."""
    by_place = rows.groupBy(*keys, place_of(sf.col(length)).alias("place")).agg(sf.count("*").alias("count"))
    return by_place.groupBy(*keys).agg(sf.collect_list(sf.struct("place", "count")).alias(counts))


def rejoins(parts: DataFrame, put_out: DataFrame) -> DataFrame:
    """Count how long groups waited for members that they had.

    Args:
        parts: PART_COLUMNS.
        put_out: EVICTION_COLUMNS.

    Returns:
        A row a group: group_id, `rejoins`, `late`, `no_shows`, `no_shows_limit_ms`.
    """
    left_out = put_out.where(sf.col("end_reason") == REBALANCE_TIMEOUT)
    late = left_out.where(sf.col("needed_ms").isNotNull()).select("group_id", "needed_ms")
    in_time = parts.where(
        (sf.col("outcome") == "joined") & (sf.col("waited_for_ms") > 0) & sf.col("joined_after_ms").isNotNull()
    ).select("group_id", sf.least("joined_after_ms", "waited_for_ms").alias("needed_ms"))
    no_shows = left_out.where(sf.col("needed_ms").isNull()).groupBy("group_id")
    return (
        _counted(in_time.unionByName(late), "needed_ms", "rejoins", "group_id")
        .join(_counted(late, "needed_ms", "late", "group_id"), on="group_id", how="left")
        .join(
            no_shows.agg(sf.count("*").alias("no_shows"), sf.sum("limit_ms").alias("no_shows_limit_ms")),
            on="group_id",
            how="full",
        )
    )


def startups(rebalances: DataFrame) -> DataFrame:
    """Count how groups came together from nothing.

    Args:
        rebalances: REBALANCE_COLUMNS, those that newcomers caused.

    Returns:
        A row a group that started: group_id, `starts`, `alone`, `last_comers`, `followers`.
    """
    started_ms, is_start = sf.unix_millis("started_at"), sf.col("member_count_before") == 0
    so_far = (
        Window.partitionBy("group_id")
        .orderBy("completed_at", "started_at")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    began_ms = sf.last(sf.when(is_start, started_ms), ignorenulls=True).over(so_far)
    # A start that fell back was followed before it was over: by the end of its last join phase, at the latest.
    fell_back = sf.when(sf.col("restarts") > 0, sf.unix_millis("joined_at") - started_ms)
    after_ms = sf.when(is_start, fell_back).otherwise(started_ms - sf.col("began_ms"))
    comers = rebalances.withColumn("began_ms", began_ms).where(sf.col("began_ms").isNotNull())
    comers = comers.withColumn("after_ms", sf.when(after_ms <= STARTUP_MS, after_ms))
    by_start = comers.groupBy("group_id", "began_ms").agg(sf.max("after_ms").alias("last_ms"))
    followed = by_start.where(sf.col("last_ms").isNotNull())
    sums = by_start.groupBy("group_id").agg(
        sf.count("*").alias("starts"), sf.count_if(sf.col("last_ms").isNull()).alias("alone")
    )
    followers = _counted(comers.where(sf.col("after_ms").isNotNull()), "after_ms", "followers", "group_id")
    return sums.join(_counted(followed, "last_ms", "last_comers", "group_id"), on="group_id", how="left").join(
        followers, on="group_id", how="left"
    )


def in_force(
    stays: DataFrame,
    members: DataFrame,
    cluster_config: DataFrame,
    group_configs: DataFrame,
    defaults: Mapping[str, int | None],
    *,
    end_ms: int,
) -> DataFrame:
    """Find what each group has now: what is set, or else what its members ask for.

    Args:
        stays: STAY_COLUMNS; what was in force last counts where nobody is there to ask.
        members: MEMBER_COLUMNS.
        cluster_config: CLUSTER_COLUMNS.
        group_configs: SETTING_COLUMNS.
        defaults: What holds where neither sets anything, by settings.
        end_ms: Wall time at which the window ends.

    Returns:
        A row a group that has stays: group_id and PRESENT_COLUMNS.
    """
    newest = sf.max_by("session_timeout_ms", sf.struct("ended_at", "member_id"))
    last = stays.where(sf.unix_millis("ended_at") < end_ms).groupBy("group_id").agg(newest.alias("last_session_ms"))
    asked = members.groupBy("group_id").agg(
        sf.max("session_timeout_ms").alias("asked_session_ms"),
        sf.max("rebalance_timeout_ms").alias("asked_rebalance_ms"),
    )
    own = group_configs.groupBy("group_id").agg(*(_set(key).alias(f"own_{key}") for key in SETTINGS))
    wide = cluster_config.agg(*(_set(key).alias(f"wide_{key}") for key in SETTINGS))
    joined = last.join(asked, on="group_id", how="left").join(own, on="group_id", how="left")

    def narrowest(key: str, *asked_for: str) -> Column:
        return sf.coalesce(f"own_{key}", f"wide_{key}", sf.lit(defaults[key]).cast("int"), *map(sf.col, asked_for))

    return joined.crossJoin(sf.broadcast(wide)).select(
        "group_id",
        narrowest("session_timeout_ms", "asked_session_ms", "last_session_ms").alias("present_session_ms"),
        narrowest("rebalance_timeout_ms", "asked_rebalance_ms").alias("present_rebalance_ms"),
        narrowest("group_initial_rebalance_delay_ms").alias("present_initial_delay_ms"),
        narrowest("group_min_session_timeout_ms").alias("least_session_ms"),
        narrowest("group_max_session_timeout_ms").alias("most_session_ms"),
    )


def _set(key: str) -> Column:
    return sf.max(sf.when(sf.col("key") == key, sf.col("value").try_cast("int")))


def evidence(by_day: DataFrame, rejoined: DataFrame, started: DataFrame, present: DataFrame) -> DataFrame:
    """Put together what is known of each group that was there: a row a group, EVIDENCE_COLUMNS."""
    return (
        by_day.join(present, on="group_id", how="inner")
        .join(rejoined, on="group_id", how="left")
        .join(started, on="group_id", how="left")
        .select(*EVIDENCE_COLUMNS)
    )


def advice(known: DataFrame, policy: Policy, *, start_ms: int) -> DataFrame:
    """Advise each group by the pure rules, which no column expression could say.

    Args:
        known: EVIDENCE_COLUMNS.
        policy: What is wanted.
        start_ms: Wall time at which the window began.

    Returns:
        A row a group, ADVICE_COLUMNS.
    """
    # Rows are few, a group each, and small whatever the group's size: Arrow would gain nothing.
    advised = sf.udf(lambda row: advised_row(row.asDict(recursive=True), policy), TOLD, useArrow=False)
    heartbeats = sf.aggregate("days", sf.lit(0).cast("long"), lambda total, day: total + day["heartbeats"])
    return (
        known.withColumn("told", advised(sf.struct(*EVIDENCE_COLUMNS)))
        .withColumn("heartbeats", heartbeats)
        .withColumn("window_start", sf.timestamp_millis(sf.lit(start_ms)))
        .select("group_id", "shard_id", "window_start", "heartbeats", "told.*")
        .select(*ADVICE_COLUMNS)
    )
