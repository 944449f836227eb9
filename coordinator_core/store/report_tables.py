"""The reports on assignments and rebalances as SQLAlchemy sees them, with the tables where an attempt's rows gather.

A report has a row a group and data interval, which a second run of the interval replaces. The audit of assignments has
a second table beside it, with a row a topic.
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


def _report(name: str, told: Callable[[], Columns], *parts: str, times: tuple[str, ...] = ()) -> tuple[Table, Table]:
    """Declare a report and its staging table.

    Args:
        name: what it is called.
        told: what the job tells, in the order of the columns.
        parts: what tells the rows of one group and interval apart.
        times: which of the job's columns are times.
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
        *told(),
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
        *told(),
        Index(f"{name}_staging_attempt_id", "attempt_id"),
        prefixes=["UNLOGGED"],
    )
    return report, staging


def _spread() -> Columns:
    """How evenly partitions, and records not yet read, are spread over members."""
    yield Column("members", Integer, nullable=False)
    yield Column("idle_members", Integer, nullable=False)
    yield Column("partitions", Integer, nullable=False)
    yield Column("unassigned", Integer, nullable=False)
    yield Column("partitions_max", Integer, nullable=False)
    yield Column("partitions_mean", Double, nullable=False)
    # NULL: no partition's end is known.
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
    # NULL: no rebalance was over within the interval.
    yield Column("took_ms_p50", BigInteger, nullable=True)
    yield Column("took_ms_p95", BigInteger, nullable=True)
    yield Column("took_ms_max", BigInteger, nullable=True)
    yield Column("took_ms_total", BigInteger, nullable=False)
    yield Column("rebalancing_ms", BigInteger, nullable=False)
    # NULL: reported before the share went by it.
    yield Column("lived_ms", BigInteger, nullable=True)
    yield Column("rebalancing_share", Double, nullable=False)
    yield Column("evicted", Integer, nullable=False)
    yield Column("spuriously_evicted", Integer, nullable=False)
    # NULL: nobody was waited for.
    yield Column("waited_for_member_id", Text, nullable=True)
    yield Column("waited_for_instance_id", Text, nullable=True)
    yield Column("waited_for_client_id", Text, nullable=True)
    yield Column("waited_for_client_host", Text, nullable=True)
    yield Column("waited_for_members", Integer, nullable=True)
    yield Column("waited_for_ms", BigInteger, nullable=True)
    yield Column("storms", Integer, nullable=False)
    yield Column("stormy_rebalances", Integer, nullable=False)
    # NULL: no rebalance was under way when the interval ended.
    yield Column("unsettled_since", At, nullable=True)
    yield Column("never_settles", Boolean, nullable=False)


assignment_balance_audits, assignment_balance_audits_staging = _report("assignment_balance_audits", _balance)
assignment_balance_topics, assignment_balance_topics_staging = _report(
    "assignment_balance_topics", _topic_balance, "topic"
)
rebalance_frequency_reports, rebalance_frequency_reports_staging = _report(
    "rebalance_frequency_reports", _frequency, times=("unsettled_since",)
)
