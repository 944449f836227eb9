"""Responses of a group; a reply is sent only when everything that it depends on is stored."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.requests import Token


class JoinGroupResponseMember(Struct, frozen=True, gc=False):
    """A member as the leader sees it: with its metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResponse(Struct, frozen=True, gc=False):
    """The member's generation. `members` is empty except for the leader; the three times are the effective ones."""

    generation: int
    protocol_type: str
    protocol_name: str
    leader_id: str
    member_id: str
    members: tuple[JoinGroupResponseMember, ...]
    skip_assignment: bool
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int


class SyncGroupResponse(Struct, frozen=True, gc=False):
    """The member's own assignment."""

    protocol_type: str
    protocol_name: str
    assignment: bytes


class HeartbeatResponse(Struct, frozen=True, gc=False):
    """The session was restarted; the two times are the effective ones."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


class LeavingMemberResult(NamedTuple):
    """The result of one entry of a leave; `error` None: removed."""

    member_id: str
    group_instance_id: str | None
    error: CoordinatorError | None


class LeaveGroupResponse(Struct, frozen=True):
    """One result an entry, in request order."""

    members: tuple[LeavingMemberResult, ...]


class PartitionResult(NamedTuple):
    """The result for one partition; `error` None: done."""

    topic: str
    partition: int
    error: CoordinatorError | None


class CommitOffsetsResponse(Struct, frozen=True):
    """The result of a commit: everything requested is stored, except what has an error."""

    errors: Mapping[int, CoordinatorError]
    """Index into the requested offsets → the error."""


class DeleteOffsetsResponse(Struct, frozen=True):
    """One result a partition, in request order."""

    offsets: tuple[PartitionResult, ...]

    @property
    def is_refused(self) -> bool:
        """Return whether partitions were named and every one was refused, so that nothing was done."""
        return bool(self.offsets) and all(error is not None for _, _, error in self.offsets)


class CandidateOutcome(NamedTuple):
    """The outcome of one candidate: `expired`, or why it was kept."""

    topic: str
    partition: int
    outcome: str


class ExpireOffsetsResponse(Struct, frozen=True):
    """One outcome a candidate, in request order."""

    outcomes: tuple[CandidateOutcome, ...]


class ResetResult(NamedTuple):
    """A partition's committed offset before and after the reset, with a note where one is due."""

    topic: str
    partition: int
    old_offset: int | None
    """None: nothing was committed."""
    new_offset: int
    note: str | None = None


class ResetOffsetsResponse(Struct, frozen=True):
    """One result a partition, in request order."""

    offsets: tuple[ResetResult, ...]


class RestoreResult(NamedTuple):
    """The outcome for one partition: `restored`, `removed`, or why it was kept."""

    topic: str
    partition: int
    outcome: str
    offset: int | None
    """The committed offset, if it was restored; None: no offset was committed."""


class RestoreOffsetsResponse(Struct, frozen=True):
    """One result a partition, in request order."""

    offsets: tuple[RestoreResult, ...]


class EmptyResponse(Struct, frozen=True):
    """The operator's request was carried out."""


GroupResponse = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse | CommitOffsetsResponse
AdminResponse = (
    DeleteOffsetsResponse | ExpireOffsetsResponse | ResetOffsetsResponse | RestoreOffsetsResponse | EmptyResponse
)
Answer = GroupResponse | AdminResponse
"""The response to any successful request."""


class Reply(Struct, frozen=True):
    """An answer or an error, addressed to the request with this `token`; an error in a join has a member id (or "")."""

    token: Token
    answer: Answer | CoordinatorError
    member_id: str = ""
