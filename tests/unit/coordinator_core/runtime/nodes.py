"""A coordinator on an in-memory store whose writes can be held up or made to fail."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from uuid import uuid4

from coordinator_core.admin.changes import Change
from coordinator_core.protocol.consumer_protocol import Subscription, write_subscription
from coordinator_core.protocol.requests import (
    CommitOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    SupportedProtocol,
    SyncGroup,
)
from coordinator_core.protocol.responses import JoinGroupResponse, SyncGroupResponse
from coordinator_core.protocol.settings import GroupSettings, Now
from coordinator_core.runtime.clock import Clock, SystemClock
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.interface import Store, StoreError
from coordinator_core.state_store.rows import Batch, WriteResult
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S, limited

LEASE_TTL_MS = 18_000
"""Kept on a machine that stands still for seconds; a test of a lease's end sets another, or puts the clock forward."""
RENEWAL_S = 0.07
"""How often a node with this lease renews in tests, which often wait for it."""
QUICK = GroupSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1)
_serial = count(1)


class HeldStore(MemoryStore):
    """A store whose writes wait for `go`, and fail once with `failure` if there is one."""

    def __init__(self, shards: int = 50) -> None:
        super().__init__(shards=shards)
        self.go = threading.Event()
        self.go.set()
        self.is_writing = threading.Event()
        self.failure: StoreError | None = None

    def write(self, batch: Batch) -> WriteResult:
        self.is_writing.set()
        assert self.go.wait(PATIENCE_S), "the test never let the write go"
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return super().write(batch)


class RefusingStore(MemoryStore):
    """A store that refuses the rows of a group."""

    refused: str | None = None

    def write(self, batch: Batch) -> WriteResult:
        """Write a batch, but for the rows of the group."""
        if self.refused is None:
            return super().write(batch)
        stored = tuple(each for each in batch.writes if each.group_id != self.refused)
        written = super().write(replace(batch, writes=stored))
        is_refused = len(stored) < len(batch.writes)
        return replace(written, refused_groups={self.refused: "out of range"} if is_refused else {})


def config(name: str = "a", settings: GroupSettings = QUICK, **overrides: int | str) -> NodeConfig:
    """Return the config of a node that is quick about everything."""
    quick = NodeConfig(node_id=name, listeners={"http": f"http://{name}"}, defaults=settings, lease_ttl_ms=LEASE_TTL_MS)
    return replace(quick, **overrides)  # type: ignore[arg-type]  # each test gives what fits


@asynccontextmanager
async def running(
    store: Store, node: NodeConfig | None = None, clock: Clock | None = None
) -> AsyncIterator[Coordinator]:
    """Run a coordinator for the time of a block; it renews often, unless the test has set the time of its leases."""
    node = node or config()
    coordinator = Coordinator(store, node, clock)
    await coordinator.start()
    renewing = asyncio.create_task(_renew_often(coordinator)) if node.lease_ttl_ms == LEASE_TTL_MS else None
    try:
        yield coordinator
    finally:
        if renewing is not None:
            renewing.cancel()
        await coordinator.stop()


async def _renew_often(node: Coordinator) -> None:
    while True:
        await asyncio.sleep(RENEWAL_S)
        node._ownership.wake()


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    async with limited(what):
        while not condition():  # noqa: ASYNC110 - what is awaited is outside of this loop's reach
            await asyncio.sleep(0.005)


async def until_readiness(node: Coordinator, *, expected: bool, reason: str = "") -> None:
    """Wait until a node is ready, or is not for a reason that contains a text."""
    async with limited(f"is_ready={expected} {reason}"):
        while True:
            found = await node.readiness()
            if found.is_ready is expected and reason in "; ".join(found.reasons):
                return
            await asyncio.sleep(0.005)


class Member:
    """A member of a group, as it asks a coordinator."""

    def __init__(self, node: Coordinator, group_id: str, topics: tuple[str, ...] = ("t",)) -> None:
        self.node = node
        self.group_id = group_id
        self.topics = topics
        self.member_id = ""
        self.generation = -1
        self.session_timeout_ms = 60_000

    async def join(self) -> JoinGroupResponse:
        """Join as an old client does, in one step, and remember what the answer says."""
        offer = SupportedProtocol("range", write_subscription(Subscription(self.topics)))
        answer = await self.node.submit(
            self.group_id,
            JoinGroup(
                token=self.node.new_token(),
                member_id=self.member_id,
                group_instance_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=(offer,),
                new_member_id=f"c-{next(_serial)}",
                require_known_member_id=False,
            ),
        )
        assert isinstance(answer, JoinGroupResponse)
        self.member_id, self.generation = answer.member_id, answer.generation
        return answer

    async def sync(self, *assignments: tuple[str, bytes]) -> SyncGroupResponse:
        """Sync, with assignments if one leads."""
        token = self.node.new_token()
        request = SyncGroup(token, self.generation, self.member_id, assignments=assignments)
        answer = await self.node.submit(self.group_id, request)
        assert isinstance(answer, SyncGroupResponse)
        return answer

    async def settle(self) -> None:
        """Join, and lead a group of one to Stable."""
        await self.join()
        await self.sync((self.member_id, b""))

    async def heartbeat(self) -> None:
        """Send a heartbeat."""
        await self.node.submit(self.group_id, Heartbeat(self.node.new_token(), self.generation, self.member_id))

    async def leave(self) -> None:
        """Leave."""
        await self.node.submit(self.group_id, LeaveGroup(self.node.new_token(), (LeavingMember(self.member_id),)))

    async def commit(self, offset: int, topic: str = "t", partition: int = 0) -> None:
        """Commit one offset."""
        offsets = (OffsetToCommit(topic, partition, offset),)
        who = (self.generation, self.member_id, None)
        await self.node.submit(self.group_id, CommitOffsets(self.node.new_token(), *who, offsets))


class JumpingClock:
    """The machine's clock, and jumps on top of it, as after a process was stopped."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.jumped_ms = 0

    def now(self) -> Now:
        now = self._clock.now()
        return Now(now.node_ms + self.jumped_ms, now.wall_ms + self.jumped_ms)


def state_of(node: Coordinator, group_id: str) -> str | None:
    view = node.describe(group_id)
    return None if view is None else view.state


def a_change() -> Change:
    return Change("test", "because", str(uuid4()))


async def commit_simple(node: Coordinator, group_id: str, partitions: int) -> None:
    member = Member(node, group_id)
    for partition in range(partitions):
        await member.commit(partition, partition=partition)
