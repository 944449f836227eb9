"""What a group answers; a reply goes out only when everything it rests on is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.requests import OffsetToCommit, Token


class JoinedMember(NamedTuple):
    """One member as its leader sees it: with its metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """A place in a generation. `members` is empty but for the leader; the three times are those in force."""

    generation: int
    protocol_type: str
    protocol_name: str
    leader_id: str
    member_id: str
    members: tuple[JoinedMember, ...]
    skip_assignment: bool
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Synced:
    """A member's own assignment; nobody ever sees another's."""

    protocol_type: str
    protocol_name: str
    assignment: bytes


class Beaten(NamedTuple):
    """The heartbeat counted; the two times are those in force."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


class LeaverResult(NamedTuple):
    """What became of one entry of a leave; `error` None means that it is gone."""

    member_id: str
    group_instance_id: str | None
    error: CoordinatorError | None


@dataclass(frozen=True, slots=True)
class Left:
    """One result an entry, in the order asked."""

    members: tuple[LeaverResult, ...]


class PartitionResult(NamedTuple):
    """What became of one partition; `error` None means that it was done."""

    topic: str
    partition: int
    error: CoordinatorError | None


class Committed(NamedTuple):
    """What became of a commit: everything asked for is stored, but for what is refused."""

    asked: tuple[OffsetToCommit, ...]
    refused: Mapping[int, CoordinatorError]
    """Place in `asked` → why."""

    @property
    def offsets(self) -> tuple[PartitionResult, ...]:
        """Return one result a partition, in the order asked."""
        return tuple(
            PartitionResult(one.topic, one.partition, self.refused.get(place)) for place, one in enumerate(self.asked)
        )


@dataclass(frozen=True, slots=True)
class OffsetsDeleted:
    """One result a partition, in the order asked."""

    offsets: tuple[PartitionResult, ...]

    @property
    def is_refused(self) -> bool:
        """Tell whether partitions were asked for and every one was refused, so that nothing was done."""
        return bool(self.offsets) and all(error is not None for _, _, error in self.offsets)


class CandidateOutcome(NamedTuple):
    """What became of one candidate: `expired`, or why it was kept."""

    topic: str
    partition: int
    outcome: str


@dataclass(frozen=True, slots=True)
class OffsetsExpired:
    """One outcome a candidate, in the order asked."""

    outcomes: tuple[CandidateOutcome, ...]


class ResetResult(NamedTuple):
    """Where a partition stood, where it stands or would stand now, and what is to be said about that."""

    topic: str
    partition: int
    old_offset: int | None
    """None: nothing was committed."""
    new_offset: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetsReset:
    """One result a partition, in the order asked."""

    offsets: tuple[ResetResult, ...]


class RestoreResult(NamedTuple):
    """What became of one partition: `restored` or `removed`, or why it was kept as it is."""

    topic: str
    partition: int
    outcome: str
    offset: int | None
    """What stands there from now on, where this put it there."""


@dataclass(frozen=True, slots=True)
class OffsetsRestored:
    """One result a partition, in the order asked."""

    offsets: tuple[RestoreResult, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The operator's wish was carried out."""


OfMembers = Joined | Synced | Beaten | Left | Committed
OfOperators = OffsetsDeleted | OffsetsExpired | OffsetsReset | OffsetsRestored | Done
Answer = OfMembers | OfOperators


class Reply(NamedTuple):
    """What to tell whoever stands behind `token`; an error in a join also names a member id (or "")."""

    token: Token
    answer: Answer | CoordinatorError
    member_id: str = ""
