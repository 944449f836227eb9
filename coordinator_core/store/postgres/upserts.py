"""Rows given as arrays are inserted, or put in the place of those that stand under their keys; one statement a table.

Every name that is put into a statement comes from tables.py, and every value travels as a parameter.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Table

from coordinator_core.store.postgres.arrays import Arrays, quoted
from coordinator_core.store.postgres.connections import Transaction

Rows = list[tuple[Any, ...]]


def run(transaction: Transaction, statement: str, arrays: Arrays, rows: Iterable[tuple[Any, ...]]) -> None:
    """Run a statement over rows, unless there are none."""
    rows = list(rows)
    if rows:
        transaction.execute(statement, arrays.parameters(rows))


def insert(transaction: Transaction, table: str, arrays: Arrays, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows, unless there are none."""
    statement = f"INSERT INTO {table} ({arrays.column_list}) {arrays.source}"
    run(transaction, statement, arrays, rows)


def upsert(table: Table, arrays: Arrays) -> str:
    """Return the statement that inserts rows, or replaces those of the same keys."""
    return f"INSERT INTO {table.name} ({arrays.column_list}) {arrays.source} {or_replace(table)}"


def or_replace(table: Table) -> str:
    """Return what an INSERT ends with to replace rows of the same keys; what is not given gets its default anew."""
    key = ", ".join(quoted(column.name) for column in table.primary_key)
    names = [quoted(column.name) for column in table.columns if not column.primary_key]
    values = ", ".join(f"{name} = excluded.{name}" for name in names)
    return f"ON CONFLICT ({key}) DO UPDATE SET {values}"
