"""Every history table has a partition a day, made ahead; whatever finds none falls into the default partition.

Rules:

* A partition is made beside its table and then attached, because that holds up those who write history least: they
  wait for the default partition alone, and for `DDL_LOCK_TIMEOUT_MS` at most. Whoever gives up tries again later.
* A day of which the default partition holds rows already is left to it. `lack` then says so until somebody moves them.
* Nodes that come at the same time take turns.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import partial

from coordinator_core.store.postgres.connections import Line, Transaction
from coordinator_core.store.postgres.failures import Blocked, DataRefused
from coordinator_core.store.tables import HISTORY_TABLES

DDL_LOCK_TIMEOUT_MS = 500
TAKE_TURN = "LOCK TABLE archived_partitions IN SHARE ROW EXCLUSIVE MODE"
"""Taken by every transaction that makes, drops or restores a partition. A role that only reads cannot hold it."""


def create_ahead(line: Line, days_ahead: int) -> None:
    """Create the partitions of today and the days ahead, where they are missing."""
    today, present = line.read(_look_around)
    blocked: Blocked | None = None
    for table, day in _wanted(today, days_ahead):
        if partition_name(table, day) not in present:
            try:
                _create(line, table, day)
            except Blocked as failure:
                blocked = failure  # Who reads one table for long shall not keep the others from theirs.
    if blocked is not None:
        raise blocked


def lack(line: Line) -> bool:
    """Tell whether today or tomorrow has no partition of its own, or a default partition holds rows."""
    today, present = line.read(_look_around)
    if any(partition_name(table, day) not in present for table, day in _wanted(today, days_ahead=1)):
        return True
    return line.read(_has_strays)


def partition_name(table: str, day: date) -> str:
    """Name the partition of a day."""
    return f"{table}_p{day:%Y%m%d}"


def _wanted(today: date, days_ahead: int) -> Iterator[tuple[str, date]]:
    for table in HISTORY_TABLES:
        for days in range(days_ahead + 1):
            yield table, today + timedelta(days=days)


def _create(line: Line, table: str, day: date) -> None:
    try:
        line.transact(partial(_attach, table=table, day=day))
    except DataRefused:
        return  # Rows of the day have come into the default partition since we looked.


def _attach(transaction: Transaction, table: str, day: date) -> None:
    transaction.execute(TAKE_TURN)
    name, bounds = partition_name(table, day), {"first": midnight(day), "last": midnight(day + timedelta(days=1))}
    if name in present(transaction) or _holds(transaction, table, bounds):
        return
    transaction.execute(f"SET LOCAL lock_timeout = {DDL_LOCK_TIMEOUT_MS}")
    transaction.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)")
    transaction.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM (%(first)s) TO (%(last)s)", bounds
    )


def _holds(transaction: Transaction, table: str, bounds: dict[str, str]) -> bool:
    """Tell whether the default partition holds rows of a day. Names come from tables.py."""
    at = HISTORY_TABLES[table]
    of_day = f"SELECT 1 FROM {table}_default WHERE {at} >= %(first)s AND {at} < %(last)s LIMIT 1"  # noqa: S608
    return transaction.execute(of_day, bounds).first() is not None


def _has_strays(transaction: Transaction) -> bool:
    strays = " OR ".join(f"EXISTS (SELECT FROM {table}_default)" for table in HISTORY_TABLES)
    return bool(transaction.execute(f"SELECT {strays}").scalar_one())


def _look_around(transaction: Transaction) -> tuple[date, frozenset[str]]:
    """Return today, by the database's clock in UTC, and the partitions there are."""
    now: datetime = transaction.execute("SELECT clock_timestamp() AT TIME ZONE 'UTC'").scalar_one()
    return now.date(), present(transaction)


def present(transaction: Transaction) -> frozenset[str]:
    """Return the partitions of history that there are, the default ones among them."""
    children = """
        SELECT child.relname
        FROM pg_inherits
        JOIN pg_class AS child ON child.oid = inhrelid
        WHERE inhparent = ANY(%(tables)s::regclass[])
    """
    return frozenset(name for (name,) in transaction.execute(children, {"tables": list(HISTORY_TABLES)}))


def midnight(day: date) -> str:
    """Return the instant at which a day begins, as Postgres reads it."""
    return f"{day:%Y-%m-%d} 00:00:00+00"
