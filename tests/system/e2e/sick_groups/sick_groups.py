"""An hour with seven sick groups and a healthy one, on a real coordinator over a real Postgres.

| group | what ails it |
|---|---|
| `healthy` | nothing; its reports move the ends of the topic `orders` |
| `stuck` | since minute 30 it waits for a member that heartbeats and never joins; it reads `orders`, too |
| `emptied` | its only member left in minute 20; it read `orders` |
| `crash-loop` | one of its clients is killed every 40 s and comes back with a new member id |
| `late` | a live member joins 40 s late, and the rebalance timeout is 20 s |
| `young` | it exists since minute 40, and rebalances most of the time |
| `idle-member` | three members share two partitions |
| `deleted` | it lived from minute 5 to minute 15 |
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from tests.system.e2e.sick_groups.consumers import Consumer, SendRequest, Topic

MINUTE_S: Final = 60.0
LAST_EVENT_MINUTE: Final = 57
"""Afterwards no consumer starts or ends, so that every group but one is Stable when the hour ends."""
ORDERS: Final = Topic("orders", 6)
CLICKS: Final = Topic("clicks", 4)
FEW: Final = Topic("few", 2, rate=1.0)
REASON: Final = {"reason": "the hour of sick groups"}


class Hour:
    """Starts and ends the consumers of all groups."""

    def __init__(self, send_request: SendRequest) -> None:
        self._send_request = send_request
        self._started_s = asyncio.get_running_loop().time()
        self._scenarios: list[asyncio.Task[None]] = []
        self._consumers: list[tuple[Consumer, asyncio.Task[None]]] = []

    async def pass_by(self, caught_up: asyncio.Event) -> None:
        """Simulate the hour. Afterwards the remaining consumers only heartbeat.

        Args:
            caught_up: set when no more time is to pass.
        """
        for topic in (ORDERS, CLICKS, FEW):
            await self._change("PUT", f"/v1/topics/{topic.name}", {"partitions": topic.partitions, **REASON})
        await self._change("PUT", "/v1/groups/late/config", {"values": {"rebalance_timeout_ms": 20_000}, **REASON})
        for scenario in (
            self._healthy(),
            self._stuck(),
            self._emptied(),
            self._crash_loop(),
            self._late(),
            self._young(),
            self._idle_member(),
            self._deleted(),
        ):
            self._scenarios.append(asyncio.create_task(scenario))
        await self._minute(LAST_EVENT_MINUTE)
        await _cancel(self._scenarios)
        await caught_up.wait()
        for consumer, _ in self._consumers:
            await consumer.stop_committing()

    async def end(self) -> None:
        """Kill every consumer."""
        await _cancel([task for _, task in self._consumers])

    # -- the groups ----------------------------------------------------------------------------------------

    async def _healthy(self) -> None:
        for number in (1, 2, 3):
            self._start(Consumer(self._send_request, "healthy", f"healthy-{number}", ORDERS))

    async def _stuck(self) -> None:
        long_ms = 3_600_000
        self._start(Consumer(self._send_request, "stuck", "stuck-1", ORDERS, rebalance_ms=long_ms))
        self._start(Consumer(self._send_request, "stuck", "stuck-2", ORDERS, rebalance_ms=long_ms, never_rejoins=True))
        await self._minute(30)
        self._start(Consumer(self._send_request, "stuck", "stuck-3", ORDERS, rebalance_ms=long_ms))

    async def _emptied(self) -> None:
        only = Consumer(self._send_request, "emptied", "emptied-1", ORDERS)
        running = self._start(only)
        await self._minute(20)
        running.cancel()
        await only.leave()

    async def _crash_loop(self) -> None:
        self._start(Consumer(self._send_request, "crash-loop", "crash-steady", CLICKS, joins_late_s=4))
        while True:
            running = self._start(Consumer(self._send_request, "crash-loop", "crash-2", CLICKS, session_ms=6_000))
            await asyncio.sleep(40)
            running.cancel()
            await asyncio.sleep(15)

    async def _late(self) -> None:
        self._start(Consumer(self._send_request, "late", "late-2", CLICKS, joins_late_s=40))
        while True:
            other = Consumer(self._send_request, "late", "late-1", CLICKS)
            running = self._start(other)
            await asyncio.sleep(5 * MINUTE_S)
            running.cancel()
            await other.leave()

    async def _young(self) -> None:
        await self._minute(40)
        self._start(Consumer(self._send_request, "young", "young-1", CLICKS, joins_late_s=45))
        while True:
            other = Consumer(self._send_request, "young", "young-2", CLICKS)
            running = self._start(other)
            await asyncio.sleep(MINUTE_S)
            running.cancel()
            await other.leave()

    async def _idle_member(self) -> None:
        for number in (1, 2, 3):
            self._start(Consumer(self._send_request, "idle-member", f"idle-{number}", FEW))

    async def _deleted(self) -> None:
        await self._minute(5)
        only = Consumer(self._send_request, "deleted", "deleted-1", CLICKS)
        running = self._start(only)
        await self._minute(15)
        running.cancel()
        await only.leave()
        await self._change("DELETE", "/v1/groups/deleted?reason=hour", None)

    # -- how they are started ----------------------------------------------------------------------------------

    def _start(self, consumer: Consumer) -> asyncio.Task[None]:
        task = asyncio.create_task(consumer.run(self._started_s))
        self._consumers.append((consumer, task))
        return task

    async def _minute(self, minute: float) -> None:
        await asyncio.sleep(self._started_s + minute * MINUTE_S - asyncio.get_running_loop().time())

    async def _change(self, method: str, path: str, body: object) -> None:
        status, answer = await self._send_request(method, path, body)
        assert status < 300, answer


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks; what one of them failed with before is raised."""
    failures = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for failure in failures:
        if failure is not None:
            raise failure
