"""Between two rounds stands the caller: what is given back before a join and what is new after a sync is told here.

All of this runs in the caller's thread, inside poll(). Eager assignors give everything back before they rejoin;
cooperative ones keep what they own, and give back only what the new assignment takes away, with a second rejoin.
Callbacks happen once a completed rebalance, however many joins it took. They may call the agent, and even close it:
what one of them is being told of is told to no other, and no rebalance goes on before it returns.

Source: Kafka's client, ConsumerCoordinator.onJoinPrepare and onJoinComplete.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.assignors import Assignor
from agent.errors import FencedInstanceId
from agent.group_api import JoinRequest
from agent.membership import NO_GENERATION, Phase
from agent.partitions import TopicPartition
from agent.positions import Positions
from agent.round import Rebalanced, Round
from agent.session import Session
from agent.topic_counts import TopicCounts

log = logging.getLogger("muster.agent")

Partitions = tuple[TopicPartition, ...]
OnPartitions = Callable[[Partitions], object]


def nothing(*_: Partitions) -> None:
    """Do nothing: the callback of a caller who gave none."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What the caller wants to be told, each with the partitions it is about, sorted; and what the agent does first."""

    on_revoked: OnPartitions = nothing
    on_assigned: OnPartitions = nothing
    on_lost: OnPartitions = nothing
    before_revoking: Callable[[], None] = nothing


@dataclass(slots=True)
class Subscription:
    """What the member asks for."""

    client_id: str
    assignors: tuple[Assignor, ...]
    topics: tuple[str, ...] = ()

    @property
    def is_cooperative(self) -> bool:
        """Tell whether partitions are kept while rejoining: only if every offered assignor can cope with it."""
        return all(assignor.is_cooperative for assignor in self.assignors)


