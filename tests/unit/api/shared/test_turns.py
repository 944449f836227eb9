"""Long polls begin a few at a time, in the order in which they came; large requests and queries in fair order."""

import asyncio
from functools import partial

import pytest

from api.shared.turns import (
    CONVERTED_AT_ONCE,
    LARGE_REQUESTS_AT_ONCE_BYTES,
    LARGE_REQUESTS_IN_PROGRESS_BYTES,
    LONG_POLLS_AT_ONCE,
    LargeRequestTurns,
    LongPollTurns,
    QueryTurns,
    convert_all,
)

pytestmark = pytest.mark.anyio

BYTES_PER_S = 2**30


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


async def ends_of(turns: LargeRequestTurns, requests: list[tuple[str, int]]) -> list[str]:
    """Begin requests in order, each of which ends in the turn after it began; return the clients as they began."""
    begun: list[str] = []

    async def send(client: str, size: int) -> None:
        await turns.begin(client, size)
        begun.append(client)
        await asyncio.sleep(0)
        turns.end(size, size)

    await asyncio.gather(*(send(*request) for request in requests))
    return begun


async def test_large_requests_of_clients_begin_in_turn() -> None:
    busy = [("busy", LARGE_REQUESTS_IN_PROGRESS_BYTES)] * 5
    assert await ends_of(LargeRequestTurns(BYTES_PER_S), [*busy, ("calm", 5_000), ("calm", 5_000)]) == [
        "busy",
        "busy",
        "calm",
        "calm",
        "busy",
        "busy",
        "busy",
    ]


async def test_large_requests_in_progress_are_limited() -> None:
    turns = LargeRequestTurns(BYTES_PER_S)
    half = LARGE_REQUESTS_IN_PROGRESS_BYTES // 2
    begun = [asyncio.create_task(turns.begin("a", half)) for _ in range(4)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert [task.done() for task in begun] == [True, True, False, False]
    turns.end(half, half)
    await begun[2]
    begun[3].cancel()
    for _ in range(2):
        turns.end(half, half)
    await turns.begin("b", 2 * half)


async def test_one_large_request_begins_in_a_turn_of_the_event_loop() -> None:
    turns = LargeRequestTurns(BYTES_PER_S)
    begun = [asyncio.create_task(turns.begin("a", LARGE_REQUESTS_AT_ONCE_BYTES)) for _ in range(3)]
    in_turns = []
    while not all(task.done() for task in begun):
        before = sum(task.done() for task in begun)
        await asyncio.sleep(0)
        in_turns.append(sum(task.done() for task in begun) - before)
    assert max(in_turns) == 1


@pytest.mark.parametrize(
    ("size", "rest_bytes", "is_next_begun"),
    [
        (LARGE_REQUESTS_AT_ONCE_BYTES, LARGE_REQUESTS_AT_ONCE_BYTES, True),
        (2**20 - 1, 2**20 - 1, False),
        (2**20 - 1, 0, True),
    ],
)
async def test_a_request_that_had_a_turn_for_itself_delays_the_next_ones(
    size: int, rest_bytes: int, *, is_next_begun: bool
) -> None:
    turns = LargeRequestTurns(bytes_per_s=1)
    await turns.begin("a", size)
    turns.end(size, rest_bytes)
    following = asyncio.create_task(turns.begin("b", LARGE_REQUESTS_IN_PROGRESS_BYTES))
    for _ in range(10):
        await asyncio.sleep(0)
    assert following.done() is is_next_begun
    following.cancel()


# -- queries --------------------------------------------------------------------------------------------------


async def test_one_client_runs_three_quarters_of_the_queries() -> None:
    turns, begun, go = QueryTurns(4), list[str](), asyncio.Event()

    async def query(name: str) -> str:
        begun.append(name)
        await go.wait()
        return name

    first = [asyncio.create_task(turns.run("a", partial(query, f"a{number}"))) for number in range(5)]
    others = asyncio.create_task(turns.run("b", partial(query, "b")))
    await asyncio.sleep(0.01)
    assert begun == ["a0", "a1", "a2", "b"]
    go.set()
    assert await asyncio.gather(*first, others) == ["a0", "a1", "a2", "a3", "a4", "b"]


async def test_query_of_a_cancelled_request_has_its_turn_to_its_end() -> None:
    turns, begun, go = QueryTurns(1), list[str](), asyncio.Event()

    async def query(name: str) -> None:
        begun.append(name)
        await go.wait()
        raise LookupError(name)

    cancelled, waiting = (asyncio.create_task(turns.run("a", partial(query, name))) for name in ("first", "second"))
    await asyncio.sleep(0.01)
    cancelled.cancel()
    await asyncio.sleep(0.01)
    assert begun == ["first"]
    go.set()
    with pytest.raises(LookupError, match="second"):
        await waiting


async def test_items_are_converted_in_order_and_other_tasks_come_in_between() -> None:
    converted: list[int] = []
    count = 3 * CONVERTED_AT_ONCE + 1

    def convert(item: int) -> str:
        converted.append(item)
        return str(item)

    converting = asyncio.create_task(convert_all(range(count), convert))
    in_turns = []
    while not converting.done():
        before = len(converted)
        await asyncio.sleep(0)
        in_turns.append(len(converted) - before)
    assert converting.result() == [str(item) for item in range(count)]
    assert max(in_turns) == CONVERTED_AT_ONCE
