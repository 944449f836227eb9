"""The caller's side of committing: at once, asynchronously, or by itself every so often."""

from __future__ import annotations

import logging
from typing import Final

from agent.commit_queue import CommitQueue, Offsets, OnDone, send_commit
from agent.errors import AgentError, CommitFailed, CoordinatorNotAvailable, OffsetsRefused, RebalanceInProgress
from agent.membership import Identity, Phase
from agent.positions import Positions
from agent.session import Session
from agent.transport import Lane

log = logging.getLogger("muster.agent")


class Commits:
    """All commits of one agent; for the caller's thread only."""

    def __init__(
        self,
        session: Session,
        lane: Lane,
        positions: Positions,
        name: str,
        *,
        is_automatic: bool,
        is_reporting: bool,
    ) -> None:
        self._session: Final = session
        self._lane = lane
        self._positions = positions
        self._is_automatic = is_automatic
        self._is_reporting = is_reporting
        self._queue = CommitQueue(session, name)
        self._next_at_ms = session.clock.now_ms() + session.timing.auto_commit_interval_ms
        self._report_at_ms = session.clock.now_ms() + session.timing.log_end_report_interval_ms

    def now(self, offsets: Offsets, deadline_ms: int) -> None:
        """Store offsets, after all that was committed asynchronously before; raises as ConsumerAgent.commit does."""
        who = self._who()
        if not self._queue.drain(deadline_ms):
            raise CoordinatorNotAvailable("earlier asynchronous commits are still unanswered; commit again later")
        try:
            send_commit(
                self._session, self._lane, who, offsets, deadline_ms=deadline_ms, is_over=lambda: False
            )  # fmt: skip
        except OffsetsRefused as error:
            self._positions.stored({each: offset for each, offset in offsets.items() if each not in error.codes})
            raise
        self._positions.stored(offsets)

    def later(self, offsets: Offsets, on_done: OnDone | None) -> None:
        """Store offsets on another thread; even that there is nothing to commit under is an outcome."""
        try:
            who = self._who()
        except AgentError as error:
            self._queue.fail(offsets, on_done, error)
        else:
            self._queue.put(who, offsets, on_done)

    def automatically(self) -> None:
        """Send changed positions off if that is switched on and due; for outcomes see `tell`."""
        now_ms = self._session.clock.now_ms()
        if not self._is_automatic or now_ms < self._next_at_ms:
            return
        self._next_at_ms = now_ms + self._session.timing.auto_commit_interval_ms
        changed = self._positions.not_stored() if self._is_ready() else {}
        if changed:
            self.later(changed, None)

    def report_log_ends(self) -> None:
        """Commit once more what was committed last where no end was reported for long; for outcomes see `tell`."""
        now_ms = self._session.clock.now_ms()
        if not self._is_reporting or now_ms < self._report_at_ms or not self._is_ready():
            return
        self._report_at_ms = now_ms + self._session.timing.log_end_report_interval_ms
        try:
            quiet = self._positions.not_reported()
        except Exception:  # of the caller's own end_offset_of, in a commit that the caller did not ask for
            log.exception("the ends of the partitions could not be reported")
            return
        if quiet:
            self.later(quiet, None)

    def _is_ready(self) -> bool:
        """Return whether a commit may be sent that overtakes none."""
        with self._session.changed:
            return self._queue.is_idle and self._session.membership.phase is Phase.STABLE

    def before_giving_up(self, deadline_ms: int) -> None:
        """Store what is under way and, if that is switched on, changed positions; a failure is only logged."""
        self._queue.drain(deadline_ms)
        changed = self._positions.not_stored() if self._is_automatic else {}
        if not changed:
            return
        try:
            self.now(changed, deadline_ms)
        except AgentError as error:
            log.warning("positions of %d partitions could not be committed: %s", len(changed), error)

    def settle(self, deadline_ms: int) -> None:
        """Wait for the answers to what is under way, and tell them."""
        self._queue.drain(deadline_ms)
        self.tell()

    def tell(self) -> None:
        """Tell the caller how asynchronous commits ended, one by one: if on_done raises, the others are told later."""
        while (outcome := self._queue.take_done()) is not None:
            if outcome.error is None:
                self._positions.stored(outcome.offsets)
            elif outcome.on_done is None:
                log.warning("an asynchronous commit failed: %s", outcome.error)
            if outcome.on_done is not None:
                outcome.on_done(outcome.offsets, outcome.error)

    def has_outcomes(self) -> bool:
        """Tell whether there is something to tell; under the lock."""
        return self._queue.has_done

    def wakes_at_ms(self) -> int | None:
        """Return when `automatically` or `report_log_ends` has something to do; None: never."""
        due_at_ms = [self._next_at_ms] * self._is_automatic + [self._report_at_ms] * self._is_reporting
        return min(due_at_ms, default=None)

    def stop(self) -> None:
        """End the thread, and tell that what it had not sent has failed."""
        self._queue.stop()
        self.tell()

    def _who(self) -> Identity:
        """Return the identity to commit under.

        Raises:
            RebalanceInProgress, CommitFailed: there is none at this moment; see ConsumerAgent.commit.
        """
        with self._session.changed:
            membership = self._session.membership
            if self._session.fatal is not None:
                raise self._session.fatal
            if membership.phase is Phase.STABLE:
                return membership.identity
            if membership.identity.has_generation:
                raise RebalanceInProgress("the group is rebalancing: poll(), then commit what is still assigned")
            raise CommitFailed("this agent is not part of the group now, so it owns nothing that it could commit")
