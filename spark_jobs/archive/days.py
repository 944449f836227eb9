"""Days of the history tables: those in Postgres, copied ones, and those only in the archive."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg2.extensions as pg
from psycopg2.sql import SQL, Composable, Identifier, Literal

from spark_jobs.archive.checksums import Sum, TypedColumn
from spark_jobs.database import transaction
from spark_jobs.errors import JobError


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """A table partitioned by day: its partition column and all of its columns."""

    name: str
    at: str
    columns: tuple[TypedColumn, ...]

    @property
    def default(self) -> str:
        """Return the name of the default partition."""
        return f"{self.name}_default"

    def of_days(self, first: date, end: date) -> Composable:
        """Return the condition for rows from the first day to before the end."""
        bounds = (Literal(f"{day:%Y-%m-%d} 00:00:00+00") for day in (first, end))
        return SQL("{at} >= {} AND {at} < {}").format(*bounds, at=Identifier(self.at))


@dataclass(frozen=True, slots=True)
class Day:
    """The rows of one table and day in the partition `source`: the day's own, or the default one."""

    table: HistoryTable
    day: date
    source: str

    @property
    def where(self) -> Composable:
        """Return the condition that selects the day's rows from its source."""
        return self.table.of_days(self.day, self.day + timedelta(days=1))

    def __str__(self) -> str:
        return f"{self.table.name} of {self.day}"


@dataclass(frozen=True, slots=True)
class Copy:
    """A day's rows in the archive."""

    day: date
    path: str
    sum: Sum


def history_tables(connection: pg.connection) -> dict[str, HistoryTable]:
    """Return the tables that are partitioned by day in this database, by name."""
    found = _rows(
        connection,
        """
        SELECT relation.relname, key.attname, column_of.attname, format_type(column_of.atttypid, column_of.atttypmod)
        FROM pg_partitioned_table AS partitioned
        JOIN pg_class AS relation ON relation.oid = partitioned.partrelid
        JOIN pg_attribute AS key ON key.attrelid = relation.oid AND key.attnum = partitioned.partattrs[0]
        JOIN pg_attribute AS column_of ON column_of.attrelid = relation.oid
        WHERE relation.relnamespace = 'public'::regnamespace AND partitioned.partstrat = 'r'
            AND column_of.attnum > 0 AND NOT column_of.attisdropped
        ORDER BY relation.relname, column_of.attnum
        """,
    )
    keys = {name: at for name, at, _, _ in found}
    return {
        name: HistoryTable(name, at, tuple(TypedColumn(*rest) for table, _, *rest in found if table == name))
        for name, at in keys.items()
    }


def history_table(connection: pg.connection, name: str) -> HistoryTable:
    """Return the history table of that name.

    Raises:
        JobError: There is none; the message lists the history tables.
    """
    tables = history_tables(connection)
    if name not in tables:
        *names, last = sorted(tables)
        raise JobError(f"There is no history table {name}; choose {', '.join(names)} or {last}.")
    return tables[name]


def closed_days(connection: pg.connection, tables: Sequence[HistoryTable], before: date) -> list[Day]:
    """Return the days before a given day whose rows are in Postgres, oldest first."""
    days = [day for table in tables for day in (*_partitions(connection, table), *_strays(connection, table, before))]
    closed = [day for day in days if day.day < before]
    return sorted(closed, key=lambda day: (day.day, day.table.name, day.source))


def restored_since(connection: pg.connection, since: datetime) -> frozenset[tuple[str, date]]:
    """Return the tables and days restored from the archive since an instant."""
    found = _rows(connection, "SELECT table_name, day FROM archived_partitions WHERE restored_at >= %s", since)
    return frozenset((str(table), day) for table, day in found)


def now_between_partition_moves(connection: pg.connection) -> datetime:
    """Return the database's time at a moment without a running drop or restore.

    Drops and restores recorded before it are visible to later reads; all others are recorded later.
    """
    with transaction(connection) as cursor:
        cursor.execute("SELECT now_between_partition_moves()")
        (now,) = cursor.fetchone() or (None,)
        assert isinstance(now, datetime), "Postgres always knows the time"
        return now


def copies_of(connection: pg.connection, day: Day) -> list[Copy]:
    """Return the copies of a table and day, newest first."""
    found = _rows(
        connection,
        "SELECT day, path, row_count, checksum FROM archive_candidates WHERE table_name = %s AND day = %s"
        " ORDER BY verified_at DESC",
        day.table.name,
        day.day,
    )
    return [Copy(at, path, Sum(row_count, checksum)) for at, path, row_count, checksum in found]


def archived_copies(connection: pg.connection, table: str, first: date, end: date) -> list[Copy]:
    """Return the copies of days that are only in the archive, from `first` to before `end`, oldest first."""
    found = _rows(
        connection,
        "SELECT day, path, row_count, checksum FROM archived_partitions"
        " WHERE table_name = %s AND day >= %s AND day < %s AND restored_at IS NULL ORDER BY day, dropped_at",
        table,
        first,
        end,
    )
    return [Copy(day, path, Sum(row_count, checksum)) for day, path, row_count, checksum in found]


def _partitions(connection: pg.connection, table: HistoryTable) -> Iterator[Day]:
    children = (
        "SELECT child.relname FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid"
        " WHERE inhparent = %s::regclass"
    )
    for (source,) in _rows(connection, children, table.name):
        day = _day_of(table.name, source)
        if day is not None:
            yield Day(table, day, source)


def _day_of(table: str, partition: str) -> date | None:
    digits = partition.removeprefix(f"{table}_p")
    try:
        return datetime.strptime(digits, "%Y%m%d").replace(tzinfo=UTC).date()
    except ValueError:
        return None  # The default partition, or one that was created manually.


def _strays(connection: pg.connection, table: HistoryTable, before: date) -> Iterator[Day]:
    strays = SQL("SELECT DISTINCT ({at} AT TIME ZONE 'UTC')::date FROM {default} WHERE {at} < {before}").format(
        at=Identifier(table.at),
        default=Identifier(table.default),
        before=Literal(f"{before:%Y-%m-%d} 00:00:00+00"),
    )
    for (day,) in _rows(connection, strays):
        yield Day(table, day, table.default)


def _rows(connection: pg.connection, statement: str | Composable, *values: object) -> list[tuple[Any, ...]]:
    with transaction(connection) as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchall()
