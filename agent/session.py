"""What the threads of one agent share, and the one lock under which they share it.

An agent has the caller's thread, a heartbeat thread, a thread a round of joining, and one for asynchronous commits
once there are any. `changed` guards everything here, is never held during a request or a callback, and is notified
after every change that somebody may wait for.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from agent.answers import Intervals
from agent.backoff import Backoff
from agent.clock import Clock
from agent.coordinators import Coordinators
from agent.errors import AgentError, FencedInstanceId, RetryError
from agent.group_api import GroupApi
from agent.membership import Call, Identity, Membership, Reaction
from agent.partitions import OffsetAndMetadata, TopicPartition, batched
from agent.settings import Timing
from agent.transport import Lane

Value = TypeVar("Value")

IDLE_MS: Final = 60_000
"""How long a thread waits before it looks around, when there is nothing to wait for but a notification."""

THREAD_END_S: Final = 1.0
"""How long to wait for a thread whose connection was cut; it ends by itself in any case."""


class Session:
    """One agent's connection with its group, shared by its threads."""

    def __init__(
        self,
        api: GroupApi,
        coordinators: Coordinators,
        timing: Timing,
        clock: Clock,
        *,
        token: str | None,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self.api: Final = api
        self.timing: Final = timing
        self.clock: Final = clock
        self.backoff: Final = Backoff(timing.retry_backoff_ms, timing.retry_backoff_max_ms)
        self.changed: Final = threading.Condition()
        self.membership: Final = Membership()
        self.intervals = Intervals(timing.session_timeout_ms, timing.session_timeout_ms // 3)
        self.next_heartbeat_at_ms = 0
        self.polled_at_ms = clock.now_ms()
        self.is_polling = False
        self.is_closed = False
        self.fatal: AgentError | None = None
        self._coordinators = coordinators
        self._token = token
        self._ssl_context = ssl_context

    def new_lane(self) -> Lane:
        """Return a connection of its own for one thread."""
        return Lane(self._coordinators, self._token, self.timing.connect_timeout_ms, self._ssl_context)

    def heartbeat_interval_ms(self) -> int:
        """Return the pause between heartbeats: the coordinator's, or the caller's if that is shorter."""
        told_ms = self.intervals.heartbeat_interval_ms
        return min(told_ms, self.timing.heartbeat_interval_ms or told_ms)

    def take_intervals(self, intervals: Intervals) -> None:
        """Keep to the times in force, counted from now; under the lock."""
        self.intervals = intervals
        self.next_heartbeat_at_ms = self.clock.now_ms() + self.heartbeat_interval_ms()

    def react(self, call: Call, error: AgentError, sent_as: Identity) -> Reaction:
        """Let the membership take an error in, and wake whoever has to know."""
        with self.changed:
            reaction = self.membership.react(call, error, sent_as)
            if reaction is Reaction.FATAL and (call is Call.HEARTBEAT or isinstance(error, FencedInstanceId)):
                self.fatal = error
            self.changed.notify_all()
            return reaction

    def answer_timeout_ms(self, deadline_ms: int | None) -> int:
        """Return how long the next answer may take: not beyond the deadline, if there is one."""
        timeout_ms = self.timing.request_timeout_ms
        return timeout_ms if deadline_ms is None else min(timeout_ms, max(1, deadline_ms - self.clock.now_ms()))

    def wait_until(self, deadline_ms: int, is_done: Callable[[], bool]) -> bool:
        """Wait for is_done, judged under the lock after every change, and tell whether it came before the deadline."""
        with self.changed:
            while not is_done():
                left_ms = deadline_ms - self.clock.now_ms()
                if left_ms <= 0:
                    return False
                self.clock.wait(self.changed, left_ms)
            return True

    def committed(
        self, lane: Lane, partitions: Sequence[TopicPartition], deadline_ms: int | None, is_over: Callable[[], bool]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what is committed for each partition, None where nothing is; raises as `until_answered` does."""

        def ask(chunk: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
            return self.api.committed(lane, chunk, timeout_ms=self.answer_timeout_ms(deadline_ms))

        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions)
        for chunk in batched(partitions, self.timing.max_partitions_per_request):
            found |= self.until_answered(partial(ask, chunk), deadline_ms, is_over)
        return found

    def until_answered(self, ask: Callable[[], Value], deadline_ms: int | None, is_over: Callable[[], bool]) -> Value:
        """Repeat a call that bears on no membership until it is answered.

        Raises:
            RetryError: the last failure, when the deadline would pass or is_over holds.
            AgentError: whatever repeating does not help against.
        """
        failures = 0
        while True:
            try:
                return ask()
            except RetryError as error:
                failures += 1
                if not self.pause(failures, error, deadline_ms, is_over):
                    raise

    def pause(self, failures: int, error: AgentError, deadline_ms: int | None, is_over: Callable[[], bool]) -> bool:
        """Wait before the next attempt; tell whether there may be one: not past the deadline, nor once is_over."""
        until_ms = self.clock.now_ms() + self.backoff.delay_ms(failures, error.retry_after_s)
        if deadline_ms is not None and until_ms >= deadline_ms:
            return False
        return not self.wait_until(until_ms, is_over)
