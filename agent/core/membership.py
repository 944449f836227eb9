"""Membership state of an agent (member id, generation, phase), and the table of reactions to errors.

This module does no I/O and takes no locks: the agent's threads call it under the lock of `shared_state`.

    UNJOINED --begin_join--> PREPARING_REBALANCE --joined--> COMPLETING_REBALANCE --synced--> STABLE
        ^                             ^                               |                         |
        |                             +---------- begin_join ---------+-------------------------+
        +--- reset (from any state): the member id or the generation is no longer valid

Source: Kafka's client, AbstractCoordinator and ConsumerCoordinator (classic protocol).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from agent import errors
from agent.errors import AgentError

NO_GENERATION: Final = -1


class MemberState(Enum):
    """The member's phase in the current rebalance."""

    UNJOINED = auto()
    PREPARING_REBALANCE = auto()
    COMPLETING_REBALANCE = auto()
    STABLE = auto()


class RequestType(Enum):
    """The requests whose errors affect the membership."""

    JOIN = auto()
    SYNC = auto()
    HEARTBEAT = auto()
    COMMIT = auto()


class Reaction(Enum):
    """What the sender of a failed request does next; the membership has been updated already."""

    RETRY = auto()
    """Repeat the request after a pause. `node_selector` chooses the node."""
    RETRY_AT_ONCE = auto()
    """Repeat the request now: it carries a new member id, or the coordinator only ended a long poll."""
    REJOIN = auto()
    """Rejoin with the same id; offsets of the present assignment can still be committed."""
    RESET_GENERATION = auto()
    """Rejoin with the same id; the generation and the owned partitions are lost."""
    RESET_MEMBER = auto()
    """Join as a new member; id, generation and the owned partitions are lost."""
    IGNORE = auto()
    """Ignore the error: it concerns an identity or a phase that has been replaced since."""
    FATAL = auto()
    """Raise the error to the caller."""


_COMMON_REACTIONS: Final[Mapping[type[AgentError], Reaction]] = {
    errors.CoordinatorNotAvailable: Reaction.RETRY,
    errors.NotCoordinator: Reaction.RETRY,
    # Kafka's client treats this as fatal in a sync, where its brokers never send it. A retry is always safe.
    errors.CoordinatorLoadInProgress: Reaction.RETRY,
    errors.FencedInstanceId: Reaction.FATAL,
    errors.UnknownMemberId: Reaction.RESET_MEMBER,
    errors.IllegalGeneration: Reaction.RESET_GENERATION,
}

ON_ERROR: Final[Mapping[RequestType, Mapping[type[AgentError], Reaction]]] = {
    RequestType.JOIN: {
        **_COMMON_REACTIONS,
        errors.MemberIdRequired: Reaction.RETRY_AT_ONCE,
        # The join is still parked at the coordinator; only this long poll has ended.
        errors.RebalanceInProgress: Reaction.RETRY_AT_ONCE,
    },
    RequestType.SYNC: {**_COMMON_REACTIONS, errors.RebalanceInProgress: Reaction.REJOIN},
    RequestType.HEARTBEAT: {**_COMMON_REACTIONS, errors.RebalanceInProgress: Reaction.REJOIN},
    RequestType.COMMIT: {
        **_COMMON_REACTIONS,
        errors.RebalanceInProgress: Reaction.REJOIN,
        # The group was deleted, so it had no members left.
        errors.GroupIdNotFound: Reaction.RESET_MEMBER,
    },
}


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """The member id and generation that the coordinator assigned; "" and -1 if none."""

    member_id: str = ""
    generation: int = NO_GENERATION

    @property
    def has_generation(self) -> bool:
        """Whether this member is part of a generation, so that it can own partitions."""
        return self.generation != NO_GENERATION and bool(self.member_id)


