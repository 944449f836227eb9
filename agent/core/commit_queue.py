"""Commit requests with retries, and the task that sends asynchronous commits in order.

A commit carries the generation in which it was requested, so the coordinator rejects it after a rebalance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final

from agent.core.connection import Connection
from agent.core.group_api import NONE
from agent.core.membership import MemberIdentity, Reaction, RequestType
from agent.core.shared_state import IDLE_MS, SharedState
from agent.errors import (
    AgentError,
    CommitFailed,
    CoordinatorNotAvailable,
    InvalidRequest,
    OffsetsRefused,
    RequestError,
)
from agent.partitions import OffsetAndMetadata, TopicPartition, batched

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
AsyncOnComplete = Callable[[Offsets, AgentError | None], Awaitable[object]]

_ERRORS_OF_CONTENT: Final = (InvalidRequest, RequestError, AgentError)
"""Errors of what a commit contains, which others would not have."""


async def send_commit(
    shared: SharedState,
    connection: Connection,
    identity: MemberIdentity,
    offsets: Offsets,
    *,
    deadline_ms: int,
    should_stop: Callable[[], bool],
) -> None:
    """Store offsets, with retries until the deadline.

    Raises:
        CommitFailed: another member may own the partitions.
        RebalanceInProgress: call poll(), then commit the partitions that are still assigned.
        OffsetsRefused: some partitions were rejected, the others are stored.
        RetryError: no success before the deadline.
        RequestError: the commit will never succeed.
    """
    refused: dict[TopicPartition, str] = {}
    for chunk in batched(sorted(offsets), shared.timing.max_partitions_per_request):
        part = {partition: offsets[partition] for partition in chunk}
        codes = await _commit_with_retries(
            shared, connection, identity, part, deadline_ms=deadline_ms, should_stop=should_stop
        )
        refused |= {partition: code for partition, code in codes.items() if code != NONE}
    if refused:
        raise OffsetsRefused(refused)


async def _commit_with_retries(
    shared: SharedState,
    connection: Connection,
    identity: MemberIdentity,
    offsets: Offsets,
    *,
    deadline_ms: int,
    should_stop: Callable[[], bool],
) -> dict[TopicPartition, str]:
    failures = 0
    while True:
        try:
            return await shared.api.commit(
                connection, identity, offsets, timeout_ms=shared.answer_timeout_ms(deadline_ms)
            )
        except AgentError as error:
            reaction = shared.handle_error(RequestType.COMMIT, error, identity)
            if reaction not in (Reaction.RETRY, Reaction.RETRY_AT_ONCE):
                raise _caller_error(error, reaction) from error
            failures += 1
            if not await shared.pause(failures, error, deadline_ms, should_stop):
                raise


def _caller_error(error: AgentError, reaction: Reaction) -> AgentError:
    if reaction in (Reaction.RESET_MEMBER, Reaction.RESET_GENERATION, Reaction.IGNORE):
        return CommitFailed(f"not committed: the group has rebalanced ({error})", error.problem)
    return error


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of one asynchronous commit; `error` is None if all offsets are stored."""

    offsets: Offsets
    on_complete: AsyncOnComplete | None
    error: AgentError | None


@dataclass(slots=True)
class _CommitBatch:
    """Asynchronous commits of one generation that are sent as one request, with the latest offset of each partition."""

    identity: MemberIdentity
    commits: list[tuple[Offsets, AsyncOnComplete | None]] = field(default_factory=list)

    def offsets(self) -> Offsets:
        return {partition: offset for offsets, _ in self.commits for partition, offset in offsets.items()}


