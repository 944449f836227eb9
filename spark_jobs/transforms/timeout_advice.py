"""Sum up each group's history in one row of counts, and apply the pure advice rules to that row.

ends, reconnects, waits ──────────── evictions ─┐
sessions ── days ─┐                             ├── evidence ── advice
members, settings, assigned ──────── effective ─┤
rejoined ─────────────────────────── rejoins ───┤
new members ──────────────────────── startups ──┤
rebalances ───────────────────────── totals ────┘

Each DataFrame of history is used once: it may have millions of rows, and every use would read it again.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from coordinator_core.analytics.advice.evidence import (
    BY_MEMBERS,
    COMPLETED,
    EXIT_REASONS,
    REBALANCE_TIMEOUT,
    SESSION_EXPIRED,
)
from coordinator_core.analytics.advice.policy import GRACE_MS, LATE_GRACE_MS, SIGNS_PER_SESSION, Policy
from coordinator_core.analytics.advice.startup import STARTUP_MS
from coordinator_core.analytics.advice.steps import BEYOND
from spark_jobs.rules.advice import day_of, identity_of, place_of, summed_gaps
from spark_jobs.rules.advice_rows import ADVICE_SCHEMA, advised_row
from spark_jobs.transforms.rebalance_frequency import CONSUMER_COLUMNS

SESSION_COLUMNS = (
    "group_id",
    "shard_id",
    "session_timeout_ms",
    "ended_at",
    "heartbeat_count",
    "heartbeat_gap_ms_max",
    "heartbeat_gap_histogram",
)
END_COLUMNS = (*CONSUMER_COLUMNS, "session_timeout_ms", "ended_at", "end_reason", "silent_since")
RECONNECT_COLUMNS = (*CONSUMER_COLUMNS, "joined_at")
WAIT_COLUMNS = ("group_id", "shard_id", "member_id", "waited_for_ms", "started_at", "completed_at")
REJOIN_COLUMNS = ("rebalance_id", "group_id", "shard_id", "outcome", "joined_after_ms", "waited_for_ms")
MEMBER_COLUMNS = ("group_id", "shard_id", "session_timeout_ms", "rebalance_timeout_ms")
ASSIGNED_COLUMNS = ("group_id", "shard_id", "protocol_name", "partitions")
TOTAL_COLUMNS = ("group_id", "shard_id", "trigger", "outcome", "started_at", "completed_at", "partitions_moved")
NEW_MEMBER_COLUMNS = (
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
    "heartbeat_interval_ms",
    "group_min_session_timeout_ms",
    "group_max_session_timeout_ms",
)
"""Settings that advice depends on."""

DAY_FIELDS = ("day", "heartbeats", "gaps", "longest_gap_ms")
EVICTION_FIELDS = (
    "end_reason",
    "day",
    "place",
    "limit_place",
    "is_live",
    "is_restart",
    "count",
    "limit_ms",
    "stalls",
)
TOTALS = ("rebalances", "took_ms", "completed", "partitions_moved", "by_members")
PRESENT_COLUMNS = (
    "present_session_ms",
    "present_rebalance_ms",
    "present_initial_delay_ms",
    "least_session_ms",
    "most_session_ms",
    "protocol_name",
    "partitions",
)
EVIDENCE_COLUMNS = (
    "group_id",
    "shard_id",
    "days",
    "evictions",
    "rejoins",
    "waits",
    *TOTALS,
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
    *(column.split()[0] for column in ADVICE_SCHEMA.split(", ")),
)


def evictions(ended: DataFrame, reconnects: DataFrame, waits: DataFrame, *, end_ms: int, grace_ms: int) -> DataFrame:
    """Count the evicted members, by the timeout that would have kept them, and those that left.

    Args:
        ended: END_COLUMNS, of the members that were evicted within the window, or left.
        reconnects: RECONNECT_COLUMNS, of members that joined between the window's start and the longest grace after it.
        waits: WAIT_COLUMNS.
        end_ms: Unix time of the window's end.
        grace_ms: A member that rejoins within this time was alive, unless it had a successor before its eviction; one
            that was live when it missed a join phase has LATE_GRACE_MS. Members whose grace has not passed are left
            out.

    Returns:
        One row per group that has any: group_id, `evictions`; their `place` is the step of the timeout that would have
        kept them, NULL for members that did not rejoin. `stalls` counts the join phases that they ended: a phase counts
        for its slowest member.
    """
    gone = _first_reconnects(
        _identified(_with_limits(_with_graces(ended, grace_ms), waits)), _identified(reconnects), grace_ms
    )
    is_decided = sf.col("late_ms").isNotNull() | (sf.unix_millis("ended_at") < end_ms - sf.col("grace_ms"))
    needed_place = sf.coalesce("place", sf.lit(BEYOND))
    in_phase = Window.partitionBy("group_id", "end_reason", sf.unix_millis("ended_at")).orderBy(
        sf.desc(needed_place), sf.desc("limit_place"), "member_id"
    )
    return (
        gone.where(is_decided)
        .withColumn("day", day_of(sf.col("ended_at"), end_ms))
        .withColumn("place", place_of(sf.col("limit_ms") + sf.col("late_ms")))
        .withColumn("limit_place", place_of(sf.col("limit_ms")))
        .withColumn("is_slowest", sf.row_number().over(in_phase) == 1)
        .groupBy("group_id", "end_reason", "day", "place", "limit_place", "is_live", "is_restart")
        .agg(
            sf.count("*").alias("count"),
            sf.sum("limit_ms").alias("limit_ms"),
            sf.count_if("is_slowest").alias("stalls"),
        )
        .groupBy("group_id")
        .agg(sf.collect_list(sf.struct(*EVICTION_FIELDS)).alias("evictions"))
    )


def _with_graces(ended: DataFrame, grace_ms: int) -> DataFrame:
    """Add `is_live` (heartbeats continued until the eviction at the rebalance timeout) and `grace_ms`."""
    silent_ms = sf.unix_millis("ended_at") - sf.unix_millis("silent_since")
    was_heard = silent_ms * SIGNS_PER_SESSION <= sf.col("session_timeout_ms")
    live = ended.withColumn("is_live", (sf.col("end_reason") == REBALANCE_TIMEOUT) & was_heard)
    return live.withColumn("grace_ms", sf.when(sf.col("is_live"), LATE_GRACE_MS).otherwise(grace_ms).cast("long"))


def _identified(rows: DataFrame) -> DataFrame:
    who = (sf.col("group_instance_id"), sf.col("client_id"), sf.col("client_host"))
    return rows.withColumn("identity", identity_of(*who))


def _with_limits(timeouts: DataFrame, waits: DataFrame) -> DataFrame:
    """Add `limit_ms`, the timeout; for the rebalance timeout it is the time waited, known after the rebalance."""
    gone, waited = timeouts.alias("gone"), waits.alias("waited")
    is_its_wait = (
        (sf.col("gone.group_id") == sf.col("waited.group_id"))
        & (sf.col("gone.member_id") == sf.col("waited.member_id"))
        & (sf.col("end_reason") == REBALANCE_TIMEOUT)
        & sf.col("ended_at").between(sf.col("started_at"), sf.col("completed_at"))
    )
    is_by_rebalance = sf.col("end_reason") == REBALANCE_TIMEOUT
    limit_ms = sf.when(is_by_rebalance, sf.col("waited_for_ms")).otherwise(sf.col("session_timeout_ms").cast("long"))
    limited = gone.join(waited, on=is_its_wait, how="left").select("gone.*", limit_ms.alias("limit_ms"))
    return limited.where(sf.col("limit_ms").isNotNull())


def _first_reconnects(gone: DataFrame, reconnects: DataFrame, grace_ms: int) -> DataFrame:
    """Add `late_ms`, the time until the same identity rejoined within the grace, and `is_restart`.

    `late_ms` is NULL if it did not rejoin, or had joined between the member's last heartbeat and its eviction.

    Time is divided into slots as long as the shorter grace, and at least GRACE_MS. Rejoins lie in the slots of the
    grace, successors in those since the last heartbeat, so each end is joined with few members and not with all.
    """
    at_ms, joined_ms = sf.unix_millis("ended_at"), sf.unix_millis("joined_at")
    is_exit = sf.col("end_reason").isin(*EXIT_REASONS)
    # A member that left has no successor to look for. In a mirror it was heard last when it joined, perhaps weeks ago.
    silent_ms = sf.when(is_exit, at_ms - 1).otherwise(sf.least(sf.unix_millis("silent_since"), at_ms - 1))
    slot_ms = max(grace_ms, GRACE_MS) + 1
    slots = sf.sequence(sf.floor(silent_ms / slot_ms), sf.floor((at_ms + sf.col("grace_ms")) / slot_ms))
    expected = gone.withColumn("slot", sf.explode(slots))
    back = reconnects.select(
        "group_id",
        "identity",
        sf.floor(joined_ms / slot_ms).alias("slot"),
        sf.col("member_id").alias("reconnected_as"),
        joined_ms.alias("back_ms"),
    )
    came_ms = sf.col("back_ms")
    is_next = (
        (sf.col("reconnected_as") != sf.col("member_id"))
        & (came_ms > silent_ms)
        & (came_ms <= at_ms + sf.col("grace_ms"))
    )
    after_ms = sf.when(is_next, came_ms - at_ms)
    has_successor = ~is_exit & sf.coalesce(sf.min(after_ms) < 0, sf.lit(False))
    late_ms = sf.when(~has_successor, sf.min(sf.when(after_ms >= 0, after_ms)))
    is_soon = sf.coalesce(late_ms <= sf.col("session_timeout_ms"), sf.lit(False))
    is_crash = (sf.col("end_reason") == SESSION_EXPIRED) & has_successor
    is_restart = sf.col("group_instance_id").isNull() & ((is_exit & is_soon) | is_crash)
    session_key = ("group_id", "member_id", "ended_at", "end_reason", "session_timeout_ms", "group_instance_id")
    return (
        expected.join(back, on=["slot", "group_id", "identity"], how="left")
        .groupBy(*session_key, "is_live", "grace_ms", "limit_ms")
        .agg(late_ms.alias("late_ms"), is_restart.alias("is_restart"))
    )


def days(sessions: DataFrame, *, end_ms: int) -> DataFrame:
    """Sum up heartbeats and gaps by day.

    Args:
        sessions: SESSION_COLUMNS, those that ended within the window.
        end_ms: Unix time of the end of the window and its days.

    Returns:
        One row per group: group_id, shard_id, `last_session_ms` (the last effective session timeout) and `days`, with
        one entry per day and effective session timeout.
    """
    last = sf.max_by("session_timeout_ms", sf.struct("last_at", "session_timeout_ms"))
    return (
        sessions.groupBy("group_id", "shard_id", "session_timeout_ms", day_of(sf.col("ended_at"), end_ms).alias("day"))
        .agg(
            sf.coalesce(sf.sum("heartbeat_count"), sf.lit(0)).alias("heartbeats"),
            summed_gaps(sf.col("heartbeat_gap_histogram")).alias("gaps"),
            sf.coalesce(sf.max("heartbeat_gap_ms_max"), sf.lit(0)).alias("longest_gap_ms"),
            sf.max("ended_at").alias("last_at"),
        )
        .groupBy("group_id", "shard_id")
        .agg(last.alias("last_session_ms"), sf.collect_list(sf.struct(*DAY_FIELDS)).alias("days"))
    )


def rejoins(rejoined: DataFrame) -> DataFrame:
    """Count how long groups waited for members that joined in time, and how long rebalances waited for the slowest.

    Args:
        rejoined: REJOIN_COLUMNS.

    Returns:
        One row per group that waited: group_id, `rejoins`, `waits`.
    """
    has_joined = sf.col("outcome") == "joined"
    in_time_ms = sf.least("joined_after_ms", "waited_for_ms")
    # `least` ignores NULL: for a member that has not joined, it is how long the rebalance waited for it.
    wait_ms = sf.when(has_joined, in_time_ms).otherwise(sf.col("waited_for_ms"))
    rejoin_place = sf.when(has_joined & sf.col("joined_after_ms").isNotNull(), place_of(in_time_ms))
    by_rebalance = rejoined.groupBy("group_id", "rebalance_id").agg(
        sf.collect_list(rejoin_place).alias("places"), place_of(sf.max(wait_ms)).alias("wait_place")
    )
    # One array for both, so that the rows are read once.
    rejoin = sf.transform("places", lambda place: sf.struct(sf.lit(True).alias("is_rejoin"), place.alias("place")))
    wait = sf.struct(sf.lit(False).alias("is_rejoin"), sf.col("wait_place").alias("place"))
    each = by_rebalance.select("group_id", sf.explode(sf.concat(rejoin, sf.array(wait))).alias("one"))
    counted = each.groupBy("group_id", "one.is_rejoin", "one.place").agg(sf.count("*").alias("count"))
    entry = sf.struct("place", "count")
    return counted.groupBy("group_id").agg(
        sf.collect_list(sf.when(sf.col("is_rejoin"), entry)).alias("rejoins"),
        sf.collect_list(sf.when(~sf.col("is_rejoin"), entry)).alias("waits"),
    )


def totals(rebalances: DataFrame) -> DataFrame:
    """Sum up rebalances.

    Args:
        rebalances: TOTAL_COLUMNS.

    Returns:
        One row per group that has any: group_id, TOTALS.
    """
    took_ms = sf.unix_millis("completed_at") - sf.unix_millis("started_at")
    return rebalances.groupBy("group_id").agg(
        sf.count("*").alias("rebalances"),
        sf.sum(took_ms).alias("took_ms"),
        sf.count_if(sf.col("outcome") == COMPLETED).alias("completed"),
        sf.sum("partitions_moved").alias("partitions_moved"),
        sf.count_if(sf.col("trigger").isin(*BY_MEMBERS)).alias("by_members"),
    )


def _counted(rows: DataFrame, length: str, counts: str, *keys: str) -> DataFrame:
    """Count durations by step: one row per key, with `counts` of the steps that occur."""
    by_place = rows.groupBy(*keys, place_of(sf.col(length)).alias("place")).agg(sf.count("*").alias("count"))
    return by_place.groupBy(*keys).agg(sf.collect_list(sf.struct("place", "count")).alias(counts))


def startups(rebalances: DataFrame) -> DataFrame:
    """Count start-ups: rebalances of Empty groups and the joins that follow.

    Args:
        rebalances: NEW_MEMBER_COLUMNS, those triggered by new members.

    Returns:
        One row per group that started: group_id, `starts`, `alone`, `last_comers`, `followers`.
    """
    started_ms, is_start = sf.unix_millis("started_at"), sf.col("member_count_before") == 0
    so_far = (
        Window.partitionBy("group_id")
        .orderBy("completed_at", "started_at")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    began_ms = sf.last(sf.when(is_start, started_ms), ignorenulls=True).over(so_far)
    # In a start-up that restarted, members followed before it ended: by the end of its last join phase at the latest.
    fell_back = sf.when(sf.col("restarts") > 0, sf.unix_millis("joined_at") - started_ms)
    after_ms = sf.when(is_start, fell_back).otherwise(started_ms - sf.col("began_ms"))
    comers = rebalances.withColumn("began_ms", began_ms).where(sf.col("began_ms").isNotNull())
    comers = comers.withColumn("after_ms", sf.when(after_ms <= STARTUP_MS, after_ms))
    by_start = comers.groupBy("group_id", "began_ms").agg(sf.max("after_ms").alias("last_ms"))
    count_startups = by_start.where(sf.col("last_ms").isNotNull())
    sums = by_start.groupBy("group_id").agg(
        sf.count("*").alias("starts"), sf.count_if(sf.col("last_ms").isNull()).alias("alone")
    )
    followers = _counted(comers.where(sf.col("after_ms").isNotNull()), "after_ms", "followers", "group_id")
    return sums.join(_counted(count_startups, "last_ms", "last_comers", "group_id"), on="group_id", how="left").join(
        followers, on="group_id", how="left"
    )


def effective(
    by_day: DataFrame,
    members: DataFrame,
    assigned: DataFrame,
    cluster_configs: DataFrame,
    group_configs: DataFrame,
    defaults: Mapping[str, int | None],
) -> DataFrame:
    """Add each group's effective settings: the configured value, or else its members' request.

    Args:
        by_day: As `days` returns it; without members, the last effective session timeout counts.
        members: MEMBER_COLUMNS.
        assigned: ASSIGNED_COLUMNS, of groups that exist.
        cluster_configs: CLUSTER_COLUMNS.
        group_configs: SETTING_COLUMNS.
        defaults: The defaults by setting.

    Returns:
        The same rows: group_id, shard_id, `days` and PRESENT_COLUMNS.
    """
    asked = members.groupBy("group_id").agg(
        sf.max("session_timeout_ms").alias("requested_session_ms"),
        sf.max("rebalance_timeout_ms").alias("requested_rebalance_ms"),
    )
    own = group_configs.groupBy("group_id").agg(*(_set(key).alias(f"own_{key}") for key in SETTINGS))
    wide = cluster_configs.agg(*(_set(key).alias(f"wide_{key}") for key in SETTINGS))
    joined = (
        by_day.join(asked, on="group_id", how="left")
        .join(own, on="group_id", how="left")
        .join(assigned.select("group_id", "protocol_name", "partitions"), on="group_id", how="left")
    )

    def narrowest(key: str, *asked_for: str) -> Column:
        return sf.coalesce(f"own_{key}", f"wide_{key}", sf.lit(defaults[key]).cast("int"), *map(sf.col, asked_for))

    return joined.crossJoin(sf.broadcast(wide)).select(
        "group_id",
        "shard_id",
        "days",
        narrowest("session_timeout_ms", "requested_session_ms", "last_session_ms").alias("present_session_ms"),
        narrowest("rebalance_timeout_ms", "requested_rebalance_ms").alias("present_rebalance_ms"),
        narrowest("group_initial_rebalance_delay_ms").alias("present_initial_delay_ms"),
        # `greatest` ignores NULL. A session timeout is above the heartbeat interval.
        sf.greatest(narrowest("group_min_session_timeout_ms"), narrowest("heartbeat_interval_ms") + 1).alias(
            "least_session_ms"
        ),
        narrowest("group_max_session_timeout_ms").alias("most_session_ms"),
        "protocol_name",
        sf.coalesce("partitions", sf.lit(0)).alias("partitions"),
    )


def _set(key: str) -> Column:
    return sf.max(sf.when(sf.col("key") == key, sf.col("value").try_cast("int")))


def evidence(
    present: DataFrame, evicted: DataFrame, rejoined: DataFrame, summed: DataFrame, started: DataFrame
) -> DataFrame:
    """Join all counts of each group.

    Args:
        present: As `effective` returns it.
        evicted: As `evictions` returns it.
        rejoined: As `rejoins` returns it.
        summed: As `totals` returns it.
        started: As `startups` returns it.

    Returns:
        One row per group, EVIDENCE_COLUMNS.
    """
    return (
        present.join(evicted, on="group_id", how="left")
        .join(rejoined, on="group_id", how="left")
        .join(summed, on="group_id", how="left")
        .join(started, on="group_id", how="left")
        .select(*EVIDENCE_COLUMNS)
    )


def advice(known: DataFrame, policy: Policy, *, start_ms: int) -> DataFrame:
    """Advise each group by the pure rules, which column expressions cannot do.

    Args:
        known: EVIDENCE_COLUMNS.
        policy: The targets.
        start_ms: Unix time of the window's start.

    Returns:
        One row per group, ADVICE_COLUMNS.
    """
    # There is one small row per group, so Arrow would gain nothing.
    advised = sf.udf(lambda row: advised_row(row.asDict(recursive=True), policy), ADVICE_SCHEMA, useArrow=False)
    heartbeats = sf.aggregate("days", sf.lit(0).cast("long"), lambda total, day: total + day["heartbeats"])
    return (
        known.withColumn("advice", advised(sf.struct(*EVIDENCE_COLUMNS)))
        .withColumn("heartbeats", heartbeats)
        .withColumn("window_start", sf.timestamp_millis(sf.lit(start_ms)))
        .select("group_id", "shard_id", "window_start", "heartbeats", "advice.*")
        .select(*ADVICE_COLUMNS)
    )
