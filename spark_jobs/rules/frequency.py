"""The rules on storms, spurious evictions and groups that never settle, as Spark column expressions.

Instants are milliseconds (`long`) here.

Source: coordinator_core/protocol/reports/frequency.py, to which a property test compares this module.
"""

from dataclasses import dataclass

from pyspark.sql import Column, Window, WindowSpec
from pyspark.sql import functions as sf

from coordinator_core.protocol.reports.frequency import HIGH, MEDIAN, Thresholds


@dataclass(frozen=True, slots=True)
class ConsumerColumns:
    """Who a member is, as columns."""

    member_id: Column
    instance_id: Column
    client_id: Column
    host: Column


def is_same_consumer(gone: ConsumerColumns, back: ConsumerColumns) -> Column:
    """Say whether a member that joined is one that is gone, come back."""
    is_same_process = (gone.client_id == back.client_id) & (gone.host == back.host)
    return (
        (gone.member_id != back.member_id)
        & gone.instance_id.eqNullSafe(back.instance_id)
        & (gone.instance_id.isNotNull() | is_same_process)
    )


def is_back_in_time(gone_at_ms: Column, joined_at_ms: Column, grace_ms: int) -> Column:
    """Say whether somebody joined soon enough after having been put out."""
    return joined_at_ms.between(gone_at_ms, gone_at_ms + grace_ms)


def is_successor(silent_since_ms: Column, joined_at_ms: Column, gone_at_ms: Column) -> Column:
    """Say whether somebody joined in the place of a member that was silent, and not put out yet."""
    return (silent_since_ms < joined_at_ms) & (joined_at_ms < gone_at_ms)


def begins_storm_window(start_ms: Column, in_order: WindowSpec, thresholds: Thresholds) -> Column:
    """Say whether so many rebalances, of which this one is the first, began within the window."""
    last_ms = sf.lead(start_ms, thresholds.storm_rebalances - 1).over(in_order)
    return sf.coalesce(last_ms - start_ms <= thresholds.storm_window_ms, sf.lit(False))


def is_stormy(begins: Column, in_order: WindowSpec, thresholds: Thresholds) -> Column:
    """Say whether a rebalance is part of a storm; `begins` is what `begins_storm_window` said of each."""
    return sf.max(begins).over(in_order.rowsBetween(1 - thresholds.storm_rebalances, Window.currentRow))


def begins_storm(begins: Column, in_order: WindowSpec, thresholds: Thresholds) -> Column:
    """Say whether a storm begins with a rebalance: none goes on already."""
    goes_on = sf.max(begins).over(in_order.rowsBetween(1 - thresholds.storm_rebalances, -1))
    return begins & ~sf.coalesce(goes_on, sf.lit(False))


def median(length_ms: str) -> Column:
    """Return the median of a column's lengths, of which it is one."""
    return sf.expr(f"percentile_disc({MEDIAN}) WITHIN GROUP (ORDER BY {length_ms})").cast("long")


def high(length_ms: str) -> Column:
    """Return a length, out of the column's, that 19 of 20 do not exceed."""
    return sf.expr(f"percentile_disc({HIGH}) WITHIN GROUP (ORDER BY {length_ms})").cast("long")


def lived_ms(created_at_ms: Column, died_at_ms: Column, start_ms: int, end_ms: int) -> Column:
    """Return how long of an interval one life of a group lasted; `died_at_ms` is NULL if it did not end within it."""
    until_ms = sf.least(died_at_ms, sf.lit(end_ms))  # NULL counts for nothing here.
    return sf.greatest(sf.lit(0), until_ms - sf.greatest(created_at_ms, sf.lit(start_ms)))


def rebalancing_share(rebalancing_ms: Column, lived_ms: Column) -> Column:
    """Return which share of its life within an interval a group rebalanced; 0 of a group that did not live in it."""
    return sf.when(lived_ms > 0, rebalancing_ms / lived_ms).otherwise(sf.lit(0.0))


def never_settles(under_way_ms: Column, restarts: Column, thresholds: Thresholds) -> Column:
    """Say whether a group does not settle; `under_way_ms` and `restarts` may be NULL."""
    goes_on = sf.coalesce(under_way_ms >= thresholds.unsettled_ms, sf.lit(False))
    return goes_on | sf.coalesce(restarts >= thresholds.unsettled_restarts, sf.lit(False))
