"""Changes over HTTP: who changed what, when and why; and taking a change back.

Source: http-api.md "For operators", "Taking a change back".
"""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from litestar import get, post
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import Struct

from api.http.call import Call, ThisCall
from api.http.cursors import AtMs, UuidText, read_cursor, write_cursor
from api.http.express import REQUEST
from api.http.fields import GivenReason, PageLimit
from api.http.problems import GroupAuthorizationFailed
from api.http.times import instant, instant_or_none
from coordinator_core.runtime.act import ChangeUnknown
from coordinator_core.store.rows import ChangeFilter, RecordedChange

TAGS: Final = ["Operators: changes"]

# -- list -------------------------------------------------------------------------------------------------


class ChangeShown(Struct):
    """One act of an operator or a DAG; `before` and `after` depend on the action."""

    change_id: str
    at: datetime
    actor: str
    action: str
    group_id: str | None
    before: Any
    after: Any
    reason: str | None
    undone_at: datetime | None
    undone_by: str | None
    """The change that took it back."""


class ChangesAnswer(Struct):
    """A page of changes, the newest first; `next_cursor` asks for the next one, and is null on the last."""

    changes: list[ChangeShown]
    next_cursor: str | None


@get("/v1/changes", tags=TAGS, opt={REQUEST: "ListChanges"})
async def list_changes(
    call: ThisCall, group_id: FromQuery[str | None] = None, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> ChangesAnswer:
    """List changes, of one group or of all, the newest first; a token for some groups sees theirs, on shorter pages."""
    which = ChangeFilter(group_id, read_cursor(cursor, tuple[AtMs, UuidText]), limit + 1)
    found = await call.coordinator.operators.changes(which)
    page = found[:limit]
    next_cursor = write_cursor(page[-1].change.at_ms, page[-1].change.change_id) if len(found) > limit else None
    return ChangesAnswer([_shown(each) for each in page if call.sees(each.change.group_id)], next_cursor)


@get("/v1/changes/{change_id:str}", tags=TAGS, opt={REQUEST: "DescribeChange"})
async def describe_change(call: ThisCall, change_id: FromPath[str]) -> ChangeShown:
    """Show one change."""
    return _shown(await _own_change(call, _uuid(change_id)))


async def _own_change(call: Call, change_id: str) -> RecordedChange:
    """Return a change of a group that the caller may touch."""
    found = await call.coordinator.operators.change(change_id)
    if not call.sees(found.change.group_id):
        raise GroupAuthorizationFailed("the token is not for what this change is about")
    return found


def _shown(found: RecordedChange) -> ChangeShown:
    change = found.change
    return ChangeShown(
        change_id=change.change_id,
        at=instant(change.at_ms),
        actor=change.actor,
        action=change.action,
        group_id=change.group_id,
        before=change.before,
        after=change.after,
        reason=change.reason,
        undone_at=instant_or_none(found.undone_at_ms),
        undone_by=found.undone_by,
    )


# -- undo -------------------------------------------------------------------------------------------------


class UndoBody(Struct, forbid_unknown_fields=True):
    """Why the change is taken back."""

    reason: GivenReason


class OffsetUndone(Struct):
    """What became of a partition: `restored`, `removed` (nothing had stood there), or why it was kept as it is."""

    topic: str
    partition: int
    outcome: str
    offset: int | None
    """What the undo put there."""


class SettingUndone(Struct):
    """What became of a setting: `restored`, or `newer_there`; `value` is what is set now at that level."""

    key: str
    outcome: str
    value: str | None


class TopicUndone(Struct):
    """What became of a deleted topic: `restored`, or `newer_there`."""

    topic: str
    outcome: str


class UndoAnswer(Struct, kw_only=True):
    """What was taken back and what was kept; where offsets of many groups come back, the run that does it."""

    change_id: str
    undoes: str
    action: str
    """What the change had done."""
    group_id: str | None
    offsets: list[OffsetUndone] = []
    offset_count: int = 0
    settings: list[SettingUndone] = []
    topic: TopicUndone | None = None
    run_id: str | None = None
    candidates: int = 0
    """How many offsets the run has to look at."""


@post("/v1/changes/{change_id:str}/undo", status_code=200, tags=TAGS, opt={REQUEST: "UndoChange"})
async def undo_change(call: ThisCall, change_id: FromPath[str], data: JSONBody[UndoBody]) -> UndoAnswer:
    """Take a change back as far as nothing newer stands there; an undo is a change itself."""
    if not call.sees(None):
        await _own_change(call, _uuid(change_id))
    undo = await call.coordinator.operators.undo(_uuid(change_id), call.act(data.reason))
    after = undo.after
    return UndoAnswer(
        change_id=undo.change_id,
        undoes=after["undoes"],
        action=after["action"],
        group_id=undo.group_id,
        offsets=[OffsetUndone(**each) for each in after.get("offsets", ())],
        offset_count=after.get("offset_count", 0),
        settings=[SettingUndone(**each) for each in after.get("settings", ())],
        topic=TopicUndone(**after["topic"]) if "topic" in after else None,
        run_id=after.get("run_id"),
        candidates=after.get("candidates", 0),
    )


def _uuid(change_id: str) -> str:
    """Return a change's id as it is kept; what is no UUID is no change."""
    try:
        return str(UUID(change_id))
    except ValueError:
        raise ChangeUnknown(f"there is no change {change_id}") from None
