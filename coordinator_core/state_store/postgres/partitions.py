"""Daily partitions of the history tables, created ahead; rows without one go to the default partition.

Rules:

* A partition is created as a separate table and then attached, which blocks writers of history least: they wait only
  for the lock on the default partition, for at most `DDL_LOCK_TIMEOUT_MS`. After a timeout the next run tries again.
* A day with rows in the default partition gets no partition. `are_missing` reports it until the rows are moved.
* Nodes create partitions one after the other, under a lock.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import partial

from coordinator_core.state_store.postgres.connections import ConnectionPool, Transaction
from coordinator_core.state_store.postgres.failures import DataRefused, LockTimeout
from coordinator_core.state_store.tables import HISTORY_TABLES

DDL_LOCK_TIMEOUT_MS = 500
LOCK_PARTITION_MOVES = "LOCK TABLE archived_partitions IN SHARE ROW EXCLUSIVE MODE"
"""Run by every transaction that creates, drops or restores a partition. Read-only roles cannot take this lock."""


def create_ahead(pool: ConnectionPool, days_ahead: int) -> None:
    """Create the missing partitions of today and the days ahead."""
    today, present = pool.read(_read_partitions)
    blocked: LockTimeout | None = None
    for table, day in _wanted(today, days_ahead):
        if partition_name(table, day) not in present:
            try:
                _create(pool, table, day)
            except LockTimeout as failure:
                blocked = failure  # A long read of one table does not delay the partitions of the others.
    if blocked is not None:
        raise blocked


def are_missing(pool: ConnectionPool) -> bool:
    """Return whether the partition of today or tomorrow is missing, or a default partition has rows."""
    today, present = pool.read(_read_partitions)
    if any(partition_name(table, day) not in present for table, day in _wanted(today, days_ahead=1)):
        return True
    return pool.read(_has_late_rows)


def partition_name(table: str, day: date) -> str:
    """Return the name of a day's partition."""
    return f"{table}_p{day:%Y%m%d}"


def _wanted(today: date, days_ahead: int) -> Iterator[tuple[str, date]]:
    for table in HISTORY_TABLES:
        for days in range(days_ahead + 1):
            yield table, today + timedelta(days=days)


def _create(pool: ConnectionPool, table: str, day: date) -> None:
    try:
        pool.transact(partial(_attach, table=table, day=day))
    except DataRefused:
        return  # Rows of the day were inserted into the default partition in between.


def _attach(transaction: Transaction, table: str, day: date) -> None:
    transaction.execute(LOCK_PARTITION_MOVES)
    name, bounds = partition_name(table, day), {"first": midnight(day), "last": midnight(day + timedelta(days=1))}
    if name in present(transaction) or _holds(transaction, table, bounds):
        return
    transaction.execute(f"SET LOCAL lock_timeout = {DDL_LOCK_TIMEOUT_MS}")
    transaction.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)")
    transaction.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM (%(first)s) TO (%(last)s)", bounds
    )


def _holds(transaction: Transaction, table: str, bounds: dict[str, str]) -> bool:
    """Return whether the default partition has rows of a day. Names come from tables.py."""
    at = HISTORY_TABLES[table]
    of_day = f"SELECT 1 FROM {table}_default WHERE {at} >= %(first)s AND {at} < %(last)s LIMIT 1"  # noqa: S608
    return transaction.execute(of_day, bounds).first() is not None


def _has_late_rows(transaction: Transaction) -> bool:
    late_rows = " OR ".join(f"EXISTS (SELECT FROM {table}_default)" for table in HISTORY_TABLES)
    return bool(transaction.execute(f"SELECT {late_rows}").scalar_one())


def _read_partitions(transaction: Transaction) -> tuple[date, frozenset[str]]:
    """Return today, by the database's clock in UTC, and the existing partitions."""
    now: datetime = transaction.execute("SELECT clock_timestamp() AT TIME ZONE 'UTC'").scalar_one()
    return now.date(), present(transaction)


def present(transaction: Transaction) -> frozenset[str]:
    """Return the existing partitions of history, including the default ones."""
    children = """
        SELECT child.relname
        FROM pg_inherits
        JOIN pg_class AS child ON child.oid = inhrelid
        WHERE inhparent = ANY(%(tables)s::regclass[])
    """
    return frozenset(name for (name,) in transaction.execute(children, {"tables": list(HISTORY_TABLES)}))


def midnight(day: date) -> str:
    """Return the start of a day as a Postgres literal."""
    return f"{day:%Y-%m-%d} 00:00:00+00"
