"""State that the tasks of one agent share, and the lock that guards it.

The tasks are the caller's, one for heartbeats, one per rebalance round, and one for asynchronous commits once there
are any. `changed` guards everything here, is never held during a request or a callback, and is notified after every
change that a task may wait for.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from agent.core.backoff import Backoff
from agent.core.connection import Connection, Token
from agent.core.group_api import GroupApi
from agent.core.membership import MemberIdentity, Membership, Reaction, RequestType
from agent.core.node_selector import NodeSelector
from agent.core.responses import EffectiveTimeouts
from agent.core.runtime import Runtime
from agent.errors import AgentError, FencedInstanceId, RetryError
from agent.partitions import OffsetAndMetadata, TopicPartition, batched
from agent.settings import Timing

log = logging.getLogger("muster.agent")

Value = TypeVar("Value")

IDLE_MS: Final = 60_000
"""How long a task with no deadline waits for a notification before it checks its conditions again."""


class SharedState:
    """The membership, timeouts and error of one agent, shared by its tasks."""

    def __init__(
        self,
        api: GroupApi,
        node_selector: NodeSelector,
        timing: Timing,
        runtime: Runtime,
        *,
        token: Token | None,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self.api: Final = api
        self.timing: Final = timing
        self.runtime: Final = runtime
        self.changed: Final = runtime.changed
        self.now_ms: Final = runtime.now_ms
        self.backoff: Final = Backoff(timing.retry_backoff_ms, timing.retry_backoff_max_ms)
        self.membership: Final = Membership()
        self.timeouts = EffectiveTimeouts(timing.session_timeout_ms, timing.session_timeout_ms // 3)
        self.next_heartbeat_at_ms = 0
        self.polled_at_ms = runtime.now_ms()
        self.is_polling = False
        self.is_closed = False
        self.fatal: AgentError | None = None
        self._node_selector = node_selector
        self._token = token
        self._ssl_context = ssl_context

    def new_connection(self) -> Connection:
        """Return a new connection, for one task."""
        http = self.runtime.new_http_client(self._ssl_context)
        return Connection(http, self._node_selector, self._token, self.timing.connect_timeout_ms)

    def heartbeat_interval_ms(self) -> int:
        """Return the pause between heartbeats: the coordinator's, or the caller's if that is shorter."""
        coordinator_ms = self.timeouts.heartbeat_interval_ms
        return min(coordinator_ms, self.timing.heartbeat_interval_ms or coordinator_ms)

    def apply_timeouts(self, timeouts: EffectiveTimeouts) -> None:
        """Apply the effective timeouts and schedule the next heartbeat; under the lock."""
        self.timeouts = timeouts
        self.next_heartbeat_at_ms = self.now_ms() + self.heartbeat_interval_ms()

    def handle_error(self, call: RequestType, error: AgentError, sent_as: MemberIdentity) -> Reaction:
        """Update the membership after an error, and notify the waiting tasks."""
        with self.changed:
            reaction = self.membership.handle_error(call, error, sent_as)
            if reaction is Reaction.FATAL and (call is RequestType.HEARTBEAT or isinstance(error, FencedInstanceId)):
                self.fatal = error
            self.changed.notify_all()
            return reaction

    def answer_timeout_ms(self, deadline_ms: int | None) -> int:
        """Return the timeout of the next request: request_timeout_ms, but not beyond the deadline if there is one."""
        timeout_ms = self.timing.request_timeout_ms
        return timeout_ms if deadline_ms is None else min(timeout_ms, max(1, deadline_ms - self.now_ms()))

    async def wait_until(self, deadline_ms: int, is_done: Callable[[], bool]) -> bool:
        """Wait until is_done, called under the lock after each change, is true; return False after the deadline."""
        with self.changed:
            while not is_done():
                left_ms = deadline_ms - self.now_ms()
                if left_ms <= 0:
                    return False
                await self.runtime.wait(left_ms)
            return True

    async def committed(
        self,
        connection: Connection,
        partitions: Sequence[TopicPartition],
        deadline_ms: int | None,
        should_stop: Callable[[], bool],
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what is committed for each partition, None where nothing is; raises as `send_with_retries` does."""

        async def send(chunk: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
            return await self.api.committed(connection, chunk, timeout_ms=self.answer_timeout_ms(deadline_ms))

        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions)
        for chunk in batched(partitions, self.timing.max_partitions_per_request):
            found |= await self.send_with_retries(partial(send, chunk), deadline_ms, should_stop)
        return found

    async def leave(
        self, connection: Connection, member_id: str, reason: str, deadline_ms: int, should_stop: Callable[[], bool]
    ) -> None:
        """Send a leave; it is only logged if it is refused, or has no response until the deadline or should_stop."""

        async def send() -> None:
            await self.api.leave(connection, member_id, reason, timeout_ms=self.answer_timeout_ms(deadline_ms))

        try:
            await self.send_with_retries(send, deadline_ms, should_stop)
        except AgentError as error:
            outcome = "no response to the leave" if isinstance(error, RetryError) else "the leave was refused"
            log.info("%s; the member is evicted when its session expires: %s", outcome, error)

    async def send_with_retries(
        self, send: Callable[[], Awaitable[Value]], deadline_ms: int | None, should_stop: Callable[[], bool]
    ) -> Value:
        """Repeat a request that does not affect the membership until it succeeds.

        Raises:
            RetryError: the last failure, when the deadline would pass or should_stop holds.
            AgentError: an error that a retry does not solve.
        """
        failures = 0
        while True:
            try:
                return await send()
            except RetryError as error:
                failures += 1
                if not await self.pause(failures, error, deadline_ms, should_stop):
                    raise

    async def pause(
        self, failures: int, error: AgentError, deadline_ms: int | None, should_stop: Callable[[], bool]
    ) -> bool:
        """Wait before the next attempt; return False if the deadline would pass or should_stop holds."""
        until_ms = self.now_ms() + self.backoff.delay_ms(failures, error.retry_after_s)
        if deadline_ms is not None and until_ms >= deadline_ms:
            return False
        return not await self.wait_until(until_ms, should_stop)