class Rebalancer:
    """Drives the rounds of one agent and runs its callbacks; for the caller's thread only."""

    def __init__(
        self,
        session: Session,
        subscription: Subscription,
        positions: Positions,
        callbacks: Callbacks,
        counts: TopicCounts,
    ) -> None:
        self.leads_by: Mapping[str, int] | None = None
        self._session = session
        self._subscription = subscription
        self._positions = positions
        self._callbacks = callbacks
        self._counts = counts
        self._round: Round | None = None
        self._failed_rounds = 0
        self._next_round_at_ms = 0
        self._is_prepared = False
        self._is_calling_back = False
        self._going: Partitions = ()
        self._last_assignment: Partitions = ()
        self._last_generation = NO_GENERATION

    def drive(self) -> None:
        """Do all that can be done without waiting, callbacks included; from within one of them, nothing.

        Raises:
            AgentError: what ended the membership.
            Exception: whatever a callback, partitions_of or an assignor raised.
        """
        while not self._is_calling_back:
            self._raise_fatal()
            if self._has_lost_all():
                self._lose(self._positions.owned())
            elif self._round is not None and self._round.is_done:
                self._finish(self._round)
            elif self._round is None and self._may_begin():
                self._give_back_before_joining()
                if self._may_begin():
                    self._begin()
            else:
                return

    def want_join(self, reason: str) -> None:
        """Make the next `drive` rejoin, if this is a member at all."""
        with self._session.changed:
            if self._session.membership.phase is not Phase.UNJOINED:
                self._session.membership.want_join(reason)

    def has_work(self) -> bool:
        """Tell whether `drive` would do something now; under the lock."""
        if self._is_calling_back:
            return False
        if self._session.fatal is not None or self._has_lost_all():
            return True
        return self._round.is_done if self._round is not None else self._may_begin()

    def wakes_at_ms(self) -> int | None:
        """Return when `drive` has to be called even if nothing changes; None: not by the clock."""
        is_waiting = self._round is None and self._wants_join() and not self._is_calling_back
        return self._next_round_at_ms if is_waiting else None

    def hand_back(self) -> None:
        """Tell the caller that nothing is owned any more, since the member is about to leave.

        A callback that leaves is not told again of what it is being told of. What was kept through a rejoin that is not
        over counts as lost: nothing can be committed then.
        """
        owned = tuple(each for each in self._positions.owned() if each not in self._going)
        if owned and self._session.membership.phase is Phase.STABLE:
            self._revoke(owned)
        elif owned:
            self._lose(owned)

    def abandon(self) -> None:
        """End the round under way, and forget everything about it."""
        if self._round is not None:
            self._round.cancel()
        self._round = None
        self._is_prepared = False
        self.leads_by = None

    def _wants_join(self) -> bool:
        membership = self._session.membership
        wants = membership.phase is Phase.UNJOINED or membership.rejoin_reason is not None
        return wants and bool(self._subscription.topics) and not self._session.is_closed

    def _may_begin(self) -> bool:
        return self._wants_join() and self._session.clock.now_ms() >= self._next_round_at_ms

    def _has_lost_all(self) -> bool:
        """Tell whether there are partitions of a generation that this member is no longer part of."""
        return not self._session.membership.identity.has_generation and bool(self._positions.owned())

    def _raise_fatal(self) -> None:
        fatal = self._session.fatal
        if fatal is None:
            return
        if not isinstance(fatal, FencedInstanceId):
            self._session.fatal = None
        self.abandon()
        owned = self._positions.owned()
        try:
            if owned:
                self._lose(owned)
        finally:
            raise fatal

    def _give_back_before_joining(self) -> None:
        identity = self._session.membership.identity
        if not identity.has_generation or self._is_prepared:
            return
        self._callbacks.before_revoking()
        if self._session.membership.identity != identity:
            return
        self._is_prepared = True
        owned = self._positions.owned()
        unwanted = tuple(each for each in owned if each.topic not in self._subscription.topics)
        if not self._subscription.is_cooperative:
            self._revoke(owned)
        elif unwanted:
            self._revoke(unwanted)

    def _begin(self) -> None:
        session = self._session
        with session.changed:
            owned = self._positions.owned()
            if owned and not session.membership.identity.has_generation:
                return
            request = JoinRequest(
                client_id=self._subscription.client_id,
                session_timeout_ms=session.timing.session_timeout_ms,
                rebalance_timeout_ms=session.timing.max_poll_interval_ms,
                topics=self._subscription.topics,
                owned_partitions=owned,
                last_assignment=self._last_assignment,
                last_generation=self._last_generation,
                assignors=self._subscription.assignors,
                reason=session.membership.begin_join(),
            )
            beginning = Round(session, request, self._counts)
        log.debug("%s: joining (%s)", request.client_id, request.reason)
        try:
            beginning.start()
        except RuntimeError:
            self.want_join(request.reason)
            raise
        self._round = beginning

    def _finish(self, done: Round) -> None:
        self._round = None
        if done.error is not None:
            self._stand_back(str(done.error))
            raise done.error
        if done.result is None:
            self._stand_back("the join came to nothing")
        elif self._session.membership.identity == done.result.identity:
            self._failed_rounds = 0
            if done.topics != self._subscription.topics:
                self.want_join("the subscription has changed")
            self._take(done.result)

    def _stand_back(self, reason: str) -> None:
        """Begin anew after a pause, under the same id; a generation that was won in the round is not used."""
        session = self._session
        self._failed_rounds += 1
        self._next_round_at_ms = session.clock.now_ms() + session.backoff.delay_ms(self._failed_rounds)
        with session.changed:
            if session.membership.phase is not Phase.UNJOINED:
                session.membership.reset(reason, keeps_member_id=True)

    def _take(self, result: Rebalanced) -> None:
        """Own what the round has brought, and call the callbacks and the assignor's hook."""
        owned = set(self._positions.owned())
        gone = tuple(sorted(owned - set(result.partitions)))
        added = tuple(sorted(set(result.partitions) - owned))
        self._is_prepared = False
        self.leads_by = result.counts
        self._last_assignment = result.partitions
        self._last_generation = result.identity.generation
        log.info(
            "%s: generation %d, %d partitions", self._subscription.client_id, result.identity.generation,
            len(result.partitions),
        )  # fmt: skip
        try:
            if gone:
                self.want_join("gave up partitions that go to another member")
                self._revoke_after_joining(gone)
        finally:
            self._add(added, result)

    def _add(self, added: Partitions, result: Rebalanced) -> None:
        """Own new partitions, unless a callback has left the group."""
        hook = result.assignor.on_assignment
        try:
            if self._is_still(result):
                self._call_back(lambda partitions: hook(partitions, result.identity.generation), result.partitions)
        finally:
            if self._is_still(result):
                self._positions.add(added, result.committed, result.log_starts)
                self._call_back(self._callbacks.on_assigned, added)

    def _is_still(self, result: Rebalanced) -> bool:
        return self._session.membership.identity == result.identity

    def _revoke_after_joining(self, gone: Partitions) -> None:
        """Give up what was read from while the round went on, so that how far it is has not been stored yet."""
        try:
            self._callbacks.before_revoking()
        finally:
            self._revoke(gone)

    def _revoke(self, partitions: Partitions) -> None:
        self._take_away(self._callbacks.on_revoked, partitions)

    def _lose(self, partitions: Partitions) -> None:
        log.info("%s: lost %d partitions", self._subscription.client_id, len(partitions))
        self._take_away(self._callbacks.on_lost, partitions)

    def _take_away(self, callback: OnPartitions, partitions: Partitions) -> None:
        going_before, self._going = self._going, (*self._going, *partitions)
        try:
            self._call_back(callback, partitions)
        finally:
            self._going = going_before
            self._positions.remove(partitions)

    def _call_back(self, callback: OnPartitions, partitions: Partitions) -> None:
        was_calling_back, self._is_calling_back = self._is_calling_back, True
        try:
            callback(partitions)
        finally:
            self._is_calling_back = was_calling_back
