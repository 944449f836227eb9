"""The decisions of a mirror: it takes what the log of the mirrored cluster says, and refuses every other change.

`decide` takes the place of the protocol's in the runtime, so a mirror stores, loads and fails over as any node does.
"""

from dataclasses import dataclass
from typing import Final, assert_never

from coordinator_core.protocol.decision import Decision, Draft
from coordinator_core.protocol.errors import READ_ONLY_MIRROR, InvalidRequest
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import OffsetRemoved
from coordinator_core.protocol.requests import ExpireDeadline, Reevaluate, Request, Resume, StoredOffset
from coordinator_core.protocol.settings import Context, Now
from coordinator_core.protocol.states import GroupState
from mirror.inference import create_simple, end, enter, find, infer
from mirror.observed import ObservedGroup

OFFSET_CAUSE: Final = "deleted_upstream"
"""The cause of a removed offset in `archived_offsets`: it was deleted or has expired in the mirrored cluster."""


@dataclass(frozen=True, slots=True)
class GroupObserved:
    """The log has this of a group."""

    seen: ObservedGroup
    appended_ms: int
    """Wall time of the broker when it was written."""
    is_first_read: bool = False
    """Whether the log is read for the first time: a group that is not known is as old as the log says."""


@dataclass(frozen=True, slots=True)
class SimpleGroupObserved:
    """The log has commits of a group, and may have nothing else of it."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class OffsetsDeletedObserved:
    """The log says that offsets were deleted or have expired."""

    stored: tuple[StoredOffset, ...]
    """Those that are in the table."""
    change_id: str
    at_ms: int
    has_others: bool
    """Whether the group has other offsets."""


@dataclass(frozen=True, slots=True)
class GroupDeletedObserved:
    """The log says that a group was deleted or has expired."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class StatePolled:
    """A poll saw a group in a rebalance, or in none."""

    state: GroupState | None
    """PreparingRebalance or CompletingRebalance; None: neither."""
    at_ms: int
    """Wall time of this node when the answer had come."""


Observation = GroupObserved | SimpleGroupObserved | OffsetsDeletedObserved | GroupDeletedObserved | StatePolled


def decide(group: Group, request: Request | Observation, now: Now, context: Context) -> Decision:
    """Decide an observation; refuse the requests of clients and operators.

    Args:
        group: the group as known.
        request: what the log says, or a request.
        now: the current time.
        context: the settings, which have no effect here, and the topic metadata.
    """
    match request:
        case (
            GroupObserved() | SimpleGroupObserved() | OffsetsDeletedObserved() | GroupDeletedObserved() | StatePolled()
        ):
            draft = Draft(group, now, context)
            _observe(draft, request)
            return draft.decision()
        case Resume() | Reevaluate() | ExpireDeadline():
            return Decision(group)
        case _:
            return Decision.error_response(group, request.token, InvalidRequest(READ_ONLY_MIRROR))


def _observe(draft: Draft, observation: Observation) -> None:
    match observation:
        case GroupObserved(is_first_read=True) if not draft.group.exists:
            find(draft, observation.seen, observation.appended_ms)
        case GroupObserved():
            infer(draft, observation.seen, observation.appended_ms)
        case SimpleGroupObserved():
            create_simple(draft, observation.at_ms)
        case OffsetsDeletedObserved():
            for offset in observation.stored:
                draft.emit_offset(OffsetRemoved(observation.at_ms, offset, OFFSET_CAUSE, observation.change_id))
            if not observation.has_others and draft.group.exists and draft.group.protocol_type is None:
                end(draft, observation.at_ms)
        case GroupDeletedObserved():
            end(draft, observation.at_ms)
        case StatePolled():
            enter(draft, observation.state, observation.at_ms)
        case _:
            assert_never(observation)
