"""Simulated nodes: each runs processes one after the other, and each process is the real `Coordinator` in its own loop.

A process is started again after it died. What it knew is gone; what it sent is on its way all the same.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from api.http.problems import LongPollTimedOut
from api.shared.deadlines import Deadlines
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.requests import CommitOffsets, Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from coordinator_core.protocol.settings import GroupSettings, Now
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.interface import StoreError
from tests.system.simulation.database import DATABASE_AHEAD_MS, Connections, WatchedStore
from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.weather import Weather
from tests.system.simulation.world import LOOKS_MAX, World

LEASE_TTL_MS = 5_000
CHECKPOINT_INTERVAL_MS = 10_000
"""So long that commits are dirty when their group is locked, or their shard gets another owner."""
MAX_CHECKPOINT_OFFSETS = 3
"""So few that the offsets of one shard need several transactions, between which nodes crash."""
MAX_QUEUED_ROWS = 25
"""So few that a slow database fills the queue."""
REQUEST_TIMEOUT_MS = 2_000
"""The time limit of a request that is no long poll; then the client retries."""
LONG_POLLS = (JoinGroup, SyncGroup)
START_AGAIN_S = (0.3, 12.0)
"""How long a dead process is down."""
FINDS_OUT_S = 2.0
"""Within this time after a call that was not answered a node finds out what it owns."""
CLOCK_DRIFT = 2e-5

SETTINGS = GroupSettings(
    heartbeat_interval_ms=9_900, group_initial_rebalance_delay_ms=1_000, group_new_member_join_timeout_ms=40_000
)
"""What all nodes are started with: heartbeats that cost less, and a short wait for newcomers."""

Ask = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | CommitOffsets
Answer = Any
Say = Callable[[Answer], None]


@dataclass(frozen=True, slots=True)
class Message:
    """A request to a node: a member's request, or ("call") any other operation of a coordinator."""

    sender: str
    group_id: str
    request: Ask | None = None
    call: Callable[[Coordinator], Awaitable[Answer]] | None = None
    is_fetch: bool = False
    """Whether the call fetches the group's offsets."""
    max_wait_s: float = REQUEST_TIMEOUT_MS / 1000


class Listener(Protocol):
    """Receives every request that reaches a process, and every response."""

    def began(self, process: "Process") -> None:
        """Take note of a process that begins."""
        ...

    def heard(self, process: "Process", message: Message) -> None:
        """Take note that a message has reached a process."""
        ...

    def said(self, process: "Process", request: Ask, group_id: str, answer: Answer) -> None:
        """Take note of an answer to a member, in the moment in which it leaves."""
        ...

    def fetch_began(self, group_id: str) -> Callable[[Answer], None]:
        """Take note that a fetch of offsets begins; return what takes note of its answer."""
        ...


class NodeClock:
    """The process's monotonic clock, and the machine's wall clock, which people and daemons set."""

    def __init__(self, world: World, node: "Node", loop: SimulatedLoop) -> None:
        self._world = world
        self._node = node
        self._loop = loop
        self._seen_at = (-1.0, 0)
        self._now = Now(0, 0)

    def now(self) -> Now:
        """Return this moment on both, which is read many times in one."""
        world = self._world
        world.looks += 1
        if world.looks > LOOKS_MAX:
            world.spin(self._loop.name)
        seen_at = (world.now_s, self._node.wall_ahead_ms)
        if seen_at != self._seen_at:
            self._seen_at = seen_at
            self._now = Now(int(self._loop.time() * 1000), self._node.wall_ms())
        return self._now


