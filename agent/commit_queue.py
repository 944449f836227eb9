"""A commit is sent until it is answered; asynchronous ones go in order on a thread of their own.

A commit carries the generation under which it was asked for, so that one which was overtaken by a rebalance is refused
and never passes for the new owner's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from agent.errors import AgentError, CommitFailed, CoordinatorNotAvailable, OffsetsRefused
from agent.group_api import NONE
from agent.membership import Call, Identity, Reaction
from agent.partitions import OffsetAndMetadata, TopicPartition, batched
from agent.session import IDLE_MS, THREAD_END_S, Session
from agent.transport import Lane

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
OnDone = Callable[[Offsets, AgentError | None], None]


def send_commit(
    session: Session, lane: Lane, who: Identity, offsets: Offsets, *, deadline_ms: int, is_over: Callable[[], bool]
) -> None:
    """Store offsets, repeating the request until it is answered.

    Raises:
        CommitFailed: the group has moved on; the partitions may be another's.
        RebalanceInProgress: poll(), then commit what is still assigned.
        OffsetsRefused: single partitions were refused, the others are stored.
        RetryError: no success before the deadline.
        RequestError: the commit will never work.
    """
    refused: dict[TopicPartition, str] = {}
    for chunk in batched(sorted(offsets), session.timing.max_partitions_per_request):
        part = {partition: offsets[partition] for partition in chunk}
        codes = _stored(session, lane, who, part, deadline_ms=deadline_ms, is_over=is_over)
        refused |= {partition: code for partition, code in codes.items() if code != NONE}
    if refused:
        raise OffsetsRefused(refused)


def _stored(
    session: Session, lane: Lane, who: Identity, offsets: Offsets, *, deadline_ms: int, is_over: Callable[[], bool]
) -> dict[TopicPartition, str]:
    failures = 0
    while True:
        try:
            return session.api.commit(lane, who, offsets, timeout_ms=session.answer_timeout_ms(deadline_ms))
        except AgentError as error:
            reaction = session.react(Call.COMMIT, error, who)
            if reaction not in (Reaction.RETRY, Reaction.RETRY_AT_ONCE):
                raise _as_the_caller_sees_it(error, reaction) from error
            failures += 1
            if not session.pause(failures, error, deadline_ms, is_over):
                raise


def _as_the_caller_sees_it(error: AgentError, reaction: Reaction) -> AgentError:
    if reaction in (Reaction.RESET_MEMBER, Reaction.RESET_GENERATION, Reaction.IGNORE):
        return CommitFailed(f"not committed, since the group has moved on ({error})", error.problem)
    return error


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one asynchronous commit ended; `error` is None when all of it is stored."""

    offsets: Offsets
    on_done: OnDone | None
    error: AgentError | None


@dataclass(slots=True)
class _Parcel:
    """Asynchronous commits of one generation that go as one request; of a partition the newest offset goes."""

    who: Identity
    asked: list[tuple[Offsets, OnDone | None]] = field(default_factory=list)

    def offsets(self) -> Offsets:
        return {partition: offset for offsets, _ in self.asked for partition, offset in offsets.items()}


class CommitQueue:
    """Asynchronous commits, one request at a time and in order; the thread starts with the first of them.

    Commits that come in while a request is under way are sent together after it, so a slow coordinator makes requests
    larger and no queue longer.
    """

    def __init__(self, session: Session, name: str) -> None:
        self._session: Final = session
        self._lane = session.new_lane()
        self._waiting: deque[_Parcel] = deque()
        self._done: deque[Outcome] = deque()
        self._is_sending = False
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name=f"{name}-commits", daemon=True)

    @property
    def is_idle(self) -> bool:
        """Tell whether everything handed in has been answered; under the lock."""
        return not self._waiting and not self._is_sending

    @property
    def has_done(self) -> bool:
        """Tell whether there are outcomes to take; under the lock."""
        return bool(self._done)

    def put(self, who: Identity, offsets: Offsets, on_done: OnDone | None) -> None:
        """Hand a commit in; its outcome comes with `take_done`."""
        with self._session.changed:
            if not self._waiting or self._waiting[-1].who != who:
                self._waiting.append(_Parcel(who))
            self._waiting[-1].asked.append((offsets, on_done))
            self._session.changed.notify_all()
        if not self._thread.is_alive():
            self._thread.start()

    def fail(self, offsets: Offsets, on_done: OnDone | None, error: AgentError) -> None:
        """Note the outcome of a commit that is not sent at all."""
        with self._session.changed:
            self._done.append(Outcome(offsets, on_done, error))

    def take_done(self) -> Outcome | None:
        """Return the next outcome, in order; None when all have been taken."""
        with self._session.changed:
            return self._done.popleft() if self._done else None

    def drain(self, deadline_ms: int) -> bool:
        """Wait until everything handed in has been answered; tell whether it was before the deadline."""
        return self._session.wait_until(deadline_ms, lambda: self.is_idle)

    def stop(self) -> None:
        """End the thread; what it had not sent has failed."""
        with self._session.changed:
            self._is_stopped = True
            self._session.changed.notify_all()
        self._lane.cut()
        if self._thread.is_alive():
            self._thread.join(THREAD_END_S)
        with self._session.changed:
            while self._waiting:
                self._finish(
                    self._waiting.popleft(), CoordinatorNotAvailable("the agent was closed before it was sent")
                )

    def _run(self) -> None:
        while (parcel := self._next()) is not None:
            error = self._send(parcel)
            with self._session.changed:
                self._is_sending = False
                self._finish(parcel, error)
        self._lane.close()

    def _finish(self, parcel: _Parcel, error: AgentError | None) -> None:
        self._done += [Outcome(offsets, on_done, error) for offsets, on_done in parcel.asked]
        self._session.changed.notify_all()

    def _next(self) -> _Parcel | None:
        with self._session.changed:
            while not self._is_stopped:
                if self._waiting:
                    self._is_sending = True
                    return self._waiting.popleft()
                self._session.clock.wait(self._session.changed, IDLE_MS)
            return None

    def _send(self, parcel: _Parcel) -> AgentError | None:
        deadline_ms = self._session.clock.now_ms() + self._session.timing.api_timeout_ms
        try:
            send_commit(
                self._session,
                self._lane,
                parcel.who,
                parcel.offsets(),
                deadline_ms=deadline_ms,
                is_over=lambda: self._is_stopped,
            )
        except AgentError as error:
            return error
        except Exception as problem:  # noqa: BLE001  # whatever it is, it is this commit's outcome and not the thread's end
            return AgentError(f"the commit could not be sent: {problem!r}")
        return None
