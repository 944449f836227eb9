"""The audit log: records changes once per id, reads them, and locks those that are undone."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from sqlalchemy import select, tuple_

from coordinator_core.state_store.audit_tables import changes
from coordinator_core.state_store.interface import NotUndoable
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.reads import named_partitions
from coordinator_core.state_store.postgres.statements import insert_changes
from coordinator_core.state_store.postgres.timestamps import columns_of
from coordinator_core.state_store.rows import ArchivedOffset, ChangeRow, RecordedChange
from coordinator_core.state_store.tables import archived_offsets as archive

_CHANGE = tuple(field.name for field in fields(ChangeRow))
CHANGES = select(*columns_of(changes, (*_CHANGE, "undone_at_ms", "undone_by_change_id")))
"""Selects every change; `recorded` reads its rows."""
_ARCHIVED = ["committed_offset" if name == "offset" else name for name in ArchivedOffset._fields]


def record_change(transaction: Transaction, change: ChangeRow) -> ChangeRow:
    """Write a change, and return it."""
    insert_changes(transaction, [change])
    return change


def change_exists(transaction: Transaction, change_id: str) -> bool:
    """Return whether a change exists."""
    return find_change(transaction, change_id) is not None


def find_change(transaction: Transaction, change_id: str) -> RecordedChange | None:
    """Return one change, or None if it does not exist or the id is not a UUID."""
    try:
        UUID(change_id)
    except ValueError:
        return None
    row = transaction.execute(CHANGES.where(changes.c.change_id == change_id)).first()
    return None if row is None else recorded(row)


def undone_changes(transaction: Transaction, group_id: str) -> list[RecordedChange]:
    """Return the changes of a group that were undone."""
    found = CHANGES.where(changes.c.group_id == group_id, changes.c.undone_at.is_not(None))
    return [recorded(row) for row in transaction.execute(found)]


def lock_undoable(transaction: Transaction, change_id: str) -> ChangeRow:
    """Lock a change against other undos, and return it.

    Raises:
        NotUndoable: it does not exist, or was undone already.
    """
    row = transaction.execute(CHANGES.where(changes.c.change_id == change_id).with_for_update()).first()
    found = None if row is None else recorded(row)
    if found is None or found.undone_at_ms is not None:
        raise NotUndoable("it was undone already" if found else "the change does not exist")
    return found.change


def archived_offsets(
    transaction: Transaction, change_id: str, group_id: str, partitions: Sequence[tuple[str, int]] | None = None
) -> list[ArchivedOffset]:
    """Return a group's offsets that a change archived, by topic and partition."""
    key = (archive.c.topic, archive.c.partition)
    archived = select(*columns_of(archive, _ARCHIVED)).order_by(*key)
    archived = archived.where(archive.c.change_id == change_id, archive.c.group_id == group_id)
    if partitions is not None:
        archived = archived.where(tuple_(*key).in_(named_partitions(partitions)))
    return [ArchivedOffset(*row) for row in transaction.execute(archived)]


def recorded(row: Sequence[Any]) -> RecordedChange:
    """Return the change in a row of `CHANGES`."""
    undone_at_ms, undone_by_change_id = row[-2:]
    return RecordedChange(ChangeRow(*row[:-2]), undone_at_ms, undone_by_change_id)