class Process:
    """One life of a node."""

    def __init__(self, node: "Node", world: World, weather: Weather, store: WatchedStore, listener: Listener) -> None:
        drift = 1 + world.between(-CLOCK_DRIFT, CLOCK_DRIFT)
        self.node = node
        self.started_s = world.now_s
        self.is_serving = False
        self.loop = SimulatedLoop(world, node.name, ahead_s=world.between(0, 1e6), rate=drift)  # type: ignore[abstract]  # sockets are never asked for
        self.connections = Connections(world, weather, store, self.loop, lambda why: node.crash(why, process=self))
        config = NodeConfig(
            node.name,
            {"http": node.url},
            lease_ttl_ms=LEASE_TTL_MS,
            defaults=SETTINGS,
            max_queued_rows=MAX_QUEUED_ROWS,
            offsets_checkpoint_interval_ms=CHECKPOINT_INTERVAL_MS,
            max_checkpoint_offsets=MAX_CHECKPOINT_OFFSETS,
        )
        self.coordinator = Coordinator(store, config, NodeClock(world, node, self.loop), self.connections)
        self._deadlines = Deadlines(REQUEST_TIMEOUT_MS)
        self.open: dict[Say, Message] = {}
        """Who waits for an answer of this process."""
        self.pauses: list[tuple[float, float]] = []
        """From when to when it did not run."""
        self._world = world
        self._listener = listener
        self._starting = self.loop.create_task(self._start())
        listener.began(self)

    async def _start(self) -> None:
        try:
            await self.coordinator.start()
        except StoreError:
            self.node.crash("it could not reach the database when it started", process=self)
        else:
            self.is_serving = True

    @property
    def ran_for_s(self) -> float:
        """For how long it has run without a pause, in seconds."""
        return self._world.now_s - (self.pauses[-1][1] if self.pauses else 0)

    def receive(self, message: Message, say: Say) -> bool:
        """Let a message reach the process's sockets; return whether the process runs."""
        if self.loop.is_dead or not self.is_serving:
            return False
        self.open[say] = message
        self._listener.heard(self, message)
        return self.loop.deliver(self._begin, message, say)

    def _begin(self, message: Message, say: Say) -> None:
        self.loop.create_task(self._serve(message, say))

    async def _serve(self, message: Message, say: Say) -> None:
        """Answer as the HTTP server does: in time, or with a retriable error."""
        request = None if message.request is None else self._stamped(message.request)
        try:
            answer: Answer = await self._answer(message, request)
        except TimeoutError:
            answer = _out_of_time(request)
        except (CoordinatorError, StoreError, ValueError) as error:
            answer = error
        if request is not None:
            self._listener.said(self, request, message.group_id, answer)
        if self.open.pop(say, None) is not None:
            say(answer)

    async def _answer(self, message: Message, request: Ask | None) -> Answer:
        if request is None:
            assert message.call is not None
            fetched = self._listener.fetch_began(message.group_id) if message.is_fetch else None
            answer = await self._deadlines.wait(message.call(self.coordinator))
            if fetched is not None:
                fetched(answer)
            return answer
        if not isinstance(request, LONG_POLLS):
            return await self._deadlines.wait(self._asked(message.group_id, request))
        async with asyncio.timeout(message.max_wait_s):
            return await self._asked(message.group_id, request)

    def _asked(self, group_id: str, request: Ask) -> Awaitable[Answer]:
        """Ask the coordinator, which takes in no more than three quarters of its queue: everyone is one client."""
        queued_rows = self.coordinator._writer.queued_rows
        is_full = 4 * queued_rows > 3 * MAX_QUEUED_ROWS and not isinstance(request, Heartbeat)
        if is_full:
            self._world.strike("queue_full", self.node.name)
        answer = self.coordinator.submit(group_id, request)
        if is_full and not self.coordinator._shard_of(group_id, self.coordinator._clock.now()).is_loading:
            self._world.fail("QueuesAreBounded", f"{self.node.name} takes in {type(request).__name__}", group_id)
        return answer

    def _stamped(self, request: Ask) -> Ask:
        token = self.coordinator.new_token()
        if isinstance(request, Heartbeat):  # most requests are: `replace` takes longer
            return Heartbeat(token, request.generation, request.member_id, request.group_instance_id)
        if isinstance(request, JoinGroup):
            fresh = f"{request.group_instance_id or request.client_id}-{self._world.name()[:8]}"
            return replace(request, token=token, new_member_id=fresh)
        return replace(request, token=token)


def _out_of_time(request: Ask | None) -> CoordinatorError:
    assert isinstance(request, LONG_POLLS)
    return LongPollTimedOut(request.member_id or getattr(request, "new_member_id", ""))


class Node:
    """One address, and the process that lives there now."""

    def __init__(self, name: str, world: World, weather: Weather, store: WatchedStore, listener: Listener) -> None:
        self.name = name
        self.url = f"http://{name}"
        self.cut_until_s = 0.0
        """Until when agents do not reach it."""
        self.process: Process | None = None
        self.wall_ahead_ms = world.chance.randint(-200, 200)
        """What its wall clock is ahead of the database's."""
        self._parts = (world, weather, store, listener)
        self._store = store
        self._world = world
        self._weather = weather
        self._past: list[Process] = []

    def wall_ms(self) -> int:
        """Return what the machine's wall clock shows."""
        return DATABASE_AHEAD_MS + self.wall_ahead_ms + int(self._world.now_s * 1000)

    def jump(self, by_ms: int) -> None:
        """Set the wall clock."""
        self.wall_ahead_ms += by_ms

    def boot(self) -> None:
        """Start a process, unless there is one."""
        if self.process is None:
            self._world.note("", f"{self.name} starts")
            self.process = Process(self, *self._parts)

    def crash(self, why: str, process: Process | None = None) -> None:
        """Kill the process (that one, if it is still this node's); another one starts in a while."""
        if self.process is None or (process is not None and process is not self.process):
            return
        self._world.strike("node_crashed", f"{self.name} {why}")
        self._end(self.process)

    def _end(self, process: Process) -> None:
        process.loop.kill()
        for say in process.open:
            say(ConnectionResetError(f"{self.name} is gone"))
        process.open.clear()
        self.process = None
        self._past.append(process)  # what is left of it is not collected at some odd moment
        self._world.after(self._world.between(*START_AGAIN_S), self.boot)

    def pause(self, for_s: float) -> None:
        """Stop the process with SIGSTOP, and let it go on after a while."""
        process = self.process
        if process is None or process.loop.is_paused:
            return
        process.pauses.append((self._world.now_s, self._world.now_s + for_s))
        process.loop.pause()
        self._world.after(for_s, partial(self._resume, process))

    def _resume(self, process: Process) -> None:
        if not process.loop.is_dead:
            self._world.note("", f"{self.name} goes on")
            process.loop.resume()

    def stop(self) -> None:
        """Ask the process to end; it hands its shards over first."""
        process = self.process
        if process is not None and process.is_serving:
            process.is_serving = False
            process.loop.deliver(lambda: process.loop.create_task(self._stop(process)))

    async def _stop(self, process: Process) -> None:
        began_s = self._world.now_s
        await process.coordinator.stop()
        # Leases of an earlier process that crashed may bear the node's name, and expire by themselves.
        leases = self._store.leases()
        left = [lease.shard_id for lease in leases if lease.node_id == self.name and not lease.is_expired]
        is_sure = process.connections.in_trouble_at_s < began_s - FINDS_OUT_S
        if left and is_sure and not process.loop.is_dead:
            self._world.fail("StoppedNodesReleaseShards", f"{self.name} has stopped, and keeps {left}")
        if self.process is process:
            self._world.note("", f"{self.name} has stopped")
            self._end(process)

    def finish(self) -> None:
        """End for good, when the simulation is over."""
        for process in [*self._past, *([self.process] if self.process else [])]:
            process.loop.kill()
