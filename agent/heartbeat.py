"""One thread keeps the membership alive from the join answer on, and gives it up when the caller stops polling."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from agent.errors import AgentError
from agent.membership import Call, Identity, Reaction
from agent.session import IDLE_MS, THREAD_END_S, Session

log = logging.getLogger("muster.agent")


class Heartbeat:
    """The heartbeat thread of one agent."""

    def __init__(self, session: Session, client_id: str, *, is_static: bool) -> None:
        self._session = session
        self._client_id = client_id
        self._is_static = is_static
        self._lane = session.new_lane()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=f"{client_id}-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin, unless it runs already; nothing is sent before the member has joined."""
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self) -> None:
        """End the thread of a session that is closed, in the midst of a request if need be."""
        self._lane.cut()
        if self._thread.is_alive():
            self._thread.join(THREAD_END_S)

    def _run(self) -> None:
        while (act := self._next()) is not None:
            act()
        self._lane.close()

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next thing to do, and return it; None at the end."""
        session = self._session
        with session.changed:
            while not session.is_closed:
                now_ms = session.clock.now_ms()
                wake_at_ms = now_ms + IDLE_MS
                if session.membership.is_heartbeating:
                    gives_up_at_ms = self._gives_up_at_ms(now_ms)
                    if now_ms >= gives_up_at_ms:
                        return self._give_up
                    if now_ms >= session.next_heartbeat_at_ms:
                        return self._beat
                    wake_at_ms = min(gives_up_at_ms, session.next_heartbeat_at_ms)
                session.clock.wait(session.changed, wake_at_ms - now_ms)
            return None

    def _gives_up_at_ms(self, now_ms: int) -> int:
        polled_at_ms = now_ms if self._session.is_polling else self._session.polled_at_ms
        return polled_at_ms + self._session.timing.max_poll_interval_ms

    def _beat(self) -> None:
        session = self._session
        with session.changed:
            sent_as = session.membership.identity
            timeout_ms = min(session.timing.request_timeout_ms, max(1_000, session.intervals.session_timeout_ms // 3))
            session.next_heartbeat_at_ms = session.clock.now_ms() + session.heartbeat_interval_ms()
        try:
            intervals = session.api.heartbeat(self._lane, sent_as, timeout_ms=timeout_ms)
        except AgentError as error:
            self._refused(error, sent_as)
            return
        self._failures = 0
        with session.changed:
            if session.membership.identity == sent_as:
                session.take_intervals(intervals)

    def _refused(self, error: AgentError, sent_as: Identity) -> None:
        session = self._session
        reaction = session.react(Call.HEARTBEAT, error, sent_as)
        log.debug("%s: heartbeat failed (%s): %s", self._client_id, reaction.name, error)
        if reaction not in (Reaction.RETRY, Reaction.RETRY_AT_ONCE):
            return
        self._failures += 1
        with session.changed:
            pause_ms = session.backoff.delay_ms(self._failures, error.retry_after_s)
            session.next_heartbeat_at_ms = session.clock.now_ms() + min(pause_ms, session.heartbeat_interval_ms())

    def _give_up(self) -> None:
        session = self._session
        reason = f"max_poll_interval_ms ({session.timing.max_poll_interval_ms}) passed without a poll()"
        with session.changed:
            member_id = session.membership.identity.member_id
            session.membership.reset(reason)
            session.changed.notify_all()
        log.warning("%s: %s; its partitions are given up", self._client_id, reason)
        if self._is_static:
            return
        try:
            session.api.leave(self._lane, member_id, reason, timeout_ms=session.timing.request_timeout_ms)
        except AgentError as error:
            log.debug("%s: the leave was not answered, the session will expire: %s", self._client_id, error)
