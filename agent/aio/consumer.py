"""The consumer agent for one asyncio event loop, with the promises of `agent.ConsumerAgent`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack

from agent.aio.runtime import AsyncioRuntime
from agent.core.consumer import Consumer, ConsumerOptions


class ConsumerAgent(Consumer):
    """One member of a consumer group; arguments and methods are those of `agent.ConsumerAgent`, some to be awaited.

    Callbacks, partitions_of and end_offset_of may be coroutine functions; assignors are plain functions. Callbacks run
    in the task that is in poll(), unsubscribe() or close(). All runs in one event loop, so what blocks it delays
    heartbeats. An agent is for one task at a time: a second one gets ConcurrentUse; only wakeup() is for any task,
    thread or signal handler. A cancelled call leaves the agent usable; what it had requested may have been done.
    """

    def __init__(
        self,
        base_url: str | Sequence[str],
        group_id: str,
        topics: Iterable[str] = (),
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(AsyncioRuntime(), base_url, group_id, topics, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
