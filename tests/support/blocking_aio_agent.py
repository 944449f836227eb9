"""An asyncio agent in an event loop of its own thread, with the blocking agent's methods, for tests of both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from agent import TopicPartition, aio

Value = TypeVar("Value")
CALLBACKS = ("on_revoked", "on_assigned", "on_lost")


class BlockingAioAgent:
    """Runs each call as a task of the loop, and blocks until it has ended. Callbacks run in a thread each."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  # whatever an agent takes
        options |= {name: _in_thread(options[name]) for name in CALLBACKS if name in options}
        self.aio = aio.ConsumerAgent(*arguments, **options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="asyncio-agent")
        self._thread.start()

    def poll(self, timeout_s: float = 0.0) -> Any:  # noqa: ANN401  # as the agent's
        return self._run(self.aio.poll(timeout_s))

    def wait(self, timeout_s: float) -> bool:
        return self._run(self.aio.wait(timeout_s))

    def wakeup(self) -> None:
        self.aio.wakeup()

    def subscribe(self, topics: Iterable[str]) -> None:
        async def subscribe() -> None:
            self.aio.subscribe(topics)

        self._run(subscribe())

    def unsubscribe(self) -> None:
        self._run(self.aio.unsubscribe())

    def position(self, partition: TopicPartition) -> int:
        return self._run(self.aio.position(partition))

    def commit(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  # as the agent's
        self._run(self.aio.commit(*arguments, **options))

    @property
    def generation(self) -> int:
        return self.aio.generation

    @property
    def member_id(self) -> str:
        return self.aio.member_id

    def close(self, timeout_s: float = 5.0) -> None:
        """Close the agent and its event loop; a second call does nothing."""
        if self._loop.is_closed():
            return
        try:
            self._run(self.aio.close(timeout_s))
        finally:
            left = self._run(_other_tasks())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        assert left == []

    def _run(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _in_thread(callback: Callable[[Any], object]) -> Callable[[Any], Awaitable[object]]:
    """Return a coroutine function that leaves the loop free while the callback blocks."""

    async def call(partitions: object) -> object:
        return await asyncio.to_thread(callback, partitions)

    return call


async def _other_tasks() -> list[str]:
    """Return the names of the tasks that an agent has left."""
    return [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}]
