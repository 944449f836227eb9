"""Request deadlines: one timer cancels the overdue requests, and no others."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from typing import TypeVar

import pytest

from api.shared.deadlines import TIMER_SLACK_S, Deadlines
from coordinator_core.protocol.errors import CoordinatorNotAvailable
from tests.support.waiting import limited

T = TypeVar("T")

LONG_MS = 3_600_000


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def at_once() -> str:
    return "answer"


def in_loop(test: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        async with limited("the test's own end"):
            return await test()

    return asyncio.run(bounded())


def test_an_answer_in_time_is_returned() -> None:
    assert in_loop(lambda: Deadlines(LONG_MS).wait(at_once())) == "answer"


def test_all_overdue_requests_fail_whenever_they_started() -> None:
    async def test() -> list[object]:
        deadlines = Deadlines(20)
        first = [asyncio.create_task(deadlines.wait(never())) for _ in range(2)]
        await asyncio.sleep(0.01)
        second = [asyncio.create_task(deadlines.wait(never())) for _ in range(2)]
        return list(await asyncio.gather(*first, *second, return_exceptions=True))

    results = in_loop(test)

    assert [type(each) for each in results] == [CoordinatorNotAvailable] * 4


class EarlyTimerLoop(asyncio.SelectorEventLoop):
    """Runs the first deadline timer a little too early, as a loop with a coarse clock may."""

    timers = 0
    shown_s: float | None = None

    def time(self) -> float:
        return super().time() if self.shown_s is None else self.shown_s

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if getattr(callback, "__name__", "") == "_cancel_overdue":
            self.timers += 1
            callback = partial(self._run_early, when, callback) if self.timers == 1 else callback
        return super().call_at(when, callback, *args, context=context)

    def _run_early(self, when: float, cancel_overdue: Callable[[], object]) -> None:
        self.shown_s = when - TIMER_SLACK_S / 2
        cancel_overdue()
        self.shown_s = None


def test_slightly_early_timer_is_not_restarted() -> None:
    loop = EarlyTimerLoop()
    try:
        with pytest.raises(CoordinatorNotAvailable):
            loop.run_until_complete(Deadlines(20).wait(never()))
        assert loop.timers == 1
    finally:
        loop.close()


def test_the_task_of_an_overdue_request_can_continue() -> None:
    async def test() -> int:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(CoordinatorNotAvailable):
            await Deadlines(1).wait(never())
        await asyncio.sleep(0)
        return task.cancelling()

    assert asyncio.run(test()) == 0


def test_a_request_in_time_is_answered_after_another_was_overdue() -> None:
    async def test() -> str:
        deadlines = Deadlines(20)
        overdue = asyncio.create_task(deadlines.wait(never()))
        with pytest.raises(CoordinatorNotAvailable):
            await overdue
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(deadlines.wait(answer))
        await asyncio.sleep(0)
        answer.set_result("answer")
        return await waiting

    assert in_loop(test) == "answer"


def test_cancelled_request_is_not_reported_as_overdue() -> None:
    async def test() -> bool:
        waiting = asyncio.create_task(Deadlines(LONG_MS).wait(never()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert in_loop(test)


def test_error_of_a_request_is_raised_unchanged() -> None:
    async def refused() -> None:
        raise CoordinatorNotAvailable("of its own")

    with pytest.raises(CoordinatorNotAvailable, match="of its own"):
        in_loop(lambda: Deadlines(LONG_MS).wait(refused()))
