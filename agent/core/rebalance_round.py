"""One rebalance round in a task of its own: join, assign (leader only), sync, fetch committed offsets.

The separate task keeps a caller that polls slowly from delaying the other members. Callbacks run in the caller's
task, before and after the round. A round ends with a result, with an error for the caller, or with neither: then the
membership was reset or the round was cancelled, and the next poll() starts another.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from agent.assignors import Assignment, Assignor
from agent.core.group_api import JoinRequest
from agent.core.membership import MemberIdentity, MemberState, Reaction, RequestType
from agent.core.partition_counts import PartitionCounts
from agent.core.responses import JoinGroupResponse
from agent.core.shared_state import SharedState
from agent.errors import AgentError, RequestError, RetryError
from agent.partitions import OffsetAndMetadata, TopicPartition

log = logging.getLogger("muster.agent")

Value = TypeVar("Value")

LONG_POLL_ENDED_MS: Final = 1_000
"""A response that took this long ended a long poll, so the request is repeated without a pause."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round.

    Attributes:
        identity: the member and its new generation.
        partitions: all that this member owns now, sorted.
        assignor: the one that the group chose.
        committed: the committed offsets of partitions that it did not own before; None where nothing is committed.
        log_starts: the log start offsets in the topic metadata; empty if all partitions have committed offsets.
        counts: the partition counts that the leader assigned by; None for a follower.
    """

    identity: MemberIdentity
    partitions: tuple[TopicPartition, ...]
    assignor: Assignor
    committed: Mapping[TopicPartition, OffsetAndMetadata | None]
    log_starts: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] | None = None


class _RoundEnded(Exception):
    """The round is over without a result."""


class _Rejoin(Exception):
    """Another rebalance began before the round had a result; the same member joins again."""


class RebalanceRound:
    """The task of one round, from join to assignment."""

    def __init__(self, shared: SharedState, request: JoinRequest, counts: PartitionCounts) -> None:
        self.result: RoundResult | None = None
        self.error: Exception | None = None
        self.is_done = False
        self.topics = request.topics
        self._shared = shared
        self._request = request
        self._counts = counts
        self._connection = shared.new_connection()
        self._is_cancelled = False
        self._task = shared.runtime.new_task(self._run, f"{request.client_id}-round")

    def start(self) -> None:
        """Start the task; the membership is in PREPARING_REBALANCE already."""
        self._task.start()

    async def cancel(self) -> None:
        """End the round without a result, aborting its request."""
        with self._shared.changed:
            self._is_cancelled = True
            self._shared.changed.notify_all()
        self._connection.abort()
        await self._task.join()

    async def _run(self) -> None:
        try:
            self.result = await self._rebalance()
        except _RoundEnded:
            log.debug("%s: the rebalance round ended without a result", self._request.client_id)
        except Exception as problem:  # noqa: BLE001  # partitions_of and assignors are the caller's: poll() raises it
            self.error = problem
        finally:
            await self._connection.close()
            with self._shared.changed:
                self.is_done = True
                self._shared.changed.notify_all()

    async def _rebalance(self) -> RoundResult:
        while True:
            joined = await self._join()
            assignor = self._selected_assignor(joined)
            counts = await self._counts_for(joined)
            try:
                partitions = await self._sync(joined, self._assignment(joined, assignor, counts))
                committed = await self._committed(tuple(sorted(set(partitions) - set(self._request.owned_partitions))))
                starts = await self._log_starts() if None in committed.values() else {}
            except _Rejoin:
                continue
            return RoundResult(joined.identity, partitions, assignor, committed, starts, counts)

    async def _join(self) -> JoinGroupResponse:
        async def send(identity: MemberIdentity) -> JoinGroupResponse:
            return await self._shared.api.join(
                self._connection, identity, self._request, max_wait_ms=self._shared.timing.long_poll_ms
            )

        joined = await self._send_with_reactions(RequestType.JOIN, MemberState.PREPARING_REBALANCE, send)
        with self._shared.changed:
            self._check(MemberState.PREPARING_REBALANCE)
            self._shared.membership.joined(joined.identity)
            self._shared.apply_timeouts(joined.timeouts)
            self._shared.changed.notify_all()
        return joined

    async def _sync(self, joined: JoinGroupResponse, assignment: Assignment) -> tuple[TopicPartition, ...]:
        async def send(_: MemberIdentity) -> tuple[TopicPartition, ...]:
            return await self._shared.api.sync(
                self._connection, joined, assignment, max_wait_ms=self._shared.timing.long_poll_ms
            )

        partitions = await self._send_with_reactions(RequestType.SYNC, MemberState.COMPLETING_REBALANCE, send)
        with self._shared.changed:
            self._check(MemberState.COMPLETING_REBALANCE)
            self._shared.membership.synced()
        return partitions

    async def _send_with_reactions(
        self, call: RequestType, state: MemberState, send: Callable[[MemberIdentity], Awaitable[Value]]
    ) -> Value:
        failures = 0
        while True:
            with self._shared.changed:
                self._check(state)
                sent_as = self._shared.membership.identity
            sent_at_ms = self._shared.now_ms()
            try:
                return await send(sent_as)
            except AgentError as error:
                took_ms = self._shared.now_ms() - sent_at_ms
                failures = await self._handle_error(call, error, sent_as, failures=failures, took_ms=took_ms)

    async def _handle_error(
        self, call: RequestType, error: AgentError, sent_as: MemberIdentity, *, failures: int, took_ms: int
    ) -> int:
        """Do what the error asks for; return the failures in a row if the same call is to be made again."""
        with self._shared.changed:
            self._check()
        reaction = self._shared.handle_error(call, error, sent_as)
        log.debug("%s: %s failed (%s): %s", self._request.client_id, call.name, reaction.name, error)
        match reaction:
            case Reaction.FATAL:
                raise error
            case Reaction.REJOIN:
                raise self._rejoin(MemberState.COMPLETING_REBALANCE)
            case Reaction.RETRY_AT_ONCE if failures == 0 or took_ms >= LONG_POLL_ENDED_MS:
                return 1
            case Reaction.RETRY | Reaction.RETRY_AT_ONCE:
                await self._shared.pause(failures + 1, error, None, lambda: self._is_cancelled)
                return failures + 1
            case Reaction.RESET_MEMBER | Reaction.RESET_GENERATION | Reaction.IGNORE:
                raise _RoundEnded

    def _check(self, state: MemberState | None = None) -> None:
        """Raise _RoundEnded if the round was cancelled, or the membership is no longer in this state."""
        if self._is_cancelled or (state is not None and self._shared.membership.state is not state):
            raise _RoundEnded

    async def _counts_for(self, joined: JoinGroupResponse) -> Mapping[str, int] | None:
        if not joined.is_leader:
            return None
        topics = {topic for member in joined.members for topic in member.topics}
        return await self._send_until_round_ends(lambda: self._counts.of(self._connection, topics))

    def _selected_assignor(self, joined: JoinGroupResponse) -> Assignor:
        assignor = next((each for each in self._request.assignors if each.name == joined.protocol_name), None)
        if assignor is None:
            raise RequestError(f"the group chose the assignor {joined.protocol_name!r}, which was not offered")
        return assignor

    def _assignment(
        self, joined: JoinGroupResponse, assignor: Assignor, counts: Mapping[str, int] | None
    ) -> Assignment:
        if counts is None or joined.skip_assignment:
            return {}
        return assignor.assign({topic: count for topic, count in counts.items() if count}, joined.members)

    async def _committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        try:
            return await self._shared.committed(self._connection, partitions, None, self._should_stop)
        except RetryError:
            raise self._rejoin(MemberState.STABLE) from None

    async def _log_starts(self) -> dict[str, int]:
        return await self._send_until_round_ends(lambda: self._counts.log_starts(self._connection))

    async def _send_until_round_ends(self, send: Callable[[], Awaitable[Value]]) -> Value:
        """Repeat a request that does not affect the membership until it succeeds, or this round or generation ends."""
        try:
            return await self._shared.send_with_retries(send, None, self._should_stop)
        except RetryError:
            raise self._rejoin(MemberState.STABLE) from None

    def _should_stop(self) -> bool:
        """Return whether a request that fails is not repeated: other members would wait for this one to rejoin."""
        membership = self._shared.membership
        is_waited_for = membership.state is MemberState.STABLE and membership.rejoin_reason is not None
        return self._is_cancelled or membership.state is MemberState.UNJOINED or is_waited_for

    def _rejoin(self, state: MemberState) -> _Rejoin:
        """Begin another join from this state, which ends what the round has got, and return what to raise."""
        with self._shared.changed:
            self._check(state)
            self._shared.membership.begin_join()
        return _Rejoin()
