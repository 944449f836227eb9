"""SQLAlchemy definitions of the report tables and their staging tables.

A report has one row per group and data interval, which a second run of the interval replaces. The audit of assignments
has a second table with one row per topic. `coordinator_core.jobs` names the job that writes each of them.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

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

from coordinator_core.analytics.advice.policy import Confidence, Verdict
from coordinator_core.state_store.tables import At, Name, metadata, times_check

Columns = Iterator[Column[object]]

PYTHON_TYPE: Final = "python_type"
"""The key of a column's `info` for the type of its values, where the SQL type does not say it."""
COUNTS: Final = {PYTHON_TYPE: dict[str, int]}
INTERVAL_KEY: Final = ("interval_end", "interval_start", "group_id")

ADVISED: Final = ("session", "rebalance", "initial_delay")
"""The timeouts with advice: prefixes of column names."""


def _report(
    name: str,
    report_columns: Callable[[], Columns],
    *,
    times: tuple[str, ...] = (),
    key: tuple[str, ...] = INTERVAL_KEY,
    index: tuple[str, ...] = ("group_id", "interval_end"),
) -> Table:
    """Declare a report and its staging table; return the report.

    Args:
        name: name of the table.
        report_columns: yields the columns that the job writes, in order.
        times: those of the job's columns that are times.
        key: columns of the primary key.
        index: columns of the index, which has the name of the first one.
    """
    Table(
        f"{name}_staging",
        metadata,
        Column("attempt_id", UUID(as_uuid=False), nullable=False),
        Column("group_id", Name, nullable=False),
        Column("shard_id", SmallInteger, nullable=False),
        *report_columns(),
        Index(f"{name}_staging_attempt_id", "attempt_id"),
        prefixes=["UNLOGGED"],
    )
    return Table(
        name,
        metadata,
        Column("group_id", Name, nullable=False),
        Column("shard_id", SmallInteger, nullable=False),
        Column("interval_start", At, nullable=False),
        Column("interval_end", At, nullable=False),
        Column("run_id", UUID(as_uuid=False), nullable=False),
        Column("as_of", At, nullable=False),
        *report_columns(),
        times_check(name, "interval_start", "interval_end", "as_of", *times),
        PrimaryKeyConstraint(*key),
        Index(f"{name}_{index[0]}", *index),
    )


def report_table(name: str) -> Table:
    """Return a table that is declared here, by its name."""
    return metadata.tables[name]


def column_types(name: str) -> dict[str, Any]:
    """Return the type of the values of each column, in the order of the columns; `… | None` where NULL is allowed."""
    types = {}
    for column in report_table(name).columns:
        kind = column.info.get(PYTHON_TYPE, column.type.python_type)
        types[str(column.name)] = kind | None if column.nullable else kind
    return types


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
    yield Column("by_trigger", JSONB, nullable=False, info=COUNTS)
    yield Column("restarts", BigInteger, nullable=False)
    # NULL: no rebalance ended within the interval.
    yield Column("took_p50_ms", BigInteger, nullable=True)
    yield Column("took_p95_ms", BigInteger, nullable=True)
    yield Column("took_max_ms", BigInteger, nullable=True)
    yield Column("took_total_ms", BigInteger, nullable=False)
    yield Column("rebalancing_ms", BigInteger, nullable=False)
    yield Column("existed_ms", BigInteger, nullable=False)
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


def _advice() -> Columns:
    yield Column("window_start", At, nullable=False)
    yield Column("heartbeats", BigInteger, nullable=False)
    for name in ADVISED:
        # NULL: the group has no members. The initial rebalance delay always has a value.
        yield Column(f"{name}_present_ms", Integer, nullable=name != "initial_delay")
        # NULL: not enough data.
        yield Column(f"{name}_advised_ms", Integer, nullable=True)
        yield Column(f"{name}_verdict", Text, nullable=False, info={PYTHON_TYPE: Verdict})
        yield Column(f"{name}_confidence", Text, nullable=False, info={PYTHON_TYPE: Confidence})
        yield Column(f"{name}_reason", Text, nullable=False)
        yield Column(f"{name}_effect", JSONB, nullable=False, info=COUNTS)
    # NULL: not enough data for a test.
    yield Column("back_test", JSONB, nullable=True, info={PYTHON_TYPE: dict[str, Any]})
    yield Column("recommendations", JSONB, nullable=False, info={PYTHON_TYPE: list[dict[str, Any]]})


def _forecast() -> Columns:
    yield Column("within_a_day", BigInteger, nullable=False)
    yield Column("within_a_week", BigInteger, nullable=False)
    yield Column("next_expiry_at", At, nullable=False)


_report("assignment_balance_audits", _balance)
_report("assignment_balance_topics", _topic_balance, key=(*INTERVAL_KEY, "topic"))
_report("rebalance_frequency_reports", _frequency, times=("rebalancing_since",))
_report("offset_expiry_forecasts", _forecast, times=("next_expiry_at",), index=("run_id",))
timeout_advice = _report(
    "timeout_advice",
    _advice,
    times=("window_start",),
    key=("group_id", "interval_start", "interval_end", "run_id"),
    index=("interval_end",),
)
