"""INSERT statements with rows from arrays, with or without replacing existing rows.

Every inserted name comes from tables.py, and every value is a parameter.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Table

from coordinator_core.state_store.postgres.arrays import Arrays, quoted
from coordinator_core.state_store.postgres.connections import Transaction

Rows = list[tuple[Any, ...]]


def run(transaction: Transaction, statement: str, arrays: Arrays, rows: Iterable[tuple[Any, ...]]) -> None:
    """Run a statement with rows, unless there are none."""
    rows = list(rows)
    if rows:
        transaction.execute(statement, arrays.parameters(rows))


def insert(transaction: Transaction, table: str, arrays: Arrays, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows, unless there are none."""
    statement = f"INSERT INTO {table} ({arrays.column_list}) {arrays.source}"
    run(transaction, statement, arrays, rows)


def upsert(table: Table, arrays: Arrays) -> str:
    """Return the statement that inserts rows or replaces those with the same keys."""
    return f"INSERT INTO {table.name} ({arrays.column_list}) {arrays.source} {or_replace(table)}"


def or_replace(table: Table, expressions: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the ON CONFLICT clause that replaces rows; columns without a given value are reset to their defaults.

    Args:
        table: the table.
        expressions: column → what it is set to, in place of the given value.
    """
    key = ", ".join(quoted(column.name) for column in table.primary_key)
    names = [column.name for column in table.columns if not column.primary_key]
    values = ", ".join(f"{quoted(name)} = {expressions.get(name, f'excluded.{quoted(name)}')}" for name in names)
    return f"ON CONFLICT ({key}) DO UPDATE SET {values}"
