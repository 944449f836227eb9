"""The table "Request by state": the permitted answers to each request in each state of a group.

Source: protocol.md section 12. The rows from "reset offsets" on, of operators, maintenance, time and the node, are
Muster's own.
"""

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    CommitOffsets,
    DeadlineKind,
    DeleteGroup,
    DeleteOffsets,
    ExpireDeadline,
    ExpireOffsets,
    ForceRebalance,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Reevaluate,
    RemoveMember,
    RemoveTopicOffsets,
    Request,
    ResetOffsets,
    RestoreOffsets,
    Resume,
    RetireGroup,
    SyncGroup,
)
from coordinator_core.protocol.responses import (
    Answer,
    DeleteOffsetsResponse,
    LeaveGroupResponse,
    RestoreOffsetsResponse,
)
from coordinator_core.protocol.states import DEAD, EMPTY, STABLE

NF = "NF"
"""No such group."""

# Where a join may wait, it may also be answered at once: if no other member is missing.
TABLE = """
request            | NF                    | Empty                 | PreparingRebalance    | CompletingRebalance   | Stable                | Dead
join new           | id issued             | id issued             | id issued             | id issued             | id issued             | CNA
join pending       | UNKNOWN_MEMBER_ID     | waits                 | waits                 | waits                 | waits                 | CNA
join new static    | waits                 | waits                 | waits                 | waits                 | waits                 | CNA
join known static  | -                     | -                     | waits                 | waits                 | waits                 | CNA
join follower same | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | waits                 | JoinGroupResponse     | JoinGroupResponse     | CNA
join leader same   | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | waits                 | JoinGroupResponse     | waits                 | CNA
join changed       | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | waits                 | waits                 | waits                 | CNA
sync leader        | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | REBALANCE_IN_PROGRESS | SyncGroupResponse     | SyncGroupResponse     | CNA
sync follower      | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | REBALANCE_IN_PROGRESS | waits                 | SyncGroupResponse     | CNA
heartbeat          | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | REBALANCE_IN_PROGRESS | HeartbeatResponse     | HeartbeatResponse     | CNA
leave member       | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | gone                  | gone                  | gone                  | CNA
leave pending      | UNKNOWN_MEMBER_ID     | gone                  | gone                  | gone                  | gone                  | CNA
commit member      | GROUP_ID_NOT_FOUND    | UNKNOWN_MEMBER_ID     | CommitOffsetsResponse | REBALANCE_IN_PROGRESS | CommitOffsetsResponse | CNA
commit simple      | CommitOffsetsResponse | CommitOffsetsResponse | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     | CNA
commit -1 with ids | CommitOffsetsResponse | CommitOffsetsResponse | ILLEGAL_GENERATION    | ILLEGAL_GENERATION    | ILLEGAL_GENERATION    | CNA
delete offsets     | GROUP_ID_NOT_FOUND    | gone                  | by subscription       | by subscription       | by subscription       | GROUP_ID_NOT_FOUND
delete group       | GROUP_ID_NOT_FOUND    | EmptyResponse         | NON_EMPTY_GROUP       | NON_EMPTY_GROUP       | NON_EMPTY_GROUP       | GROUP_ID_NOT_FOUND
reset offsets      | ResetOffsetsResponse  | ResetOffsetsResponse  | NON_EMPTY_GROUP       | NON_EMPTY_GROUP       | NON_EMPTY_GROUP       | CNA
restore offsets    | restored              | restored              | restored if unread    | restored if unread    | restored if unread    | CNA
a run restores     | restored              | restored              | restored or kept      | restored or kept      | restored or kept      | CNA
topic deleted      | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse
expire offsets     | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse
retire             | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse | ExpireOffsetsResponse
force rebalance    | GROUP_ID_NOT_FOUND    | INVALID_REQUEST       | EmptyResponse         | EmptyResponse         | EmptyResponse         | GROUP_ID_NOT_FOUND
remove member      | GROUP_ID_NOT_FOUND    | INVALID_REQUEST       | EmptyResponse         | EmptyResponse         | EmptyResponse         | GROUP_ID_NOT_FOUND
join limit         | no reply              | no reply              | no reply              | no reply              | no reply              | no reply
sync limit         | no reply              | no reply              | no reply              | no reply              | no reply              | no reply
member's time      | no reply              | no reply              | no reply              | no reply              | no reply              | no reply
pending's time     | no reply              | no reply              | no reply              | no reply              | no reply              | no reply
settings changed   | no reply              | no reply              | no reply              | no reply              | no reply              | no reply
loaded             | -                     | no reply              | -                     | no reply              | no reply              | -
"""  # noqa: E501 - a table

