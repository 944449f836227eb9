"""Checks of `muster doctor` on CHECK constraints: which are missing or not valid, and which rows violate them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from sqlalchemy import CheckConstraint, Table

# Importing the store declares every table in `metadata`.
from coordinator_core.store.postgres import PostgresStore  # noqa: F401
from coordinator_core.store.tables import metadata
from muster import display
from muster.commands.check_result import CheckResult, error, ok, warning
from muster.commands.output import counted

NAMED_MAX: Final = 5
"""Constraints that the finding names."""
NO_KEY: Final = ("ctid",)
"""What names a row of a table without a primary key."""

_VALIDATED: Final = """
SELECT conname, bool_and(convalidated)
FROM pg_constraint
WHERE contype = 'c' AND connamespace = 'public'::regnamespace
GROUP BY conname
"""


class Unenforced(NamedTuple):
    """A constraint that does not hold for all rows of its table."""

    table: Table
    name: str
    condition: str
    is_missing: bool

    @property
    def remedy(self) -> str:
        """Return the statement that makes it hold, once no row violates it."""
        if self.is_missing:
            return f"ALTER TABLE {self.table.name} ADD CONSTRAINT {self.name} CHECK ({self.condition})"
        return f"ALTER TABLE {self.table.name} VALIDATE CONSTRAINT {self.name}"


def check_constraints(connection: PsycopgConnection) -> CheckResult:
    """Look for CHECK constraints that are missing, or that older rows violate, and name the first such row of each."""
    found = list(_unenforced(connection))
    if not found:
        return ok("constraints", "they hold for all rows")
    named = ", ".join(_finding(connection, each) for each in found[:NAMED_MAX])
    more = f", and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    message = f"{counted(len(found), 'constraint does', 'constraints do')} not hold for all rows: {named}{more}"
    advice = f"repair the rows with SQL, then {'; '.join(each.remedy for each in found[:NAMED_MAX])}"
    is_missing = any(each.is_missing for each in found)
    return (error if is_missing else warning)("constraints", message, advice)


def _unenforced(connection: PsycopgConnection) -> Iterator[Unenforced]:
    """Return the declared constraints that the database lacks, or has not compared with older rows."""
    with connection.cursor() as cursor:
        cursor.execute(_VALIDATED)
        validated = dict(cursor.fetchall())
    for table in metadata.sorted_tables:
        for each in sorted(filter(_is_check, table.constraints), key=lambda each: str(each.name)):
            assert isinstance(each, CheckConstraint)
            if not validated.get(each.name):
                yield Unenforced(table, str(each.name), str(each.sqltext), each.name not in validated)


def _is_check(constraint: object) -> bool:
    return isinstance(constraint, CheckConstraint)


def _finding(connection: PsycopgConnection, each: Unenforced) -> str:
    """Return the constraint, how many rows violate it, and the primary key of one of them."""
    keys = [column.name for column in each.table.primary_key.columns] or list(NO_KEY)
    query = sql.SQL("SELECT count(*) OVER (), {keys} FROM {table} WHERE NOT ({condition}) LIMIT 1").format(
        keys=sql.SQL(", ").join(sql.SQL("quote_literal({}::text)").format(sql.Identifier(key)) for key in keys),
        table=sql.Identifier(each.table.name),
        condition=sql.SQL(each.condition),
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        row = cursor.fetchone()
    state = "missing" if each.is_missing else "for new rows only"
    place = f"{each.name} of {each.table.name} ({state}"
    if row is None:
        return f"{place}; no row violates it)"
    count, *values = row
    where = " AND ".join(f"{key} = {display.printable(value)}" for key, value in zip(keys, values, strict=True))
    return f"{place}; {counted(count, 'row violates', 'rows violate')} it, such as {where})"
