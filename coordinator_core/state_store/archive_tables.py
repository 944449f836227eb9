"""SQLAlchemy definitions of `archive_candidates` and `archived_partitions`: days of history in the archive."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Date, Index, PrimaryKeyConstraint, Table, Text, text
from sqlalchemy.dialects.postgresql import UUID

from coordinator_core.state_store.tables import At, Name, metadata


def _day_of_a_table() -> tuple[Column[str], Column[object]]:
    return Column("table_name", Name, nullable=False), Column("day", Date, nullable=False)


def _copy() -> tuple[Column[str], Column[str], Column[int], Column[str], Column[object]]:
    """Return the columns of a copy: its partition, its files, and the checksum that both have."""
    return (
        Column("source", Name, nullable=False),
        Column("path", Text, nullable=False),
        Column("row_count", BigInteger, nullable=False),
        Column("checksum", Text, nullable=False),
        Column("verified_at", At, nullable=False),
    )


archive_candidates = Table(
    "archive_candidates",
    metadata,
    Column("run_id", UUID(as_uuid=False), nullable=False),
    *_day_of_a_table(),
    *_copy(),
    # NULL while undecided; then `dropped` or why the day was kept.
    Column("outcome", Text, nullable=True),
    CheckConstraint("day >= '1970-01-01' AND day < '9999-12-31'", name="archive_candidates_day"),
    PrimaryKeyConstraint("run_id", "table_name", "day"),
    Index("archive_candidates_undecided", "run_id", postgresql_where=text("outcome IS NULL")),
    Index("archive_candidates_table_name_day", "table_name", "day"),
)

archived_partitions = Table(
    "archived_partitions",
    metadata,
    *_day_of_a_table(),
    Column("run_id", UUID(as_uuid=False), nullable=False),
    Column("change_id", UUID(as_uuid=False), nullable=False),
    *_copy(),
    Column("dropped_at", At, nullable=False),
    # NULL while only the archive has the rows.
    Column("restored_at", At, nullable=True),
    PrimaryKeyConstraint("table_name", "day", "run_id"),
)
