"""SQLAlchemy definitions of the reports on assignments, rebalances and expiry, and of their staging tables.

A report has one row per group and data interval, which a second run of the interval replaces. The audit of assignments
has a second table with one row per topic.
"""

from collections.abc import Callable, Iterator

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from coordinator_core.store.tables import At, Name, metadata, times_check

Columns = Iterator[Column[object]]


def _report(
    name: str, report_columns: Callable[[], Columns], *parts: str, times: tuple[str, ...] = ()
) -> tuple[Table, Table]:
    """Declare a report and its staging table.

    Args:
        name: name of the table.
        report_columns: yields the columns that the job writes, in order.
        parts: key columns in addition to group and interval.
        times: those of the job's columns that are times.
    """
    report = Table(
        name,
        metadata,
        Column("interval_start", At, nullable=False),
        Column("interval_end", At, nullable=False),
        Column("group_id", Name, nullable=False),
        Column("shard_id", SmallInteger, nullable=False),
        Column("run_id", UUID(as_uuid=False), nullable=False),
        Column("as_of", At, nullable=False),
        *report_columns(),
        times_check(name, "interval_start", "interval_end", "as_of", *times),
        PrimaryKeyConstraint("interval_end", "interval_start", "group_id", *parts),
        Index(f"{name}_group_id", "group_id", "interval_end"),
    )
    staging = Table(
        f"{name}_staging",
        metadata,
        Column("attempt_id", UUID(as_uuid=False), nullable=False),
        Column("group_id", Name, nullable=False),
        Column("shard_id", SmallInteger, nullable=False),
        *report_columns(),
        Index(f"{name}_staging_attempt_id", "attempt_id"),
        prefixes=["UNLOGGED"],
    )
    return report, staging


def _spread() -> Columns:
    """Yield the columns on how evenly partitions and unread records are distributed over members."""
    yield Column("members", Integer, nullable=False)
    yield Column("idle_members", Integer, nullable=False)
    yield Column("partitions", Integer, nullable=False)
    yield Column("unassigned", Integer, nullable=False)
    yield Column("partitions_max", Integer, nullable=False)
    yield Column("partitions_mean", Double, nullable=False)
    # NULL: no log end is known.
    yield Column("lag_max", BigInteger, nullable=True)
    yield Column("lag_mean", Double, nullable=True)
    yield Column("best_partitions_max", Integer, nullable=False)
    yield Column("misplaced", Integer, nullable=False)
    yield Column("has_better", Boolean, nullable=False)
    yield Column("score", SmallInteger, nullable=False)
    yield Column("moved", Integer, nullable=False)
    yield Column("moves_needed", Integer, nullable=False)


def _balance() -> Columns:
    yield Column("generation", Integer, nullable=False)
    yield Column("topics", Integer, nullable=False)
    yield from _spread()
    # NULL: this is the first audit of the group.
    yield Column("score_before", SmallInteger, nullable=True)
    yield Column("trend", Text, nullable=False)


def _topic_balance() -> Columns:
    yield Column("topic", Name, nullable=False)
    yield from _spread()


def _frequency() -> Columns:
    yield Column("rebalances", Integer, nullable=False)
    yield Column("completed", Integer, nullable=False)
    yield Column("emptied", Integer, nullable=False)
    yield Column("abandoned", Integer, nullable=False)
    yield Column("by_trigger", JSONB, nullable=False)
    yield Column("restarts", BigInteger, nullable=False)
    # NULL: no rebalance ended within the interval.
    yield Column("took_p50_ms", BigInteger, nullable=True)
    yield Column("took_p95_ms", BigInteger, nullable=True)
    yield Column("took_max_ms", BigInteger, nullable=True)
    yield Column("took_total_ms", BigInteger, nullable=False)
    yield Column("rebalancing_ms", BigInteger, nullable=False)
    # NULL: the row is older than the column.
    yield Column("existed_ms", BigInteger, nullable=True)
    yield Column("rebalancing_share", Double, nullable=False)
    yield Column("evicted", Integer, nullable=False)
    yield Column("spuriously_evicted", Integer, nullable=False)
    # NULL: no rebalance waited for a member.
    yield Column("waited_for_member_id", Text, nullable=True)
    yield Column("waited_for_instance_id", Text, nullable=True)
    yield Column("waited_for_client_id", Text, nullable=True)
    yield Column("waited_for_client_host", Text, nullable=True)
    yield Column("waited_for_members", Integer, nullable=True)
    yield Column("waited_for_ms", BigInteger, nullable=True)
    yield Column("churn_periods", Integer, nullable=False)
    yield Column("churn_rebalances", Integer, nullable=False)
    # NULL: no rebalance was in progress at the end of the interval.
    yield Column("rebalancing_since", At, nullable=True)
    yield Column("is_churning", Boolean, nullable=False)


assignment_balance_audits, assignment_balance_audits_staging = _report("assignment_balance_audits", _balance)
assignment_balance_topics, assignment_balance_topics_staging = _report(
    "assignment_balance_topics", _topic_balance, "topic"
)
rebalance_frequency_reports, rebalance_frequency_reports_staging = _report(
    "rebalance_frequency_reports", _frequency, times=("rebalancing_since",)
)

offset_expiry_forecasts = Table(
    "offset_expiry_forecasts",
    metadata,
    Column("interval_start", At, nullable=False),
    Column("interval_end", At, nullable=False),
    Column("group_id", Name, nullable=False),
    Column("shard_id", SmallInteger, nullable=False),
    Column("run_id", UUID(as_uuid=False), nullable=False),
    Column("as_of", At, nullable=False),
    Column("within_a_day", BigInteger, nullable=False),
    Column("within_a_week", BigInteger, nullable=False),
    Column("next_expiry_at", At, nullable=False),
    PrimaryKeyConstraint("interval_end", "interval_start", "group_id"),
    times_check("offset_expiry_forecasts", "interval_start", "interval_end", "as_of", "next_expiry_at"),
    Index("offset_expiry_forecasts_run_id", "run_id"),
)

offset_expiry_forecasts_staging = Table(
    "offset_expiry_forecasts_staging",
    metadata,
    Column("attempt_id", UUID(as_uuid=False), nullable=False),
    Column("group_id", Name, nullable=False),
    Column("shard_id", SmallInteger, nullable=False),
    Column("within_a_day", BigInteger, nullable=False),
    Column("within_a_week", BigInteger, nullable=False),
    Column("next_expiry_at", At, nullable=False),
    Index("offset_expiry_forecasts_staging_attempt_id", "attempt_id"),
    prefixes=["UNLOGGED"],
)
