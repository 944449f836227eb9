"""Rules on rebalance churn, spurious evictions and stuck groups as Spark column expressions.

Instants are milliseconds (`long`) here.

Source: coordinator_core/analytics/frequency.py; a property test compares this module with plain functions.
"""

from pyspark.sql import Column, Window, WindowSpec
from pyspark.sql import functions as sf

from coordinator_core.analytics.frequency import HIGH, MEDIAN, Thresholds


def is_back_within_grace(gone_at_ms: Column, joined_at_ms: Column, grace_ms: int) -> Column:
    """Return whether a member joined within the grace after its eviction."""
    return joined_at_ms.between(gone_at_ms, gone_at_ms + grace_ms)


def is_successor(silent_since_ms: Column, joined_at_ms: Column, gone_at_ms: Column) -> Column:
    """Return whether a member joined between another one's last heartbeat and its eviction."""
    return (silent_since_ms < joined_at_ms) & (joined_at_ms < gone_at_ms)


def begins_churn_window(start_ms: Column, in_order: WindowSpec, thresholds: Thresholds) -> Column:
    """Return whether `churn_min_rebalances` rebalances, starting with this one, began within the window."""
    last_ms = sf.lead(start_ms, thresholds.churn_min_rebalances - 1).over(in_order)
    return sf.coalesce(last_ms - start_ms <= thresholds.churn_window_ms, sf.lit(False))


def is_in_churn(begins: Column, in_order: WindowSpec, thresholds: Thresholds) -> Column:
    """Return whether a rebalance is part of churn; `begins` is the result of `begins_churn_window`."""
    return sf.max(begins).over(in_order.rowsBetween(1 - thresholds.churn_min_rebalances, Window.currentRow))


def begins_churn(begins: Column, in_order: WindowSpec, thresholds: Thresholds) -> Column:
    """Return whether a rebalance starts a period of churn."""
    continues = sf.max(begins).over(in_order.rowsBetween(1 - thresholds.churn_min_rebalances, -1))
    return begins & ~sf.coalesce(continues, sf.lit(False))


def median(length_ms: str) -> Column:
    """Return the median of a column's durations, which is one of them."""
    return sf.expr(f"percentile_disc({MEDIAN}) WITHIN GROUP (ORDER BY {length_ms})").cast("long")


def high(length_ms: str) -> Column:
    """Return the 95th percentile of a column's durations, which is one of them."""
    return sf.expr(f"percentile_disc({HIGH}) WITHIN GROUP (ORDER BY {length_ms})").cast("long")


def existed_ms(created_at_ms: Column, died_at_ms: Column, start_ms: int, end_ms: int) -> Column:
    """Return how long a group existed within an interval; `died_at_ms` is NULL if it was not deleted within it."""
    until_ms = sf.least(died_at_ms, sf.lit(end_ms))  # `least` ignores NULL.
    return sf.greatest(sf.lit(0), until_ms - sf.greatest(created_at_ms, sf.lit(start_ms)))


def rebalancing_share(rebalancing_ms: Column, existed_ms: Column) -> Column:
    """Return the share of its lifetime within an interval that a group was rebalancing; 0 without a lifetime.

    It is 1 at most: where a clock was set back, a rebalance may have lasted longer than its group existed.
    """
    return sf.when(existed_ms > 0, sf.least(sf.lit(1.0), rebalancing_ms / existed_ms)).otherwise(sf.lit(0.0))


def is_churning(under_way_ms: Column, restarts: Column, thresholds: Thresholds) -> Column:
    """Return whether a group is churning; `under_way_ms` and `restarts` may be NULL."""
    continues = sf.coalesce(under_way_ms >= thresholds.stuck_ms, sf.lit(False))
    return continues | sf.coalesce(restarts >= thresholds.stuck_restarts, sf.lit(False))
