"""Checks of `muster doctor` on stored rows: CHECK constraints, and groups that no node could load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from sqlalchemy import CheckConstraint, Table
from sqlalchemy.exc import NoResultFound

from coordinator_core.state_store.interface import StoreError
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.projection import load_group
from coordinator_core.state_store.row_checks import UnreadableRow, check_shard
from coordinator_core.state_store.rows import StoredGroup, UnreadableGroup
from coordinator_core.state_store.tables import metadata
from muster import display
from muster.cli.doctor.database import ROW_LOST
from muster.cli.doctor.results import CheckResult, error, ok, warning
from muster.display import counted

NAMED_MAX: Final = 5
"""The maximum number of constraints or groups that a result names."""
NO_KEY: Final = ("ctid",)
"""The column that identifies a row of a table without a primary key."""

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
        """Return the statement that adds or validates it, once no row violates it."""
        if self.is_missing:
            return f"ALTER TABLE {self.table.name} ADD CONSTRAINT {self.name} CHECK ({self.condition})"
        return f"ALTER TABLE {self.table.name} VALIDATE CONSTRAINT {self.name}"


def check_constraints(connection: PsycopgConnection) -> CheckResult:
    """Check that every CHECK constraint exists and holds; name the first row that violates each."""
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


SHARD_COUNT_MAX: Final = 10_000
REPAIR: Final = "repair the rows with SQL, then muster groups reload GROUP; docs/runbook.md#mustergroupsquarantined"


def check_groups(url: str) -> CheckResult:
    """Load the groups of all shards, as a node does when it acquires them.

    Args:
        url: the database, as SQLAlchemy writes it.
    """
    try:
        with closing(PostgresStore(url)) as store:
            total, reasons = _unreadable_groups(store)
    except StoreError as failure:
        return error("groups", f"they cannot be read: {failure}", "run muster migrate if a table is missing")
    except NoResultFound:
        return error("groups", "the table versions has no row, so no node starts", ROW_LOST)
    if not reasons:
        return ok("groups", f"{counted(total, 'group')} can be loaded")
    named = [f"{display.printable(group_id)} ({reason})" for group_id, reason in sorted(reasons.items())[:NAMED_MAX]]
    more = f", and {len(reasons) - NAMED_MAX} more" if len(reasons) > NAMED_MAX else ""
    return error("groups", f"{len(reasons)} of {total} cannot be loaded: {', '.join(named)}{more}", REPAIR)


def _unreadable_groups(store: PostgresStore) -> tuple[int, dict[str, str]]:
    """Return how many groups there are, and why some cannot be loaded."""
    shard_count, total = store.shard_count(), 0
    reasons: dict[str, str] = {}
    for shard_ids in (*([shard_id] for shard_id in range(shard_count)), range(shard_count, SHARD_COUNT_MAX)):
        for one in store.load_shards(shard_ids):
            total += 1
            reason = _why_unreadable(one, shard_count)
            # Nodes may have written between the reads of groups and members, so it is looked at once more.
            again = None if reason is None else store.load_group(one.group_id)
            if again is not None and (reason := _why_unreadable(again, shard_count)) is not None:
                reasons[one.group_id] = reason
    return total, reasons


def _why_unreadable(stored: StoredGroup | UnreadableGroup, shard_count: int) -> str | None:
    try:
        check_shard(stored, stored.shard_id, shard_count)
        if isinstance(stored, UnreadableGroup):
            return stored.reason
        load_group(stored, time.time_ns() // 1_000_000)
    except UnreadableRow as failure:
        return str(failure)
    except Exception as failure:  # noqa: BLE001 - rows written by hand may break anything; the reason is shown
        return f"{type(failure).__name__}: {failure}"
    return None
