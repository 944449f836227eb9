"""Long polls begin a few at a time, in the order in which they came."""

import asyncio

import pytest

from api.shared.turns import LONG_POLLS_AT_ONCE, LongPollTurns

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_long_polls_begin_in_order_and_never_too_many_in_one_turn() -> None:
    turns = LongPollTurns()
    begun: list[int] = []

    async def begin(number: int) -> None:
        await turns.wait()
        begun.append(number)

    count = 2 * LONG_POLLS_AT_ONCE + 50
    tasks = [asyncio.create_task(begin(number)) for number in range(count)]
    in_turns = []
    while not all(task.done() for task in tasks):
        before = len(begun)
        await asyncio.sleep(0)
        in_turns.append(len(begun) - before)
    assert begun == list(range(count))
    assert max(in_turns) == LONG_POLLS_AT_ONCE
