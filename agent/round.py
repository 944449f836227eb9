"""A round is join, assign (the leader only), sync, and fetch what is committed: one thread goes through it alone.

It runs beside the caller's thread so that a caller who is slow to poll() holds nobody up. It runs no callbacks: they
belong to the caller's thread, before the round and after it. A round ends with a result, with an error that the caller
must see, or with neither: then the membership was reset or the round cancelled, and the next poll() begins another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from agent.answers import Joined
from agent.assignors import Assignment, Assignor
from agent.errors import AgentError, RequestError, RetryError
from agent.group_api import JoinRequest
from agent.membership import Call, Identity, Phase, Reaction
from agent.partitions import OffsetAndMetadata, TopicPartition
from agent.session import THREAD_END_S, Session
from agent.topic_counts import TopicCounts

log = logging.getLogger("muster.agent")

Value = TypeVar("Value")

LONG_ANSWER_MS: Final = 1_000
"""An answer that took this long was a long poll's end, so that asking again at once is no haste."""


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """What a round came to.

    Attributes:
        identity: the member and its new generation.
        partitions: all that this member owns now, sorted.
        assignor: the one that the group chose.
        committed: for those it did not own before; None where nothing is committed.
        log_starts: the first offset of topics with such partitions, where the catalogue knows it.
        counts: the partition counts that the leader assigned by; None for a follower.
    """

    identity: Identity
    partitions: tuple[TopicPartition, ...]
    assignor: Assignor
    committed: Mapping[TopicPartition, OffsetAndMetadata | None]
    log_starts: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] | None = None


class _Over(Exception):
    """The round is over without a result."""


class _JoinAgain(Exception):
    """The group moved on during the sync; the same member joins again."""


class Round:
    """One thread's way from a join to an assignment."""

    def __init__(self, session: Session, request: JoinRequest, counts: TopicCounts) -> None:
        self.result: Rebalanced | None = None
        self.error: Exception | None = None
        self.is_done = False
        self.topics = request.topics
        self._session = session
        self._request = request
        self._counts = counts
        self._lane = session.new_lane()
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name=f"{request.client_id}-round", daemon=True)

    def start(self) -> None:
        """Begin; the membership is in its join phase already."""
        self._thread.start()

    def cancel(self) -> None:
        """End the round without a result, in the midst of a request if need be."""
        with self._session.changed:
            self._is_cancelled = True
            self._session.changed.notify_all()
        self._lane.cut()
        self._thread.join(THREAD_END_S)

    def _run(self) -> None:
        try:
            self.result = self._go()
        except _Over:
            log.debug("%s: the round of joining is over without a result", self._request.client_id)
        except Exception as problem:  # noqa: BLE001  # partitions_of and assignors are the caller's: poll() raises it
            self.error = problem
        finally:
            self._lane.close()
            with self._session.changed:
                self.is_done = True
                self._session.changed.notify_all()

    def _go(self) -> Rebalanced:
        while True:
            joined = self._join()
            assignor = self._chosen(joined)
            counts = self._counts_for(joined)
            try:
                partitions = self._sync(joined, self._assignment(joined, assignor, counts))
            except _JoinAgain:
                continue
            committed = self._committed(tuple(sorted(set(partitions) - set(self._request.owned_partitions))))
            starts = self._log_starts() if None in committed.values() else {}
            return Rebalanced(joined.identity, partitions, assignor, committed, starts, counts)

    def _join(self) -> Joined:
        def ask(who: Identity) -> Joined:
            return self._session.api.join(self._lane, who, self._request, max_wait_ms=self._session.timing.long_poll_ms)

        joined = self._until_answered(Call.JOIN, Phase.JOINING, ask)
        with self._session.changed:
            self._check(Phase.JOINING)
            self._session.membership.joined(joined.identity)
            self._session.take_intervals(joined.intervals)
            self._session.changed.notify_all()
        return joined

    def _sync(self, joined: Joined, assignment: Assignment) -> tuple[TopicPartition, ...]:
        def ask(_: Identity) -> tuple[TopicPartition, ...]:
            return self._session.api.sync(self._lane, joined, assignment, max_wait_ms=self._session.timing.long_poll_ms)

        partitions = self._until_answered(Call.SYNC, Phase.SYNCING, ask)
        with self._session.changed:
            self._check(Phase.SYNCING)
            self._session.membership.synced()
        return partitions

    def _until_answered(self, call: Call, phase: Phase, ask: Callable[[Identity], Value]) -> Value:
        failures = 0
        while True:
            with self._session.changed:
                self._check(phase)
                sent_as = self._session.membership.identity
            asked_at_ms = self._session.clock.now_ms()
            try:
                return ask(sent_as)
            except AgentError as error:
                took_ms = self._session.clock.now_ms() - asked_at_ms
                failures = self._after(call, error, sent_as, failures=failures, took_ms=took_ms)

    def _after(self, call: Call, error: AgentError, sent_as: Identity, *, failures: int, took_ms: int) -> int:
        """Do what the error asks for; return the failures in a row if the same call is to be made again."""
        with self._session.changed:
            self._check()
        reaction = self._session.react(call, error, sent_as)
        log.debug("%s: %s failed (%s): %s", self._request.client_id, call.name, reaction.name, error)
        match reaction:
            case Reaction.FATAL:
                raise error
            case Reaction.REJOIN:
                with self._session.changed:
                    self._check(Phase.SYNCING)
                    self._session.membership.begin_join()
                raise _JoinAgain
            case Reaction.RETRY_AT_ONCE if failures == 0 or took_ms >= LONG_ANSWER_MS:
                return 1
            case Reaction.RETRY | Reaction.RETRY_AT_ONCE:
                self._session.pause(failures + 1, error, None, lambda: self._is_cancelled)
                return failures + 1
            case Reaction.RESET_MEMBER | Reaction.RESET_GENERATION | Reaction.IGNORE:
                raise _Over

    def _check(self, phase: Phase | None = None) -> None:
        """Go no further when the round was cancelled, or the membership is not where this round left it."""
        if self._is_cancelled or (phase is not None and self._session.membership.phase is not phase):
            raise _Over

    def _counts_for(self, joined: Joined) -> Mapping[str, int] | None:
        if not joined.is_leader:
            return None
        topics = {topic for member in joined.members for topic in member.topics}
        return self._plainly(lambda: self._counts.of(self._lane, topics))

    def _chosen(self, joined: Joined) -> Assignor:
        assignor = next((each for each in self._request.assignors if each.name == joined.protocol_name), None)
        if assignor is None:
            raise RequestError(f"the group chose the assignor {joined.protocol_name!r}, which was not offered")
        return assignor

    def _assignment(self, joined: Joined, assignor: Assignor, counts: Mapping[str, int] | None) -> Assignment:
        if counts is None or joined.skip_assignment:
            return {}
        return assignor.assign({topic: count for topic, count in counts.items() if count}, joined.members)

    def _committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        try:
            return self._session.committed(self._lane, partitions, None, self._is_pointless)
        except RetryError:
            raise _Over from None

    def _log_starts(self) -> dict[str, int]:
        return self._plainly(lambda: self._counts.log_starts(self._lane))

    def _plainly(self, ask: Callable[[], Value]) -> Value:
        """Repeat a call that bears on no membership for as long as this round goes on."""
        try:
            return self._session.until_answered(ask, None, self._is_pointless)
        except RetryError:
            raise _Over from None

    def _is_pointless(self) -> bool:
        return self._is_cancelled or self._session.membership.phase is Phase.UNJOINED
