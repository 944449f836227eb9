"""The table "request by state" as members see it: what each request may be answered, in each state of the group.

Source: protocol.md section 12. The two rows that are reads, Fetch and Describe, are no decisions and not here.
"""

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.replies import Answer, Left, OffsetsDeleted
from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Request,
    SyncGroup,
)
from coordinator_core.protocol.states import DEAD, EMPTY, STABLE

NF = "NF"
"""No such group."""

# Where a join may wait, it may also be answered at once: when nobody else is awaited.
TABLE = """
request             | NF                 | Empty            | PreparingRebalance    | CompletingRebalance   | Stable                 | Dead
join stranger       | handed an id       | handed an id     | handed an id          | handed an id          | handed an id           | CNA
join handshake      | UNKNOWN_MEMBER_ID  | waits            | waits                 | waits                 | waits                  | CNA
join new static     | waits              | waits            | waits                 | waits                 | waits                  | CNA
join known static   | -                  | -                | waits                 | waits                 | waits                  | CNA
join follower same  | UNKNOWN_MEMBER_ID  | UNKNOWN_MEMBER_ID| waits                 | Joined                | Joined                 | CNA
join leader same    | UNKNOWN_MEMBER_ID  | UNKNOWN_MEMBER_ID| waits                 | Joined                | waits                  | CNA
join changed        | UNKNOWN_MEMBER_ID  | UNKNOWN_MEMBER_ID| waits                 | waits                 | waits                  | CNA
sync leader         | UNKNOWN_MEMBER_ID  | UNKNOWN_MEMBER_ID| REBALANCE_IN_PROGRESS | Synced                | Synced                 | CNA
sync follower       | UNKNOWN_MEMBER_ID  | UNKNOWN_MEMBER_ID| REBALANCE_IN_PROGRESS | waits                 | Synced                 | CNA
heartbeat           | UNKNOWN_MEMBER_ID  | UNKNOWN_MEMBER_ID| REBALANCE_IN_PROGRESS | Beaten                | Beaten                 | CNA
leave member        | UNKNOWN_MEMBER_ID  | UNKNOWN_MEMBER_ID| gone                  | gone                  | gone                   | CNA
leave handshake     | UNKNOWN_MEMBER_ID  | gone             | gone                  | gone                  | gone                   | CNA
commit member       | GROUP_ID_NOT_FOUND | UNKNOWN_MEMBER_ID| Committed             | REBALANCE_IN_PROGRESS | Committed              | CNA
commit simple       | Committed          | Committed        | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID      | CNA
commit -1 with ids  | Committed          | Committed        | ILLEGAL_GENERATION    | ILLEGAL_GENERATION    | ILLEGAL_GENERATION     | CNA
delete offsets      | GROUP_ID_NOT_FOUND | gone             | by subscription       | by subscription       | by subscription        | GROUP_ID_NOT_FOUND
delete group        | GROUP_ID_NOT_FOUND | Done             | NON_EMPTY_GROUP       | NON_EMPTY_GROUP       | NON_EMPTY_GROUP        | GROUP_ID_NOT_FOUND
"""  # noqa: E501 - a table

MEANINGS = {
    "CNA": {"COORDINATOR_NOT_AVAILABLE"},
    "handed an id": {"MEMBER_ID_REQUIRED"},
    "waits": {"waits", "Joined"},
    "by subscription": {"gone", "GROUP_SUBSCRIBED_TO_TOPIC", "NON_EMPTY_GROUP"},
}
BESIDE_THE_TABLE = {
    "INVALID_SESSION_TIMEOUT",
    "GROUP_MAX_SIZE_REACHED",
    "INCONSISTENT_GROUP_PROTOCOL",
    "INVALID_REQUEST",
}
"""Refusals that come before the state is looked at."""


def _read(table: str) -> dict[tuple[str, str], set[str]]:
    header, *lines = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return {
        (row, state): MEANINGS.get(cell, {cell})
        for row, *cells in lines
        for state, cell in zip(header[1:], cells, strict=True)
        if cell != "-"
    }


CELLS = _read(TABLE)
"""(request, state) → what it may be answered."""
ROWS = tuple(dict.fromkeys(row for row, _ in CELLS))
STATES = tuple(dict.fromkeys(state for _, state in CELLS))


def state_of(group: Group) -> str:
    """Return the column of the table that a group is in."""
    return group.state if group.exists else NF


def row_of(group: Group, request: Request) -> str | None:
    """Return the row that a request belongs to by what the group knows of it; None if it is in no row."""
    match request:
        case JoinGroup():
            return _row_of_join(group, request)
        case SyncGroup() | Heartbeat() | CommitOffsets() if _is_stranger(group, request):
            return None
        case SyncGroup():
            return "sync leader" if request.member_id == group.leader_id else "sync follower"
        case Heartbeat():
            return "heartbeat"
        case CommitOffsets():
            return _row_of_commit(group, request)
        case LeaveGroup(members=(leaver,)) if leaver.member_id in group.pending_member_ids:
            return "leave handshake"
        case LeaveGroup(members=(leaver,)) if leaver.member_id in group.members and leaver.group_instance_id is None:
            return "leave member"
        case DeleteOffsets():
            return "delete offsets"
        case DeleteGroup():
            return "delete group"
        case _:
            return None


def _row_of_join(group: Group, request: JoinGroup) -> str | None:
    if request.member_id == NO_MEMBER_ID:
        if request.group_instance_id is None:
            return "join stranger" if request.require_known_member_id else None
        return "join known static" if request.group_instance_id in group.static_members else "join new static"
    if request.member_id in group.pending_member_ids:
        return "join handshake"
    member = group.members.get(request.member_id)
    if member is None or request.group_instance_id not in {None, member.group_instance_id}:
        return None
    if member.protocols != request.protocols:
        return "join changed"
    return "join leader same" if group.leader_id == member.member_id else "join follower same"


def _is_stranger(group: Group, request: SyncGroup | Heartbeat | CommitOffsets) -> bool:
    """Tell whether the member check or the generation would refuse it; a simple commit names nobody."""
    if isinstance(request, CommitOffsets) and request.generation < 0:
        return request.group_instance_id is not None and group.state is not EMPTY
    member = group.members.get(request.member_id)
    return (
        member is None
        or request.generation != group.generation
        or request.group_instance_id not in {None, member.group_instance_id}
    )


def _row_of_commit(group: Group, request: CommitOffsets) -> str | None:
    if request.generation >= 0:
        return "commit member"
    if request.member_id == NO_MEMBER_ID and request.group_instance_id is None:
        return "commit simple"
    is_known = request.member_id in group.members or group.state in {EMPTY, DEAD}
    return "commit -1 with ids" if is_known else None


def outcome(request: Request, decision: Decision) -> str:
    """Return what the request is answered, in the words of the table."""
    token = getattr(request, "token", None)
    answers = [reply.answer for reply in decision.replies if reply.token == token]
    if not answers:
        return "waits"
    return _word_for(answers[0])


def _word_for(answer: Answer | CoordinatorError) -> str:
    match answer:
        case CoordinatorError():
            return answer.code
        case Left() if len(answer.members) == 1:
            error = answer.members[0].error
        case OffsetsDeleted() if answer.offsets:
            error = answer.offsets[0].error
        case _:
            return type(answer).__name__
    return "gone" if error is None else error.code


def is_settled(group: Group) -> bool:
    """Tell whether everybody in the group has its assignment."""
    return group.state is STABLE and not group.pending_syncs
