"""SQLAlchemy definitions of `timeout_advice` and its staging table."""

from collections.abc import Iterator

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, SmallInteger, Table, Text
from sqlalchemy.dialects.postgresql import JSONB, UUID

from coordinator_core.store.tables import At, Name, metadata, times_check

ADVISED = ("session", "rebalance", "initial_delay")
"""The timeouts with advice: prefixes of column names."""


def _advice_columns() -> Iterator[Column[object]]:
    """Yield the columns that the job writes, in order."""
    yield Column("window_start", At, nullable=False)
    yield Column("heartbeats", BigInteger, nullable=False)
    for name in ADVISED:
        # NULL: the group has no members. The initial rebalance delay always has a value.
        yield Column(f"{name}_present_ms", Integer, nullable=name != "initial_delay")
        # NULL: not enough data.
        yield Column(f"{name}_advised_ms", Integer, nullable=True)
        yield Column(f"{name}_verdict", Text, nullable=False)
        yield Column(f"{name}_confidence", Text, nullable=False)
        yield Column(f"{name}_reason", Text, nullable=False)
        yield Column(f"{name}_effect", JSONB, nullable=False)
    # NULL: not enough data for a test.
    yield Column("back_test", JSONB, nullable=True)
    # NULL: the row is older than the column.
    yield Column("recommendations", JSONB, nullable=True)


timeout_advice = Table(
    "timeout_advice",
    metadata,
    Column("group_id", Name, nullable=False),
    Column("shard_id", SmallInteger, nullable=False),
    Column("interval_start", At, nullable=False),
    Column("interval_end", At, nullable=False),
    Column("run_id", UUID(as_uuid=False), nullable=False),
    Column("as_of", At, nullable=False),
    *_advice_columns(),
    times_check("timeout_advice", "interval_start", "interval_end", "as_of", "window_start"),
    PrimaryKeyConstraint("group_id", "interval_start", "interval_end", "run_id"),
    Index("timeout_advice_interval_end", "interval_end"),
)

timeout_advice_staging = Table(
    "timeout_advice_staging",
    metadata,
    Column("attempt_id", UUID(as_uuid=False), nullable=False),
    Column("group_id", Name, nullable=False),
    Column("shard_id", SmallInteger, nullable=False),
    *_advice_columns(),
    Index("timeout_advice_staging_attempt_id", "attempt_id"),
    prefixes=["UNLOGGED"],
)
