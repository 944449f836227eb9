"""The consumer agent for one asyncio event loop, with the promises of `agent.ConsumerAgent`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, Unpack

from agent.aio.runtime import AsyncioRuntime
from agent.core.consumer import Consumer, ConsumerOptions
from agent.partitions import TopicPartition


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

    async def poll(self, timeout_s: float = 0.0) -> Mapping[TopicPartition, int]:
        """Poll as `agent.ConsumerAgent.poll` does; heartbeats and other tasks run, also if it returns at once."""
        await asyncio.sleep(0)
        return await super().poll(timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
