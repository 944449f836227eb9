"""Rebalances in the caller's task: starts rounds, applies their results and runs the rebalance callbacks.

All of this runs inside poll(). With an eager assignor all partitions are revoked before the rejoin; with a cooperative
one only those that the new assignment moves are revoked after it, and a second rejoin follows. Callbacks run once per
completed rebalance, however many joins it took. They may call the agent, and even close it: a partition is passed to
one callback at a time, and no rebalance continues before the callback returns.

Source: Kafka's client, ConsumerCoordinator.onJoinPrepare and onJoinComplete.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agent.assignors import Assignor
from agent.core.group_api import JoinRequest
from agent.core.membership import NO_GENERATION, MemberState
from agent.core.partition_counts import PartitionCounts
from agent.core.positions import Positions
from agent.core.rebalance_round import RebalanceRound, RoundResult
from agent.core.shared_state import SharedState
from agent.errors import FencedInstanceId
from agent.partitions import TopicPartition

log = logging.getLogger("muster.agent")

Partitions = tuple[TopicPartition, ...]
AsyncCallback = Callable[[Partitions], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The caller's callbacks, called with sorted partitions; the last two are the agent's own, and commit."""

    on_revoked: AsyncCallback
    on_assigned: AsyncCallback
    on_lost: AsyncCallback
    before_revoking: Callable[[], Awaitable[None]]
    before_joining: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Subscription:
    """The client id, assignors and topics of the member."""

    client_id: str
    assignors: tuple[Assignor, ...]
    topics: tuple[str, ...] = ()

    @property
    def is_cooperative(self) -> bool:
        """Whether partitions are kept while rejoining: only if every offered assignor is cooperative."""
        return all(assignor.is_cooperative for assignor in self.assignors)


