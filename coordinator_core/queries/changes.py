"""Lists of changes, the newest first."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

from sqlalchemy import UUID, ColumnElement, case, cast, func, literal, select, tuple_

from coordinator_core.queries.group_patterns import GroupPatterns, covers
from coordinator_core.state_store.audit_tables import changes
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.postgres.changes import CHANGES, recorded
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import from_ms
from coordinator_core.state_store.rows import RecordedChange
from coordinator_core.state_store.tables import maintenance_runs

PAGE_MAX_BYTES: Final = 524_288
"""The maximum stored bytes of `before` and `after` in a page, which Postgres compresses to a twentieth; a change that
is larger has a page of its own."""
RUN_DECISIONS: Final = (ChangeAction.APPLY_RUN, ChangeAction.REJECT_RUN)


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Selects changes, the newest first."""

    group_id: str | None = None
    """None: all changes, also those without a group."""
    after: tuple[int, str] | None = None
    """Time and id of the last change of the previous page."""
    limit: int = 100
    actor: str = ""
    """A substring of the actor; ASCII letters match in either case."""
    actions: frozenset[ChangeAction] = frozenset()
    """Empty: every action."""
    has_empty_runs: bool = True
    """Whether decisions on maintenance runs without candidates are included."""
    patterns: GroupPatterns | None = None
    """The groups whose changes are included; None: all changes."""


class ChangePage(NamedTuple):
    """A page of changes, the newest first, of at most the limit and PAGE_MAX_BYTES."""

    changes: list[RecordedChange]
    has_more: bool
    """Whether there are changes after the page."""


def read_changes(transaction: Transaction, which: ChangeFilter) -> ChangePage:
    """Return a page of changes.

    Their sizes are read first, and then these changes: others may have been made meanwhile.
    """
    in_order = CHANGES.order_by(*(each.desc() for each in _PLACE))
    page = in_order.where(*covers(changes.c.group_id, which.patterns))
    if which.group_id is not None:
        page = page.where(changes.c.group_id == which.group_id)
    if which.actor:
        # The collation C and bytes have the same lower-case letters: those of ASCII.
        actor = func.lower(changes.c.actor.collate("C"))
        page = page.where(func.strpos(actor, which.actor.encode().lower().decode()) > 0)
    if which.actions:
        page = page.where(changes.c.action.in_(which.actions))
    if not which.has_empty_runs:
        page = page.where(~_EMPTY_RUN)
    if which.after is not None:
        page = page.where(_place_of(*which.after) > _PLACE)
    sizes = transaction.execute(page.with_only_columns(changes.c.change_id, _STORED_BYTES).limit(which.limit + 1)).all()
    fitting = max(1, bisect_right(list(accumulate(size for _, size in sizes)), PAGE_MAX_BYTES))
    count = min(which.limit, fitting)
    rows = transaction.execute(in_order.where(changes.c.change_id.in_([change_id for change_id, _ in sizes[:count]])))
    return ChangePage([recorded(row) for row in rows], len(sizes) > count)


_PLACE: Final = tuple_(changes.c.at, changes.c.change_id)


def _place_of(at_ms: int, change_id: str) -> ColumnElement[Any]:
    """Return the place of a change in the list; the database writes times of changes that are no whole milliseconds."""
    last = changes.alias()
    at = select(last.c.at).where(last.c.change_id == change_id).scalar_subquery()
    return tuple_(func.coalesce(at, from_ms(at_ms)), literal(change_id, changes.c.change_id.type))


_STORED_BYTES: Final = func.coalesce(func.pg_column_size(changes.c.before), 0) + func.coalesce(
    func.pg_column_size(changes.c.after), 0
)

_RUN_ID: Final = case(
    (changes.c.action.in_(RUN_DECISIONS), cast(changes.c.after["run_id"].astext, UUID(as_uuid=False))), else_=None
)
_EMPTY_RUN: Final = (
    select(maintenance_runs.c.run_id)
    .where(maintenance_runs.c.run_id == _RUN_ID, maintenance_runs.c.counts["candidates"].astext == "0")
    .correlate(changes)
    .exists()
)
"""The change decides on a run that found nothing."""
