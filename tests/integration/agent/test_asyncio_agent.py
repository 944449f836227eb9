"""What only the asyncio agent has: coroutine callbacks, cancellation, one task at a time, and HTTP over aiohttp.

Its membership is the blocking agent's; the stories in `tests.system.e2e.stories` run both.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import AgentError, CommitFailed, ConcurrentUse, OffsetAndMetadata, TopicPartition, Unreachable
from agent.aio import ConsumerAgent
from agent.aio.http_client import AiohttpClient
from agent.core.runtime import HttpRequest, NoResponse
from agent.errors import CoordinatorNotAvailable
from tests.integration.agent.agents import QUICK
from tests.support.fake_coordinator import Drop, FakeCoordinator, Hold, Problem
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, turns

ZERO = TopicPartition("orders", 0)
Scenario = Callable[[ConsumerAgent], Coroutine[Any, Any, None]]

CALLS: dict[str, Callable[[ConsumerAgent], object]] = {
    "subscribe": lambda agent: agent.subscribe(["orders"]),
    "unsubscribe": lambda agent: agent.unsubscribe(),
    "poll": lambda agent: agent.poll(),
    "wait": lambda agent: agent.wait(0),
    "close": lambda agent: agent.close(),
    "position": lambda agent: agent.position(ZERO),
    "seek": lambda agent: agent.seek(ZERO, 1),
    "pause": lambda agent: agent.pause([ZERO]),
    "resume": lambda agent: agent.resume([ZERO]),
    "commit": lambda agent: agent.commit(),
    "committed": lambda agent: agent.committed(),
}


def play(scenario: Scenario, url: str, **options: Any) -> None:  # noqa: ANN401  # whatever an agent takes
    """Run a scenario with an agent of the group "billing"; closing it leaves no task."""
    topics = options.pop("topics", ["orders"])

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), ConsumerAgent(url, "billing", topics, **(QUICK | options)) as agent:
            await scenario(agent)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


@pytest.fixture
def never(coordinator: FakeCoordinator) -> Iterator[threading.Event]:
    """Return what requests wait for until the test is over."""
    assert coordinator.seen == []
    event = threading.Event()
    yield event
    event.set()


async def until_called(coordinator: FakeCoordinator, call: str, times: int) -> None:
    await asyncio.to_thread(coordinator.wait_for_calls, call, times)


def test_functions_of_the_caller_may_be_coroutine_functions(coordinator: FakeCoordinator) -> None:
    called: list[str] = []

    def recorder(name: str, value: object = None) -> Callable[..., Awaitable[object]]:
        async def call(*_: object) -> object:
            await asyncio.sleep(0)
            called.append(name)
            return value

        return call

    async def scenario(agent: ConsumerAgent) -> None:
        assert set(await agent.poll(PATIENCE_S)) == {ZERO, TopicPartition("payments", 0)}
        await agent.commit({ZERO: 1}, asynchronous=True, on_complete=recorder("complete"))
        agent.seek(ZERO, 4)
        await agent.commit()
        assert await agent.committed([ZERO]) == {ZERO: OffsetAndMetadata(4, log_end_offset=9)}

    coordinator.topics["orders"]["partitions"] = 1
    play(
        scenario,
        coordinator.url,
        topics=["orders", "payments"],
        partitions_of=recorder("count", 1),
        end_offset_of=recorder("end", 9),
        on_assigned=recorder("assigned"),
        on_revoked=recorder("revoked"),
    )

    assert [name for name in called if name != "end"] == ["count", "assigned", "complete", "revoked"]


@pytest.mark.parametrize("name", list(CALLS))
def test_a_second_task_is_rejected(coordinator: FakeCoordinator, name: str) -> None:
    refused: list[ConcurrentUse] = []

    async def intrude(agent: ConsumerAgent) -> None:
        with pytest.raises(ConcurrentUse, match=rf"{name}\(\): another task") as caught:
            await CALLS[name](agent)  # type: ignore[misc]  # those that are no coroutines raise before they are awaited
        refused.append(caught.value)

    async def scenario(agent: ConsumerAgent) -> None:
        agents.append(agent)
        await agent.poll(PATIENCE_S)

    async def while_inside(_: object) -> None:
        await asyncio.create_task(intrude(agents[0]))

    agents: list[ConsumerAgent] = []
    play(scenario, coordinator.url, on_assigned=while_inside)

    assert len(refused) == 1


def test_a_callback_may_use_the_agent(coordinator: FakeCoordinator) -> None:
    async def scenario(agent: ConsumerAgent) -> None:
        agents.append(agent)
        await agent.poll(PATIENCE_S)
        assert await agent.position(ZERO) == 7

    async def commit(_: object) -> None:
        await agents[0].commit({ZERO: 7})

    agents: list[ConsumerAgent] = []
    play(scenario, coordinator.url, on_assigned=lambda _: agents[0].seek(ZERO, 7), on_revoked=commit)

    assert coordinator.offsets[ZERO]["offset"] == 7


def test_a_large_commit_is_sent_without_a_warning(coordinator: FakeCoordinator) -> None:
    large = OffsetAndMetadata(7, metadata="x" * 2**20)

    async def scenario(agent: ConsumerAgent) -> None:
        await agent.poll(PATIENCE_S)
        await agent.commit({ZERO: large})

    play(scenario, coordinator.url)

    assert coordinator.offsets[ZERO]["metadata"] == large.metadata


def test_a_cancelled_call_leaves_the_agent_usable(coordinator: FakeCoordinator, never: threading.Event) -> None:
    async def scenario(agent: ConsumerAgent) -> None:
        await agent.poll(PATIENCE_S)
        coordinator.next("commit", Hold(never, Problem("COORDINATOR_NOT_AVAILABLE", 503, "retry")))
        committing = asyncio.create_task(agent.commit({ZERO: 1}))
        await until_called(coordinator, "commit", 1)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        await agent.commit({ZERO: 2})

    play(scenario, coordinator.url)

    assert coordinator.offsets[ZERO]["offset"] == 2


def test_a_commit_whose_task_is_cancelled_fails_and_the_next_one_is_sent(
    coordinator: FakeCoordinator, never: threading.Event
) -> None:
    failed: list[AgentError | None] = []

    async def scenario(agent: ConsumerAgent) -> None:
        await agent.poll(PATIENCE_S)
        coordinator.next("commit", Hold(never))
        await agent.commit({ZERO: 1}, asynchronous=True, on_complete=lambda _, error: failed.append(error))
        await until_called(coordinator, "commit", 1)
        await agent.commit({ZERO: 2}, asynchronous=True, on_complete=lambda _, error: failed.append(error))
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # as programs do at a stop signal
            task.cancel()
        await agent.commit({ZERO: 3})

    play(scenario, coordinator.url)

    assert [type(error) for error in failed] == [CoordinatorNotAvailable, CoordinatorNotAvailable]
    assert coordinator.offsets[ZERO]["offset"] == 3


def test_closing_ends_a_long_poll(coordinator: FakeCoordinator, never: threading.Event) -> None:
    async def scenario(agent: ConsumerAgent) -> None:
        coordinator.next("join", Hold(never))
        await agent.poll()
        await until_called(coordinator, "join", 1)

    play(scenario, coordinator.url)

    assert coordinator.count("sync") == 0


def test_a_close_that_is_cancelled_at_its_end_leaves_no_task(coordinator: FakeCoordinator) -> None:
    async def run() -> None:
        agent = ConsumerAgent(coordinator.url, "billing", ["orders"], **QUICK)
        await agent.poll(PATIENCE_S)
        await agent.commit({ZERO: 1}, asynchronous=True)
        closing = asyncio.create_task(agent.close())
        while not agent._shared.is_closed:  # noqa: ASYNC110  # nothing announces it
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await turns()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_an_agent_with_a_hanging_function_can_be_closed(coordinator: FakeCoordinator) -> None:
    async def hang(_: str) -> None:
        hanging.set()
        await asyncio.get_running_loop().create_future()

    async def scenario(agent: ConsumerAgent) -> None:
        await agent.poll()
        await hanging.wait()

    coordinator.topics.clear()
    hanging = asyncio.Event()
    play(scenario, coordinator.url, partitions_of=hang)


def test_heartbeats_are_sent_though_nothing_has_to_be_waited_for(coordinator: FakeCoordinator) -> None:
    async def scenario(agent: ConsumerAgent) -> None:
        await agent.poll(PATIENCE_S)
        polls = 0
        while coordinator.count("heartbeat") < 3:
            for partition, offset in (await agent.poll()).items():
                agent.seek(partition, offset + 1)
            polls += 1
            assert polls < 1_000_000

    coordinator.heartbeat_interval_ms = 5
    play(scenario, coordinator.url)


def test_wakeup_from_another_thread_ends_a_poll(coordinator: FakeCoordinator, never: threading.Event) -> None:
    async def scenario(agent: ConsumerAgent) -> None:
        coordinator.next("join", Hold(never))
        polling = asyncio.create_task(agent.poll(10 * PATIENCE_S))
        await until_called(coordinator, "join", 1)
        await asyncio.to_thread(agent.wakeup)
        assert dict(await polling) == {}

    play(scenario, coordinator.url)


def test_an_agent_is_made_before_its_event_loop(coordinator: FakeCoordinator) -> None:
    agent = ConsumerAgent(coordinator.url, "billing", **QUICK)
    agent.subscribe(["orders"])

    async def run() -> None:
        async with agent:
            assert len(await agent.poll(PATIENCE_S)) == 3

    asyncio.run(run())


def test_a_lost_connection_is_a_failure_that_is_tried_again(coordinator: FakeCoordinator) -> None:
    async def scenario(agent: ConsumerAgent) -> None:
        coordinator.next("join", Drop(is_handled=False))
        await agent.poll(PATIENCE_S)
        coordinator.next("commit", Drop(is_handled=False), Problem("COORDINATOR_LOAD_IN_PROGRESS", 503, "retry"))
        await agent.commit({ZERO: 3})

    play(scenario, coordinator.url)

    assert (coordinator.count("commit"), coordinator.offsets[ZERO]["offset"]) == (3, 3)


def test_an_agent_without_a_node_can_be_closed() -> None:
    async def scenario(agent: ConsumerAgent) -> None:
        assert dict(await agent.poll(timeout_s=0.1)) == {}
        with pytest.raises(CommitFailed):
            await agent.commit({ZERO: 5})

    play(scenario, f"http://127.0.0.1:{free_port()}")


def test_a_node_that_does_not_answer_is_unreachable(coordinator: FakeCoordinator, never: threading.Event) -> None:
    async def scenario(agent: ConsumerAgent) -> None:
        coordinator.next("query", *[Hold(never)] * 100)
        with pytest.raises(Unreachable, match=rf"no response from {coordinator.url}"):
            await agent.committed([ZERO], timeout_s=0.01)

    play(scenario, coordinator.url, request_timeout_ms=1)


def test_the_timeout_of_a_response_does_not_include_that_of_a_connection(
    coordinator: FakeCoordinator, never: threading.Event
) -> None:
    async def send() -> None:
        http = AiohttpClient(None)
        unlimited_ms = 2_000 * PATIENCE_S
        with pytest.raises(NoResponse):
            await http.send(HttpRequest("GET", coordinator.url, {}, None, unlimited_ms, timeout_ms=1))
        await http.close()

    coordinator.next("topics", Hold(never))
    asyncio.run(asyncio.wait_for(send(), PATIENCE_S))


def test_the_reason_is_the_operating_systems(secure: FakeCoordinator) -> None:
    async def failure(url: str) -> NoResponse:
        patient_ms = 1_000 * PATIENCE_S
        http = AiohttpClient(None)
        with pytest.raises(NoResponse) as caught:
            await http.send(HttpRequest("GET", url, {}, None, patient_ms, patient_ms))
        await http.close()
        return caught.value

    refused = asyncio.run(failure(f"http://127.0.0.1:{free_port()}"))
    doubted = asyncio.run(failure(secure.url))

    assert str(refused).startswith("[Errno 111]")
    assert "certificate verify failed" in str(doubted)
    assert not refused.was_connected
    assert secure.seen == []


def test_an_agent_that_trusts_the_authority_joins(secure: FakeCoordinator, certificate: Path) -> None:
    async def scenario(agent: ConsumerAgent) -> None:
        await agent.poll(PATIENCE_S)

    play(scenario, secure.url, ssl_context=ssl.create_default_context(cafile=certificate), token="s3cret")

    assert {seen.headers["Authorization"] for seen in secure.seen} == {"Bearer s3cret"}