class Rebalancer:
    """Runs the rebalances of one agent; for the caller's task only."""

    def __init__(
        self,
        shared: SharedState,
        subscription: Subscription,
        positions: Positions,
        callbacks: Callbacks,
        counts: PartitionCounts,
    ) -> None:
        self.leader_partition_counts: Mapping[str, int] | None = None
        self._shared = shared
        self._subscription = subscription
        self._positions = positions
        self._callbacks = callbacks
        self._counts = counts
        self._round: RebalanceRound | None = None
        self._failed_rounds = 0
        self._next_round_at_ms = 0
        self._is_prepared = False
        self._is_calling_back = False
        self._being_revoked: Partitions = ()
        self._last_assignment: Partitions = ()
        self._last_generation = NO_GENERATION

    async def run_due(self) -> None:
        """Do all work that needs no waiting, callbacks included; does nothing if called from a callback.

        Raises:
            AgentError: the error that ended the membership.
            Exception: an error raised by a callback, partitions_of or an assignor.
        """
        while not self._is_calling_back:
            await self._raise_fatal()
            if self._has_lost_all():
                await self._lose(self._positions.owned())
            elif self._round is not None and self._round.is_done:
                await self._finish(self._round)
            elif self._round is None and self._can_start_round():
                await self._prepare_join()
                if self._can_start_round():
                    self._start_round()
            else:
                return

    def request_rejoin(self, reason: str) -> None:
        """Make the next `run_due` rejoin; does nothing if this agent is not a member."""
        with self._shared.changed:
            if self._shared.membership.state is not MemberState.UNJOINED:
                self._shared.membership.request_rejoin(reason)

    def has_work(self) -> bool:
        """Return whether `run_due` has work; under the lock."""
        if self._is_calling_back:
            return False
        if self._shared.fatal is not None or self._has_lost_all():
            return True
        return self._round.is_done if self._round is not None else self._can_start_round()

    def next_wakeup_ms(self) -> int | None:
        """Return when `run_due` has to be called even if nothing changes; None: at no fixed time."""
        is_waiting = self._round is None and self._wants_join() and not self._is_calling_back
        return self._next_round_at_ms if is_waiting else None

    async def revoke_all(self) -> None:
        """Run the callbacks for all owned partitions, since the member is about to leave.

        Partitions that a callback is being called with already are skipped. Partitions kept during an unfinished rejoin
        are passed to `on_lost`, since nothing can be committed then.
        """
        being_revoked = set(self._being_revoked)
        owned = tuple(each for each in self._positions.owned() if each not in being_revoked)
        if owned and self._shared.membership.state is MemberState.STABLE:
            await self._revoke(owned)
        elif owned:
            await self._lose(owned)

    async def cancel_round(self) -> None:
        """Cancel the current round and discard its result."""
        if self._round is not None:
            await self._round.cancel()
        self._round = None
        self._is_prepared = False
        self.leader_partition_counts = None

    def _wants_join(self) -> bool:
        membership = self._shared.membership
        wants = membership.state is MemberState.UNJOINED or membership.rejoin_reason is not None
        return wants and bool(self._subscription.topics) and not self._shared.is_closed

    def _can_start_round(self) -> bool:
        return self._wants_join() and self._shared.now_ms() >= self._next_round_at_ms

    def _has_lost_all(self) -> bool:
        """Return whether partitions are owned from a generation that this member is no longer part of."""
        return not self._shared.membership.identity.has_generation and bool(self._positions.owned())

    async def _raise_fatal(self) -> None:
        fatal = self._shared.fatal
        if fatal is None:
            return
        if not isinstance(fatal, FencedInstanceId):
            self._shared.fatal = None
        await self.cancel_round()
        owned = self._positions.owned()
        try:
            if owned:
                await self._lose(owned)
        except Exception as problem:  # the caller's; an interrupt or a cancellation is raised instead
            raise fatal.with_traceback(None) from problem
        raise fatal.with_traceback(None)  # It is raised again and again, and would gather the frames of all calls.

    async def _prepare_join(self) -> None:
        identity = self._shared.membership.identity
        if not identity.has_generation or self._is_prepared:
            return
        failed: Exception | None = None
        try:
            await self._callbacks.before_revoking()
        except Exception as problem:  # noqa: BLE001  # the caller's end_offset_of, for which the group must not wait
            failed = problem
        if self._shared.membership.identity == identity:
            await self._revoke_before_join()
        if failed is not None:
            raise failed

    async def _revoke_before_join(self) -> None:
        self._is_prepared = True
        owned = self._positions.owned()
        unwanted = tuple(each for each in owned if each.topic not in self._subscription.topics)
        try:
            if not self._subscription.is_cooperative:
                await self._revoke(owned)
            elif unwanted:
                await self._revoke(unwanted)
        finally:
            await self._callbacks.before_joining()

    def _start_round(self) -> None:
        shared = self._shared
        with shared.changed:
            owned = self._positions.owned()
            if owned and not shared.membership.identity.has_generation:
                return
            request = JoinRequest(
                client_id=self._subscription.client_id,
                session_timeout_ms=shared.timing.session_timeout_ms,
                rebalance_timeout_ms=shared.timing.max_poll_interval_ms,
                topics=self._subscription.topics,
                owned_partitions=owned,
                last_assignment=self._last_assignment,
                last_generation=self._last_generation,
                assignors=self._subscription.assignors,
                reason=shared.membership.begin_join(),
            )
            new_round = RebalanceRound(shared, request, self._counts)
        log.debug("%s: joining (%s)", request.client_id, request.reason)
        try:
            new_round.start()
        except RuntimeError:
            self.request_rejoin(request.reason)
            raise
        self._round = new_round

    async def _finish(self, done: RebalanceRound) -> None:
        self._round = None
        if done.error is not None:
            self._back_off(f"the rebalance failed: {type(done.error).__name__}")  # Its text may hold secrets.
            raise done.error
        if done.result is None:
            self._back_off("the rebalance round ended without a result")
        elif self._shared.membership.identity == done.result.identity:
            self._failed_rounds = 0
            if done.topics != self._subscription.topics:
                self.request_rejoin("the subscription has changed")
            await self._apply_assignment(done.result)

    def _back_off(self, reason: str) -> None:
        """Start a new round after a pause, under the same id; a generation from the failed round is not used."""
        shared = self._shared
        self._failed_rounds += 1
        self._next_round_at_ms = shared.now_ms() + shared.backoff.delay_ms(self._failed_rounds)
        with shared.changed:
            if shared.membership.state is not MemberState.UNJOINED:
                shared.membership.reset(reason, keeps_member_id=True)

    async def _apply_assignment(self, result: RoundResult) -> None:
        """Apply the round's assignment: run the callbacks and the assignor's `on_assignment`."""
        owned = set(self._positions.owned())
        revoked = tuple(sorted(owned - set(result.partitions)))
        added = tuple(sorted(set(result.partitions) - owned))
        self._is_prepared = False
        self.leader_partition_counts = result.counts
        self._last_assignment = result.partitions
        self._last_generation = result.identity.generation
        log.info(
            "%s: generation %d, %d partitions", self._subscription.client_id, result.identity.generation,
            len(result.partitions),
        )  # fmt: skip
        try:
            if revoked:
                self.request_rejoin("gave up partitions that go to another member")
                await self._revoke_after_join(revoked)
        finally:
            await self._add(added, result)

    async def _add(self, added: Partitions, result: RoundResult) -> None:
        """Add new partitions, unless a callback has left the group."""
        hook = self._shared.runtime.as_coroutine(result.assignor.on_assignment)
        try:
            if self._is_current(result):
                await self._call_back(
                    lambda partitions: hook(partitions, result.identity.generation), result.partitions
                )
        finally:
            if self._is_current(result):
                self._positions.add(added, result.committed, result.log_starts)
                await self._call_back(self._callbacks.on_assigned, added)

    def _is_current(self, result: RoundResult) -> bool:
        return self._shared.membership.identity == result.identity

    async def _revoke_after_join(self, revoked: Partitions) -> None:
        """Revoke partitions that were consumed during the round; their positions are committed first."""
        try:
            await self._callbacks.before_revoking()
        finally:
            await self._revoke(revoked)

    async def _revoke(self, partitions: Partitions) -> None:
        await self._revoke_with(self._callbacks.on_revoked, partitions)

    async def _lose(self, partitions: Partitions) -> None:
        log.info("%s: lost %d partitions", self._subscription.client_id, len(partitions))
        await self._revoke_with(self._callbacks.on_lost, partitions)

    async def _revoke_with(self, callback: AsyncCallback, partitions: Partitions) -> None:
        revoked_before, self._being_revoked = self._being_revoked, (*self._being_revoked, *partitions)
        try:
            await self._call_back(callback, partitions)
        finally:
            self._being_revoked = revoked_before
            self._positions.remove(partitions)

    async def _call_back(self, callback: AsyncCallback, partitions: Partitions) -> None:
        was_calling_back, self._is_calling_back = self._is_calling_back, True
        try:
            await callback(partitions)
        finally:
            self._is_calling_back = was_calling_back
