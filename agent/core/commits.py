"""Offset commits of the caller's task: synchronous, asynchronous and automatic."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from agent.core.commit_queue import AsyncOnComplete, CommitQueue, CommitResult, Offsets, send_commit
from agent.core.connection import Connection
from agent.core.membership import MemberIdentity, MemberState
from agent.core.positions import Positions
from agent.core.shared_state import SharedState
from agent.errors import AgentError, CommitFailed, CoordinatorNotAvailable, OffsetsRefused, RebalanceInProgress

log = logging.getLogger("muster.agent")


class Commits:
    """All commits of one agent; for the caller's task only."""

    def __init__(
        self,
        shared: SharedState,
        connection: Connection,
        positions: Positions,
        name: str,
        *,
        is_automatic: bool,
        is_reporting: bool,
    ) -> None:
        self._shared: Final = shared
        self._connection = connection
        self._positions = positions
        self._is_automatic = is_automatic
        self._is_reporting = is_reporting
        self._queue = CommitQueue(shared, name)
        self._finished: deque[CommitResult] = deque()
        self._next_at_ms = shared.now_ms() + shared.timing.auto_commit_interval_ms
        self._report_at_ms = shared.now_ms() + shared.timing.log_end_report_interval_ms

    async def commit_sync(self, offsets: Offsets, deadline_ms: int) -> None:
        """Store offsets, perhaps none, after all earlier asynchronous commits; raises as ConsumerAgent.commit does."""
        identity = self._identity() if offsets else None
        if not await self._queue.drain(deadline_ms):
            raise CoordinatorNotAvailable("earlier asynchronous commits are still in progress; commit again later")
        self._take_results()
        if identity is None:
            return
        try:
            await send_commit(
                self._shared, self._connection, identity, offsets, deadline_ms=deadline_ms, should_stop=lambda: False
            )  # fmt: skip
        except BaseException as error:
            self._record(offsets, error)
            raise
        self._record(offsets, None)

    def commit_async(self, offsets: Offsets, on_complete: AsyncOnComplete | None) -> None:
        """Store offsets, perhaps none, in another task; if this agent is not a member, the callback gets the error."""
        if not offsets:
            self._queue.complete(offsets, on_complete, None)
            return
        try:
            identity = self._identity()
        except AgentError as error:
            self._queue.complete(offsets, on_complete, error)
        else:
            self._queue.put(identity, offsets, on_complete)

    async def auto_commit(self) -> None:
        """Commit changed positions asynchronously if auto-commit is on and due; for results see `run_callbacks`."""
        now_ms = self._shared.now_ms()
        if not self._is_automatic or now_ms < self._next_at_ms:
            return
        self._next_at_ms = now_ms + self._shared.timing.auto_commit_interval_ms
        changed = await self._positions.uncommitted() if self._is_ready() else {}
        if changed:
            self.commit_async(changed, None)

    async def report_log_ends(self) -> None:
        """Repeat the last commit of partitions whose log end offset was not reported within the interval."""
        now_ms = self._shared.now_ms()
        if not self._is_reporting or now_ms < self._report_at_ms or not self._is_ready():
            return
        self._report_at_ms = now_ms + self._shared.timing.log_end_report_interval_ms
        try:
            unreported = await self._positions.unreported()
        except Exception:  # the caller's end_offset_of failed, in a commit that the caller did not request
            log.exception("log end offsets could not be reported: end_offset_of failed")
            return
        if unreported:
            self.commit_async(unreported, None)

    def _is_ready(self) -> bool:
        """Return whether the member is stable and no commit is in progress."""
        with self._shared.changed:
            return self._queue.is_idle and self._shared.membership.state is MemberState.STABLE

    async def commit_before_revocation(self, deadline_ms: int) -> None:
        """Finish pending commits and, with auto-commit on, commit changed positions; a failed commit is only logged.

        Raises:
            Exception: an error raised by end_offset_of; the positions are committed without log ends.
        """
        await self._queue.drain(deadline_ms)
        if not self._is_automatic:
            return
        try:
            changed = await self._positions.uncommitted()
        except Exception:
            await self._commit_or_log(await self._positions.uncommitted(with_log_ends=False), deadline_ms)
            raise
        await self._commit_or_log(changed, deadline_ms)

    async def _commit_or_log(self, changed: Offsets, deadline_ms: int) -> None:
        if not changed:
            return
        try:
            await self.commit_sync(changed, deadline_ms)
        except AgentError as error:
            log.warning("auto-commit of %d partitions failed: %s", len(changed), error)

    async def drain(self, deadline_ms: int) -> None:
        """Wait until asynchronous commits are answered: a rejoin ends the generation that they carry."""
        await self._queue.drain(deadline_ms)

    async def finish_pending(self, deadline_ms: int) -> None:
        """Wait for pending commits and run their callbacks."""
        await self._queue.drain(deadline_ms)
        await self.run_callbacks()

    async def run_callbacks(self) -> None:
        """Run the callbacks of finished asynchronous commits; if one raises, the rest run at the next call."""
        while self._take_results():
            result = self._finished.popleft()
            if result.on_complete is not None:
                await result.on_complete(result.offsets, result.error)
            elif result.error is not None:
                log.warning("an asynchronous commit failed: %s", result.error)

    def has_results(self) -> bool:
        """Return whether callbacks are due; under the lock."""
        return self._queue.has_results or bool(self._finished)

    def next_wakeup_ms(self) -> int | None:
        """Return when `auto_commit` or `report_log_ends` is due; None: never."""
        is_reporting = self._is_reporting and self._is_ready()  # When it is ready again, that ends the wait.
        due_at_ms = [self._next_at_ms] * self._is_automatic + [self._report_at_ms] * is_reporting
        return min(due_at_ms, default=None)

    async def stop(self) -> None:
        """End the task; the callbacks of unsent commits get an error, and all run, even if one raises."""
        await self._queue.stop()
        raised: Exception | None = None
        while self._take_results():
            try:
                await self.run_callbacks()
            except Exception as problem:  # noqa: BLE001  # the caller's; the first one is raised in the end
                raised = raised or problem
        if raised is not None:
            raise raised

    def _take_results(self) -> bool:
        """Record the results of asynchronous commits in their order; return whether callbacks are due."""
        while (result := self._queue.take_result()) is not None:
            self._record(result.offsets, result.error)
            self._finished.append(result)
        return bool(self._finished)

    def _record(self, offsets: Offsets, error: BaseException | None) -> None:
        """Record what a commit has stored; after an error other than OffsetsRefused that is not known."""
        if error is None:
            self._positions.mark_committed(offsets)
        elif isinstance(error, OffsetsRefused):
            self._positions.mark_committed({each: offsets[each] for each in offsets if each not in error.codes})
        else:
            self._positions.mark_uncertain(offsets)

    def _identity(self) -> MemberIdentity:
        """Return the identity to commit under.

        Raises:
            RebalanceInProgress, CommitFailed: there is none now; see ConsumerAgent.commit.
        """
        with self._shared.changed:
            membership = self._shared.membership
            if self._shared.fatal is not None:
                raise self._shared.fatal.with_traceback(None)
            if membership.state is MemberState.STABLE:
                return membership.identity
            if membership.identity.has_generation:
                raise RebalanceInProgress(
                    "the group is rebalancing: call poll(), then commit the partitions that are still assigned"
                )
            raise CommitFailed("this agent is not a member of the group now, so it owns no partitions")
