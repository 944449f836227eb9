"""Lists of changes, the newest first."""

from dataclasses import dataclass

from sqlalchemy import tuple_

from coordinator_core.state_store.postgres.changes import CHANGES, recorded
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import as_ms
from coordinator_core.state_store.rows import RecordedChange
from coordinator_core.state_store.tables import changes


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Selects changes, the newest first."""

    group_id: str | None = None
    """None: all changes, also those without a group."""
    after: tuple[int, str] | None = None
    """Time and id of the last change of the previous page."""
    limit: int = 100


def read_changes(transaction: Transaction, which: ChangeFilter) -> list[RecordedChange]:
    """Return a page of changes, the newest first."""
    page = CHANGES.order_by(changes.c.at.desc(), changes.c.change_id.desc()).limit(which.limit)
    if which.group_id is not None:
        page = page.where(changes.c.group_id == which.group_id)
    if which.after is not None:
        page = page.where(tuple_(as_ms(changes.c.at), changes.c.change_id) < which.after)
    return [recorded(row) for row in transaction.execute(page)]