class Membership:
    """The current identity and phase, and whether a join is needed; every access is under the agent's lock."""

    def __init__(self) -> None:
        self.identity = MemberIdentity()
        self.state = MemberState.UNJOINED
        self.rejoin_reason: str | None = None

    @property
    def is_heartbeating(self) -> bool:
        """Whether heartbeats are due: from the join response until the next join begins."""
        return self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    def request_rejoin(self, reason: str) -> None:
        """Make the next poll() rejoin; the first reason is kept."""
        self.rejoin_reason = self.rejoin_reason or reason

    def begin_join(self) -> str:
        """Enter PREPARING_REBALANCE and return the reason for the join."""
        reason = self.rejoin_reason or "joining"
        self.state = MemberState.PREPARING_REBALANCE
        self.rejoin_reason = None
        return reason

    def joined(self, identity: MemberIdentity) -> None:
        """Enter COMPLETING_REBALANCE with the identity of a join response; heartbeats are due from here on."""
        assert self.state is MemberState.PREPARING_REBALANCE
        self.identity = identity
        self.state = MemberState.COMPLETING_REBALANCE

    def synced(self) -> None:
        """Enter STABLE: the assignment is known."""
        assert self.state is MemberState.COMPLETING_REBALANCE
        self.state = MemberState.STABLE

    def reset(self, reason: str, *, keeps_member_id: bool = False) -> None:
        """Discard the generation, and the member id unless it is kept, and request a rejoin."""
        self.identity = replace(self.identity, generation=NO_GENERATION) if keeps_member_id else MemberIdentity()
        self.state = MemberState.UNJOINED
        self.request_rejoin(reason)

    def leave(self) -> None:
        """Discard the identity without requesting a rejoin."""
        self.identity = MemberIdentity()
        self.state = MemberState.UNJOINED
        self.rejoin_reason = None

    def handle_error(self, call: RequestType, error: AgentError, sent_as: MemberIdentity) -> Reaction:
        """Update the membership after a failed request, and return what the sender does next.

        Args:
            call: the request.
            error: its error.
            sent_as: the identity when the request was sent; errors about an older one are ignored.
        """
        reaction = self._reaction(call, error, sent_as)
        reason = f"{call.name.lower()}: {error.code}"
        match reaction:
            case Reaction.RESET_MEMBER:
                self.reset(reason)
            case Reaction.RESET_GENERATION:
                self.reset(reason, keeps_member_id=True)
            case Reaction.REJOIN:
                self.request_rejoin("the group is rebalancing")
            case Reaction.FATAL if isinstance(error, errors.FencedInstanceId):
                self.leave()
            case Reaction.FATAL if call is not RequestType.COMMIT:
                self.reset(reason, keeps_member_id=True)  # The member may still be in the group.
        if call is RequestType.JOIN and error.problem.member_id and self.state is MemberState.PREPARING_REBALANCE:
            self.identity = replace(self.identity, member_id=error.problem.member_id)
        return reaction

    def _reaction(self, call: RequestType, error: AgentError, sent_as: MemberIdentity) -> Reaction:
        listed = ON_ERROR[call].get(type(error), _by_class(error))
        if listed is Reaction.REJOIN and error.action == "retry":
            return Reaction.RETRY_AT_ONCE
        if listed is Reaction.FATAL and call is RequestType.HEARTBEAT and not error.code:
            return Reaction.RETRY  # An error without a code comes from a proxy, not from a node.
        if listed in (Reaction.RETRY, Reaction.RETRY_AT_ONCE) or call is RequestType.JOIN:
            return listed
        if self.identity != sent_as:
            return Reaction.IGNORE
        if listed is Reaction.REJOIN and call is RequestType.HEARTBEAT and self.state is not MemberState.STABLE:
            return Reaction.IGNORE
        if listed is Reaction.RESET_GENERATION and self.state is MemberState.PREPARING_REBALANCE:
            return Reaction.IGNORE  # The join was processed before this request and began the next generation.
        return listed


def _by_class(error: AgentError) -> Reaction:
    if isinstance(error, errors.RetryError):
        return Reaction.RETRY
    if isinstance(error, errors.RejoinError):
        return Reaction.RESET_MEMBER
    return Reaction.FATAL
