"""The report of `timeout_advice` as SQLAlchemy sees it, and the table in which a run's rows are put together."""

from collections.abc import Iterator

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, SmallInteger, Table, Text
from sqlalchemy.dialects.postgresql import JSONB, UUID

from coordinator_core.store.tables import At, Name, metadata, times_check

ADVISED = ("session", "rebalance", "initial_delay")
"""What there is a piece of advice on: the beginnings of its columns' names."""


def _pieces() -> Iterator[Column[object]]:
    """What the job tells of a group, in the order of the columns."""
    yield Column("window_start", At, nullable=False)
    yield Column("heartbeats", BigInteger, nullable=False)
    for name in ADVISED:
        # NULL: nobody is there to ask; an initial delay is always in force.
        yield Column(f"{name}_present_ms", Integer, nullable=name != "initial_delay")
        # NULL: too little is known.
        yield Column(f"{name}_advised_ms", Integer, nullable=True)
        yield Column(f"{name}_verdict", Text, nullable=False)
        yield Column(f"{name}_confidence", Text, nullable=False)
        yield Column(f"{name}_because", Text, nullable=False)
        yield Column(f"{name}_effect", JSONB, nullable=False)
    # NULL: too little is known for a test.
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
    *_pieces(),
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
    *_pieces(),
    Index("timeout_advice_staging_attempt_id", "attempt_id"),
    prefixes=["UNLOGGED"],
)