class CommitQueue:
    """Asynchronous commits, sent one request at a time and in order; the first commit starts the task.

    Commits added during a request are sent together after it, so a slow coordinator leads to larger requests and not
    to a longer queue.
    """

    def __init__(self, shared: SharedState, name: str) -> None:
        self._shared: Final = shared
        self._connection = shared.new_connection()
        self._waiting: deque[_CommitBatch] = deque()
        self._results: deque[CommitResult] = deque()
        self._in_progress: _CommitBatch | None = None
        self._is_stopped = False
        self._task = shared.runtime.new_task(self._run, f"{name}-commits")

    @property
    def is_idle(self) -> bool:
        """Whether no commit is waiting or in progress; under the lock."""
        return not self._waiting and self._in_progress is None

    @property
    def has_results(self) -> bool:
        """Whether there are results to take; under the lock."""
        return bool(self._results)

    def put(self, identity: MemberIdentity, offsets: Offsets, on_complete: AsyncOnComplete | None) -> None:
        """Add a commit; `take_result` returns its result."""
        with self._shared.changed:
            if not self._waiting or self._waiting[-1].identity != identity:
                self._waiting.append(_CommitBatch(identity))
            self._waiting[-1].commits.append((offsets, on_complete))
            self._shared.changed.notify_all()
        if not self._task.is_alive():
            self._task.start()

    def complete(self, offsets: Offsets, on_complete: AsyncOnComplete | None, error: AgentError | None) -> None:
        """Add the result of a commit that is not sent."""
        with self._shared.changed:
            self._results.append(CommitResult(offsets, on_complete, error))

    def take_result(self) -> CommitResult | None:
        """Return the next result, in order; None if there is none."""
        with self._shared.changed:
            return self._results.popleft() if self._results else None

    async def drain(self, deadline_ms: int) -> bool:
        """Wait until no commit is waiting or in progress; return False if the deadline passed first."""
        return await self._shared.wait_until(deadline_ms, lambda: self.is_idle)

    async def stop(self) -> None:
        """End the task; commits without an answer fail, also that of a thread which cannot be ended now."""
        with self._shared.changed:
            self._is_stopped = True
            self._shared.changed.notify_all()
        self._connection.abort()
        await self._task.join()
        self._fail_unanswered()

    async def _run(self) -> None:
        try:
            while (batch := await self._next()) is not None:
                errors = await self._send(batch)
                with self._shared.changed:
                    if self._in_progress is batch:
                        self._finish(batch, errors)
        finally:
            self._fail_unanswered()
            await self._connection.close()

    def _fail_unanswered(self) -> None:
        with self._shared.changed:
            if self._in_progress is not None:
                self._waiting.appendleft(self._in_progress)
            while self._waiting:
                unanswered = CoordinatorNotAvailable("the agent was closed or cancelled before the commit was answered")
                self._finish(self._waiting.popleft(), repeat(unanswered))

    def _finish(self, batch: _CommitBatch, errors: Iterable[AgentError | None]) -> None:
        self._in_progress = None
        results = zip(batch.commits, errors, strict=False)
        self._results += [CommitResult(offsets, on_complete, error) for (offsets, on_complete), error in results]
        self._shared.changed.notify_all()

    async def _next(self) -> _CommitBatch | None:
        with self._shared.changed:
            while not self._is_stopped:
                if self._waiting:
                    self._in_progress = self._waiting.popleft()
                    return self._in_progress
                await self._shared.runtime.wait(IDLE_MS)
            return None

    async def _send(self, batch: _CommitBatch) -> Iterable[AgentError | None]:
        """Send the commits of a batch as one; return the error of each.

        A commit that will never succeed makes no other one fail: then each is sent by itself.
        """
        error = await self._store(batch.identity, batch.offsets())
        if isinstance(error, OffsetsRefused):
            return [error.of(offsets) for offsets, _ in batch.commits]
        if len(batch.commits) > 1 and type(error) in _ERRORS_OF_CONTENT:
            return [await self._store(batch.identity, offsets) for offsets, _ in batch.commits]
        return repeat(error)

    async def _store(self, identity: MemberIdentity, offsets: Offsets) -> AgentError | None:
        deadline_ms = self._shared.now_ms() + self._shared.timing.api_timeout_ms
        try:
            await send_commit(
                self._shared,
                self._connection,
                identity,
                offsets,
                deadline_ms=deadline_ms,
                should_stop=lambda: self._is_stopped,
            )
        except AgentError as error:
            return error
        except Exception as problem:  # noqa: BLE001  # the result of this commit; the thread continues
            return AgentError(f"the commit could not be sent: {problem!r}")
        return None
