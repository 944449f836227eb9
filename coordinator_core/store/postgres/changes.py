"""The audit log: records changes once per id, reads them, and locks those that are undone."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import select, tuple_

from coordinator_core.store.interface import NotUndoable
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.reads import named_partitions
from coordinator_core.store.postgres.statements import insert_changes
from coordinator_core.store.postgres.timestamps import as_ms, columns_of
from coordinator_core.store.rows import ArchivedOffset, ChangeFilter, ChangeRow, RecordedChange
from coordinator_core.store.tables import archived_offsets as archive
from coordinator_core.store.tables import changes

_CHANGE = ("change_id", "at_ms", "actor", "action", "group_id", "before", "after", "reason")
_CHANGES = select(*columns_of(changes, (*_CHANGE, "undone_at_ms", "undone_by_change_id")))
_ARCHIVED = (
    "change_id",
    "group_id",
    "shard_id",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "log_end_offset",
    "committed_at_ms",
    "archived_at_ms",
    "cause",
    "log_end_at_ms",
)


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
    row = transaction.execute(_CHANGES.where(changes.c.change_id == change_id)).first()
    return None if row is None else _recorded(row)


def lock_undoable(transaction: Transaction, change_id: str) -> ChangeRow:
    """Lock a change against other undos, and return it.

    Raises:
        NotUndoable: it does not exist, or was undone already.
    """
    row = transaction.execute(_CHANGES.where(changes.c.change_id == change_id).with_for_update()).first()
    found = None if row is None else _recorded(row)
    if found is None or found.undone_at_ms is not None:
        raise NotUndoable("it was undone already" if found else "the change does not exist")
    return found.change


def list_changes(transaction: Transaction, which: ChangeFilter) -> list[RecordedChange]:
    """Return a page of changes, the newest first."""
    page = _CHANGES.order_by(changes.c.at.desc(), changes.c.change_id.desc()).limit(which.limit)
    if which.group_id is not None:
        page = page.where(changes.c.group_id == which.group_id)
    if which.after is not None:
        page = page.where(tuple_(as_ms(changes.c.at), changes.c.change_id) < which.after)
    return [_recorded(row) for row in transaction.execute(page)]


def archived_offsets(
    transaction: Transaction, change_id: str, group_id: str, partitions: Sequence[tuple[str, int]] | None
) -> list[ArchivedOffset]:
    """Return a group's offsets that a change archived, by topic and partition."""
    key = (archive.c.topic, archive.c.partition)
    archived = select(*columns_of(archive, _ARCHIVED)).order_by(*key)
    archived = archived.where(archive.c.change_id == change_id, archive.c.group_id == group_id)
    if partitions is not None:
        archived = archived.where(tuple_(*key).in_(named_partitions(partitions)))
    return [ArchivedOffset(*row) for row in transaction.execute(archived)]


def _recorded(row: Sequence[Any]) -> RecordedChange:
    undone_at_ms, undone_by_change_id = row[-2:]
    return RecordedChange(ChangeRow(*row[:-2]), undone_at_ms, undone_by_change_id)
