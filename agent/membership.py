"""An agent's place in its group is an id, a generation and a phase, and one table says what each error does to it.

Nothing here waits, sends or locks: the threads of an agent ask, under its lock, what to do next.

    UNJOINED --begin_join--> JOINING --joined--> SYNCING --synced--> STABLE
        ^                       ^                   |                  |
        |                       +---- begin_join ---+------------------+
        +--- reset: the id, or the generation, is no longer good (from any phase)

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


class Phase(Enum):
    """How far the member is in its present round."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


class Call(Enum):
    """The calls whose errors bear on the membership."""

    JOIN = auto()
    SYNC = auto()
    HEARTBEAT = auto()
    COMMIT = auto()


class Reaction(Enum):
    """What the caller of a failed call does next; the membership has been changed already."""

    RETRY = auto()
    """Make the same call again after a pause. Where to is the business of `coordinators`."""
    RETRY_AT_ONCE = auto()
    """Make the same call again now: it carries a new id, or the coordinator only ended a long poll."""
    REJOIN = auto()
    """Join again with the same id; the assignment held so far is still good to commit under."""
    RESET_GENERATION = auto()
    """Join again with the same id; the generation is lost, and with it whatever was owned."""
    RESET_MEMBER = auto()
    """Join again as a stranger; id, generation and whatever was owned are lost."""
    IGNORE = auto()
    """The answer speaks of a past that is over."""
    FATAL = auto()
    """Tell the person."""


_WHEREVER_IT_IS: Final[Mapping[type[AgentError], Reaction]] = {
    errors.CoordinatorNotAvailable: Reaction.RETRY,
    errors.NotCoordinator: Reaction.RETRY,
    # Kafka's client dies of this one in a sync, which its brokers never say there. Asking again is always safe.
    errors.CoordinatorLoadInProgress: Reaction.RETRY,
    errors.FencedInstanceId: Reaction.FATAL,
    errors.UnknownMemberId: Reaction.RESET_MEMBER,
    errors.IllegalGeneration: Reaction.RESET_GENERATION,
}

ON_ERROR: Final[Mapping[Call, Mapping[type[AgentError], Reaction]]] = {
    Call.JOIN: {
        **_WHEREVER_IT_IS,
        errors.MemberIdRequired: Reaction.RETRY_AT_ONCE,
        # The join is parked at the coordinator, and only this wait for its answer is over.
        errors.RebalanceInProgress: Reaction.RETRY_AT_ONCE,
    },
    Call.SYNC: {**_WHEREVER_IT_IS, errors.RebalanceInProgress: Reaction.REJOIN},
    Call.HEARTBEAT: {**_WHEREVER_IT_IS, errors.RebalanceInProgress: Reaction.REJOIN},
    Call.COMMIT: {
        **_WHEREVER_IT_IS,
        errors.RebalanceInProgress: Reaction.REJOIN,
        # The group was deleted, which only happens to a group that has no member left.
        errors.GroupIdNotFound: Reaction.RESET_MEMBER,
    },
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the coordinator takes this agent for: empty and -1 as long as nobody."""

    member_id: str = ""
    generation: int = NO_GENERATION

    @property
    def has_generation(self) -> bool:
        """Tell whether this member is part of a generation, so that it may own partitions."""
        return self.generation != NO_GENERATION and bool(self.member_id)


class Membership:
    """The present identity and phase, and whether a join is wanted; every access is under the agent's lock."""

    def __init__(self) -> None:
        self.identity = Identity()
        self.phase = Phase.UNJOINED
        self.rejoin_reason: str | None = None

    @property
    def is_heartbeating(self) -> bool:
        """Tell whether heartbeats are due: from the join answer on, until the next join begins."""
        return self.phase in (Phase.SYNCING, Phase.STABLE)

    def want_join(self, reason: str) -> None:
        """Note that the next poll() has to join; the first reason is kept."""
        self.rejoin_reason = self.rejoin_reason or reason

    def begin_join(self) -> str:
        """Enter the join phase and return why."""
        reason = self.rejoin_reason or "joining"
        self.phase = Phase.JOINING
        self.rejoin_reason = None
        return reason

    def joined(self, identity: Identity) -> None:
        """Take the id and generation of a join's answer; heartbeats are due from here on."""
        assert self.phase is Phase.JOINING
        self.identity = identity
        self.phase = Phase.SYNCING

    def synced(self) -> None:
        """Take part in the generation: its assignment is known."""
        assert self.phase is Phase.SYNCING
        self.phase = Phase.STABLE

    def reset(self, reason: str, *, keeps_member_id: bool = False) -> None:
        """Give up the generation, and the id unless it is kept, and want a join."""
        self.identity = replace(self.identity, generation=NO_GENERATION) if keeps_member_id else Identity()
        self.phase = Phase.UNJOINED
        self.want_join(reason)

    def leave(self) -> None:
        """Be nobody, and want nothing."""
        self.identity = Identity()
        self.phase = Phase.UNJOINED
        self.rejoin_reason = None

    def react(self, call: Call, error: AgentError, sent_as: Identity) -> Reaction:
        """Change what the error of a call changes, and return what its caller does next.

        Args:
            call: what was asked.
            error: what came back.
            sent_as: the identity when the request was sent; errors about an older one are ignored.
        """
        reaction = self._reaction(call, error, sent_as)
        match reaction:
            case Reaction.RESET_MEMBER | Reaction.RESET_GENERATION:
                self.reset(f"{call.name.lower()}: {error.code}", keeps_member_id=reaction is Reaction.RESET_GENERATION)
            case Reaction.REJOIN:
                self.want_join("the group is rebalancing")
            case Reaction.FATAL if call is not Call.COMMIT or isinstance(error, errors.FencedInstanceId):
                self.leave()
        if call is Call.JOIN and error.problem.member_id and self.phase is Phase.JOINING:
            self.identity = replace(self.identity, member_id=error.problem.member_id)
        return reaction

    def _reaction(self, call: Call, error: AgentError, sent_as: Identity) -> Reaction:
        listed = ON_ERROR[call].get(type(error), _by_class(error))
        if listed is Reaction.REJOIN and error.action == "retry":
            return Reaction.RETRY_AT_ONCE
        if listed is Reaction.FATAL and call is Call.HEARTBEAT and not error.code:
            return Reaction.RETRY  # A refusal without a code is no node's own: some proxy has made it up.
        if listed in (Reaction.RETRY, Reaction.RETRY_AT_ONCE) or call is Call.JOIN:
            return listed
        if self.identity != sent_as:
            return Reaction.IGNORE
        if listed is Reaction.REJOIN and call is Call.HEARTBEAT and self.phase is not Phase.STABLE:
            return Reaction.IGNORE
        if listed is Reaction.RESET_GENERATION and call is Call.HEARTBEAT and self.phase is Phase.JOINING:
            return Reaction.IGNORE  # The join has overtaken the heartbeat, and has opened the next generation.
        return listed


def _by_class(error: AgentError) -> Reaction:
    if isinstance(error, errors.RetryError):
        return Reaction.RETRY
    if isinstance(error, errors.RejoinError):
        return Reaction.RESET_MEMBER
    return Reaction.FATAL
