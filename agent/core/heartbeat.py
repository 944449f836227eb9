"""The heartbeat task: sends heartbeats from the join response on, and leaves if the caller stops polling."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from agent.core.membership import MemberIdentity, Reaction, RequestType
from agent.core.shared_state import IDLE_MS, SharedState
from agent.errors import AgentError

log = logging.getLogger("muster.agent")


class Heartbeat:
    """The heartbeat task of one agent."""

    def __init__(self, shared: SharedState, client_id: str, *, is_static: bool) -> None:
        self._shared = shared
        self._client_id = client_id
        self._is_static = is_static
        self._connection = shared.new_connection()
        self._failures = 0
        self._task = shared.runtime.new_task(self._run, f"{client_id}-heartbeat")

    def start(self) -> None:
        """Start the task unless it is running; heartbeats begin after the join."""
        if not self._task.is_alive():
            self._task.start()

    async def stop(self) -> None:
        """End the task, aborting its request; the agent is closed already."""
        self._connection.abort()
        await self._task.join()

    async def _run(self) -> None:
        try:
            while (step := await self._next()) is not None:
                await step()
        finally:
            await self._connection.close()

    async def _next(self) -> Callable[[], Awaitable[None]] | None:
        """Wait for the next step and return it; None if the agent is closed."""
        shared = self._shared
        with shared.changed:
            while not shared.is_closed:
                now_ms = shared.now_ms()
                wake_at_ms = now_ms + IDLE_MS
                if shared.membership.is_heartbeating:
                    poll_deadline_ms = self._poll_deadline_ms(now_ms)
                    if now_ms >= poll_deadline_ms:
                        return self._leave_after_poll_timeout
                    if now_ms >= shared.next_heartbeat_at_ms:
                        return self._send_heartbeat
                    wake_at_ms = min(poll_deadline_ms, shared.next_heartbeat_at_ms)
                await shared.runtime.wait(wake_at_ms - now_ms)
            return None

    def _poll_deadline_ms(self, now_ms: int) -> int:
        polled_at_ms = now_ms if self._shared.is_polling else self._shared.polled_at_ms
        return polled_at_ms + self._shared.timing.max_poll_interval_ms

    async def _send_heartbeat(self) -> None:
        shared = self._shared
        with shared.changed:
            sent_as = shared.membership.identity
            timeout_ms = min(shared.timing.request_timeout_ms, max(1_000, shared.timeouts.session_timeout_ms // 3))
            shared.next_heartbeat_at_ms = shared.now_ms() + shared.heartbeat_interval_ms()
        try:
            timeouts = await shared.api.heartbeat(self._connection, sent_as, timeout_ms=timeout_ms)
        except AgentError as error:
            self._handle_error(error, sent_as)
            return
        self._failures = 0
        with shared.changed:
            if shared.membership.identity == sent_as:
                shared.apply_timeouts(timeouts)

    def _handle_error(self, error: AgentError, sent_as: MemberIdentity) -> None:
        shared = self._shared
        reaction = shared.handle_error(RequestType.HEARTBEAT, error, sent_as)
        log.debug("%s: heartbeat failed (%s): %s", self._client_id, reaction.name, error)
        if reaction not in (Reaction.RETRY, Reaction.RETRY_AT_ONCE):
            return
        self._failures += 1
        with shared.changed:
            pause_ms = shared.backoff.delay_ms(self._failures, error.retry_after_s)
            shared.next_heartbeat_at_ms = shared.now_ms() + min(pause_ms, shared.heartbeat_interval_ms())

    async def _leave_after_poll_timeout(self) -> None:
        shared = self._shared
        reason = f"max_poll_interval_ms ({shared.timing.max_poll_interval_ms}) passed without a poll()"
        with shared.changed:
            member_id = shared.membership.identity.member_id
            shared.membership.reset(reason)
            shared.changed.notify_all()
        log.warning("%s: %s; leaving the group", self._client_id, reason)
        if not self._is_static:
            deadline_ms = shared.now_ms() + shared.timing.request_timeout_ms
            await shared.leave(self._connection, member_id, reason, deadline_ms, self._has_other_work)

    def _has_other_work(self) -> bool:
        return self._shared.is_closed or self._shared.membership.is_heartbeating