MEANINGS = {
    "CNA": {"COORDINATOR_NOT_AVAILABLE"},
    "id issued": {"MEMBER_ID_REQUIRED"},
    "waits": {"waits", "JoinGroupResponse"},
    "no reply": {"waits"},
    "restored if unread": {"restored", "NON_EMPTY_GROUP"},
    "restored or kept": {"restored", "group_active"},
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


_ROW_OF_KIND: dict[type[Request], str] = {
    DeleteOffsets: "delete offsets",
    DeleteGroup: "delete group",
    ResetOffsets: "reset offsets",
    RemoveTopicOffsets: "topic deleted",
    ExpireOffsets: "expire offsets",
    RetireGroup: "retire",
    ForceRebalance: "force rebalance",
    RemoveMember: "remove member",
    Reevaluate: "settings changed",
    Resume: "loaded",
}
_ROW_OF_DEADLINE = {
    DeadlineKind.JOIN: "join limit",
    DeadlineKind.SYNC: "sync limit",
    DeadlineKind.SESSION: "member's time",
    DeadlineKind.PENDING_MEMBER: "pending's time",
}


def state_of(group: Group) -> str:
    """Return the column of the table that a group is in."""
    return group.state if group.exists else NF


def row_of(group: Group, request: Request) -> str | None:
    """Return the row of a request, as far as the group determines it; None if there is none."""
    match request:
        case JoinGroup():
            return _row_of_join(group, request)
        case SyncGroup() | Heartbeat() | CommitOffsets() if _is_new_member(group, request):
            return None
        case SyncGroup():
            return "sync leader" if request.member_id == group.leader_id else "sync follower"
        case Heartbeat():
            return "heartbeat"
        case CommitOffsets():
            return _row_of_commit(group, request)
        case LeaveGroup(members=(leaver,)) if leaver.member_id in group.pending_member_ids:
            return "leave pending"
        case LeaveGroup(members=(leaver,)) if leaver.member_id in group.members and leaver.group_instance_id is None:
            return "leave member"
        case RestoreOffsets() if _is_as_left(request):
            return "a run restores" if request.is_maintenance_run else "restore offsets"
        case ExpireDeadline():
            return _ROW_OF_DEADLINE[request.deadline.kind]
        case _:
            return _ROW_OF_KIND.get(type(request))


def _row_of_join(group: Group, request: JoinGroup) -> str | None:
    if request.member_id == NO_MEMBER_ID:
        if request.group_instance_id is None:
            return "join new" if request.require_known_member_id else None
        return "join known static" if request.group_instance_id in group.static_members else "join new static"
    if request.member_id in group.pending_member_ids:
        return "join pending"
    member = group.members.get(request.member_id)
    if member is None or request.group_instance_id not in {None, member.group_instance_id}:
        return None
    if member.protocols != request.protocols:
        return "join changed"
    return "join leader same" if group.leader_id == member.member_id else "join follower same"


def _is_as_left(request: RestoreOffsets) -> bool:
    """Return whether an offset was stored before the change, and no newer one is."""
    stands = {(one.topic, one.partition): (one.offset, one.committed_at_ms) for one in request.stored}
    return all(
        one.offset is not None
        and stands.get((one.topic, one.partition), (None, None)) == (one.offset_after_change, one.changed_at_ms)
        for one in request.offsets
    )


def _is_new_member(group: Group, request: SyncGroup | Heartbeat | CommitOffsets) -> bool:
    """Return whether the member check or the generation would refuse it; a simple commit has no member."""
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
    """Return the response to the request, in the terms of the table."""
    token = getattr(request, "token", None)
    answers = [reply.answer for reply in decision.replies if reply.token == token]
    if not answers:
        return "waits"
    return _word_for(answers[0])


def _word_for(answer: Answer | CoordinatorError) -> str:
    match answer:
        case CoordinatorError():
            return answer.code
        case LeaveGroupResponse() if len(answer.members) == 1:
            error = answer.members[0].error
        case DeleteOffsetsResponse() if answer.offsets:
            error = answer.offsets[0].error
        case RestoreOffsetsResponse() if answer.offsets:
            return answer.offsets[0].outcome
        case _:
            return type(answer).__name__
    return "gone" if error is None else error.code


def is_settled(group: Group) -> bool:
    """Return whether every member of the group has its assignment."""
    return group.state is STABLE and not group.pending_syncs
