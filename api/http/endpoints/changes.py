"""Endpoints for the audit log: list, describe and undo changes.

Source: http-api.md "Operator requests", "Undoing a change".
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

from litestar import get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Struct

from api.http.cursors import AtMs, UuidText, read_cursor, write_cursor
from api.http.fast_path import REQUEST
from api.http.fields import PageLimit, RequiredReason
from api.http.request_context import CurrentRequest, RequestContext
from api.http.rows import response_of
from api.http.times import instant_or_none
from api.shared.access_control import Operation
from api.shared.errors import GroupAuthorizationFailed, TopicAuthorizationFailed
from api.shared.limits import ACTOR_MAX_CHARS
from coordinator_core.admin import undo as admin_undo
from coordinator_core.admin.changes import ChangeNotFound, find_change
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.queries.changes import ChangeFilter, read_changes
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import RecordedChange

TAGS: Final = ["Operators: changes"]

# -- list -------------------------------------------------------------------------------------------------


class ChangeResponse(Struct):
    """A change by an operator, an agent or a DAG; the shape of `before` and `after` depends on `action`."""

    change_id: str
    at: datetime
    actor: str
    action: str
    group_id: str | None
    before: Any
    after: Any
    reason: str | None
    undone_at: datetime | None
    undone_by_change_id: str | None
    """The change that undid it."""
    token_id: str | None
    """The id of the token that made it; null: a node did, or a command on the database, or there are no tokens."""
    client_address: str | None


class ChangesResponse(Struct):
    """A page of changes, the newest first; `next_cursor` is null on the last page."""

    changes: list[ChangeResponse]
    next_cursor: str | None


ActorParam: TypeAlias = Annotated[
    str, QueryParameter(name="actor", max_length=ACTOR_MAX_CHARS, description="a part of the actor")
]
ActionsParam: TypeAlias = Annotated[
    list[str] | None, QueryParameter(name="action", description="only changes with this action; repeatable")
]
EmptyRunsParam: TypeAlias = Annotated[
    bool, QueryParameter(name="empty_runs", description="false: without decisions on runs that have no candidates")
]


@get("/v1/changes", tags=TAGS, opt={REQUEST: "ListChanges"})
async def list_changes(
    context: CurrentRequest,
    group_id: FromQuery[str | None] = None,
    actor: ActorParam = "",
    actions: ActionsParam = None,
    has_empty_runs: EmptyRunsParam = True,
    limit: PageLimit = 100,
    cursor: FromQuery[str] = "",
) -> ChangesResponse:
    """List changes of one group or of all, the newest first; a token for some groups gets those of its groups only."""
    change_filter = ChangeFilter(
        group_id,
        actor=actor,
        actions=_actions(actions or ()),
        has_empty_runs=has_empty_runs,
        after=read_cursor(cursor, tuple[AtMs, UuidText]),
        limit=limit,
        patterns=context.covered_groups,
    )
    page, has_more = await context.query(read_changes, change_filter)
    next_cursor = write_cursor(page[-1].change.at_ms, page[-1].change.change_id) if has_more else None
    return ChangesResponse([_to_response(each) for each in page], next_cursor)


def _actions(names: Iterable[str]) -> frozenset[ChangeAction]:
    try:
        return frozenset(ChangeAction(name) for name in names)
    except ValueError:
        raise InvalidRequest(f"action must be one of {', '.join(ChangeAction)}") from None


@get("/v1/changes/{change_id:str}", tags=TAGS, opt={REQUEST: "DescribeChange"})
async def describe_change(context: CurrentRequest, change_id: FromPath[str]) -> ChangeResponse:
    """Describe one change."""
    return _to_response(await _own_change(context, _uuid(change_id)))


async def _own_change(
    context: RequestContext, change_id: str, operation: Operation = Operation.DESCRIBE
) -> RecordedChange:
    """Return a change, if the token allows the operation on its group."""
    found = await find_change(context.coordinator, change_id)
    if not context.can_access(found.change.group_id, operation):
        raise GroupAuthorizationFailed("the token does not cover this change")
    return found


async def _check_undo(context: RequestContext, change_id: str) -> None:
    """Check that the token allows everything on the group of a change, and on all topics if it may be of offsets.

    Raises:
        GroupAuthorizationFailed: not on the group.
        TopicAuthorizationFailed: not on all topics.
    """
    if context.can_access(None, Operation.ALL) and context.can_access_all_topics(Operation.ALL):
        return
    found = await _own_change(context, change_id, Operation.ALL)
    if found.change.action != ChangeAction.PUT_SETTINGS and not context.can_access_all_topics(Operation.ALL):
        raise TopicAuthorizationFailed("the token does not allow ALL on every topic, which the undo may write")


def _to_response(found: RecordedChange) -> ChangeResponse:
    undone = {"undone_at": instant_or_none(found.undone_at_ms), "undone_by_change_id": found.undone_by_change_id}
    return response_of(ChangeResponse, found.change, **undone)


# -- undo -------------------------------------------------------------------------------------------------


class UndoBody(Struct, forbid_unknown_fields=True):
    """The reason for the undo."""

    reason: RequiredReason


class OffsetUndoResponse(Struct):
    """The outcome for a partition: `restored`, `removed` (it had no offset before), or why it was left unchanged."""

    topic: str
    partition: int
    outcome: str
    offset: int | None
    """The offset that the undo committed."""


class SettingUndoResponse(Struct):
    """The outcome for a setting: `restored` or `newer_there`; `value` is the value now set at that level."""

    key: str
    outcome: str
    value: str | None


class TopicUndoResponse(Struct):
    """The outcome for a deleted topic: `restored` or `newer_there`."""

    topic: str
    outcome: str


class UndoResponse(Struct, kw_only=True):
    """The outcomes of an undo; `run_id` names the maintenance run that restores offsets of several groups."""

    change_id: str
    undoes: str
    action: str
    """The action of the undone change."""
    group_id: str | None
    offsets: list[OffsetUndoResponse] = []
    offset_count: int = 0
    settings: list[SettingUndoResponse] = []
    topic: TopicUndoResponse | None = None
    run_id: str | None = None
    candidates: int = 0
    """The number of offsets that the run processes."""
    unconfirmed_nodes: list[str] = []
    """The nodes that have not confirmed the restored settings of the cluster, sorted."""


@post("/v1/changes/{change_id:str}/undo", status_code=200, tags=TAGS, opt={REQUEST: "UndoChange"})
async def undo_change(context: CurrentRequest, change_id: FromPath[str], data: JSONBody[UndoBody]) -> UndoResponse:
    """Undo a change, except where there are newer changes; the undo is recorded as a change itself."""
    await _check_undo(context, _uuid(change_id))
    undo = await admin_undo.undo_change(context.coordinator, _uuid(change_id), context.begin_change(data.reason))
    after = undo.after
    is_of_cluster = after["action"] == ChangeAction.PUT_SETTINGS and undo.group_id is None
    return UndoResponse(
        change_id=undo.change_id,
        undoes=after["undoes"],
        action=after["action"],
        group_id=undo.group_id,
        offsets=[OffsetUndoResponse(**each) for each in after.get("offsets", ())],
        offset_count=after.get("offset_count", 0),
        settings=[SettingUndoResponse(**each) for each in after.get("settings", ())],
        topic=TopicUndoResponse(**after["topic"]) if "topic" in after else None,
        run_id=after.get("run_id"),
        candidates=after.get("candidates", 0),
        unconfirmed_nodes=await context.wait_for_confirmations() if is_of_cluster else [],
    )


def _uuid(change_id: str) -> str:
    """Return a change id in its stored form; raise `ChangeNotFound` if it is no UUID."""
    try:
        return str(UUID(change_id))
    except ValueError:
        raise ChangeNotFound(f"there is no change {change_id}") from None
