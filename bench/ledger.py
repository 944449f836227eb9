"""Measure what history costs rebalances, commits and heartbeats.

Each is measured alternately with and without history: rebalances and commits write batches with or without history
rows to a durable Postgres; heartbeats run in a shard that does or does not measure gaps. The ratio is the cost of
history. Protocol decisions and HTTP are not included.

Run: python -m bench.ledger [FILE]
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Final, NamedTuple

from msgspec.structs import replace

from bench.bench_servers import Place, in_durable_place
from bench.cpu_time import CpuMeter
from bench.figures import Figure, middle, run_benchmark
from bench.stable_groups import NODE, OFFER
from coordinator_core.protocol.consumer_protocol import Assignment, TopicPartitions, write_assignment
from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS
from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import (
    Deadline,
    DeadlineKind,
    ExpireDeadline,
    ForceRebalance,
    Heartbeat,
    JoinGroup,
    OffsetToCommit,
    Request,
    SyncGroup,
)
from coordinator_core.protocol.settings import Context, GroupSettings, Now
from coordinator_core.protocol.states import STABLE
from coordinator_core.runtime.clock import SystemClock, SystemThreads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.group_context import GroupContext
from coordinator_core.runtime.groups_of_clients import GroupsOfClients
from coordinator_core.runtime.log_ends import LogEndReports
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.runtime.offset_checkpoints import OffsetCheckpoints
from coordinator_core.runtime.quarantine import Quarantine
from coordinator_core.runtime.rebalance_rate import RebalanceRate
from coordinator_core.runtime.shard import Shard
from coordinator_core.runtime.writer import Writer
from coordinator_core.state_store.ledger import Ledger
from coordinator_core.state_store.offset_log import LoggedCommits, encode
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.projection import project
from coordinator_core.state_store.rows import Batch, GroupWrite
from tests.support.memory_store import MemoryStore

SHARD: Final = 7
LEASE_MS: Final = 600_000
START_MS: Final = 1_900_000_000_000
MINUTE_MS: Final = 60_000
TOKEN: Final = 1
CONTEXT: Final = Context(GroupSettings())
WANTED_REBALANCE: Final = 1.5
WANTED_HEARTBEAT: Final = 1.25


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    members: tuple[int, ...] = (10, 1_000)
    partitions_a_member: int = 10
    commits: int = 500
    heartbeats: int = 20_000
    rounds: int = 9


class SimulatedGroup:
    """A group that handles requests one by one, and the writes they lead to."""

    def __init__(self, name: str, members: int, partitions_a_member: int) -> None:
        self.group = Group(name)
        self.ledger = Ledger(name, SHARD)
        self._members = [f"{name}-member-{number}" for number in range(members)]
        self._partitions_a_member = partitions_a_member
        self._turns = 0
        self._at_ms = 0

    def began(self) -> list[GroupWrite]:
        """Return the writes until the group is first Stable."""
        joins = [self._join("", member_id) for member_id in self._members]
        windows = [ExpireDeadline(Deadline(DeadlineKind.JOIN))] * 2
        return self._asked([*joins, *windows, *self._syncs(1)])

    def rebalanced(self, *, moves: bool) -> list[GroupWrite]:
        """Return the writes of a rebalance that moves every partition, or none."""
        self._turns += moves
        joins = [self._join(member_id, member_id) for member_id in self._members]
        return self._asked([ForceRebalance(TOKEN, ""), *joins, *self._syncs(self.group.generation + 1)])

    def _asked(self, requests: list[Request]) -> list[GroupWrite]:
        writes = [write for request in requests for write in self._ask(request)]
        assert self.group.state is STABLE
        return writes

    def _ask(self, request: Request) -> Iterator[GroupWrite]:
        self._at_ms += 1
        decision = decide(self.group, request, Now(self._at_ms, START_MS + self._at_ms), CONTEXT)
        self.group = decision.group
        write = project(decision.group, decision.records, self.ledger)
        if write is not None:
            yield write

    def _join(self, member_id: str, fresh_id: str) -> JoinGroup:
        return JoinGroup(
            token=TOKEN,
            member_id=member_id,
            group_instance_id=None,
            client_id="bench",
            client_host="127.0.0.1",
            session_timeout_ms=600_000,
            rebalance_timeout_ms=600_000,
            protocol_type="consumer",
            protocols=(OFFER,),
            new_member_id=fresh_id,
            require_known_member_id=False,
        )

    def _syncs(self, generation: int) -> list[Request]:
        leader, *followers = self._members
        given = tuple((member_id, self._share(place)) for place, member_id in enumerate(self._members))
        syncs: list[Request] = [SyncGroup(TOKEN, generation, member_id) for member_id in followers]
        return [*syncs, SyncGroup(TOKEN, generation, leader, assignments=given)]

    def _share(self, place: int) -> bytes:
        first = (place + self._turns) % len(self._members) * self._partitions_a_member
        partitions = tuple(range(first, first + self._partitions_a_member))
        return write_assignment(Assignment((TopicPartitions("orders", partitions),)))


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    store = PostgresStore(place.database_url)
    try:
        epochs = store.acquire_leases(NODE, [SHARD], LEASE_MS)
        store.create_history_partitions(days_ahead=1)

        def write(writes: list[GroupWrite]) -> Took:
            """Write each decision in its own transaction, as without concurrent requests."""
            meter, began_s = CpuMeter(place.pids()), perf_counter()
            for one in writes:
                assert not store.write(Batch(NODE, epochs, (one,))).refused_groups
            took_ms = (perf_counter() - began_s) * 1_000
            return Took(took_ms, meter.us_per_request(1)["postgres"])

        figures = [
            _rebalances(write, size, members, moves=moves) for members in size.members for moves in (False, True)
        ]
        return [*figures, _commits(write, size), _heartbeats(size)]
    finally:
        store.close()


class Took(NamedTuple):
    """What writing some decisions took."""

    time: float
    """In the figure's unit."""
    postgres_cpu_us: float = 0.0


Write = Callable[[list[GroupWrite]], Took]


def _rebalances(write: Write, size: Size, members: int, *, moves: bool) -> Figure:
    kept, plain = (
        SimulatedGroup(f"{name}-{members}-{moves}", members, size.partitions_a_member) for name in ("kept", "plain")
    )
    write(kept.began())
    write(_stripped(plain.began()))
    pairs = [
        (write(kept.rebalanced(moves=moves)), write(_stripped(plain.rebalanced(moves=moves))))
        for _ in range(size.rounds)
    ]
    what = f"rebalance of {members:,} members, {'all' if moves else 'no'} partitions move"
    return _figure(what, "ms", pairs, WANTED_REBALANCE)


def _stripped(writes: list[GroupWrite]) -> list[GroupWrite]:
    """Return the writes without history."""
    return [
        replace(one, transitions=(), rebalances=(), ownerships=(), rebalance_members=(), sessions=()) for one in writes
    ]


def _commits(write: Write, size: Size) -> Figure:
    """Measure commits that each start another minute; the others within a minute write no history."""
    pairs = [
        (write(_commit("kept", number, MINUTE_MS, size)), write(_commit("plain", number, 0, size)))
        for number in range(size.rounds)
    ]
    return _figure(f"a commit that ends a minute, {size.commits} partitions", "ms", pairs, None)


def _commit(name: str, number: int, step_ms: int, size: Size) -> list[GroupWrite]:
    at_ms = START_MS + number * step_ms
    offsets = tuple(OffsetToCommit("orders", partition, number) for partition in range(size.commits))
    commits = LoggedCommits(SHARD, f"{name}-commits", (OffsetsCommitted(at_ms, "m", None, offsets),))
    return [GroupWrite(commits.group_id, SHARD, logged=encode(commits), is_only_logged=True)]


def _heartbeats(size: Size) -> Figure:
    """Measure heartbeats in a shard, from request to restarted timer, with and without measured member sessions."""
    played = SimulatedGroup("beats", 1_000, size.partitions_a_member)
    played.began()

    def took(*, measured: bool) -> Took:
        return Took(asyncio.run(_beats_us(played, size, measured=measured)))

    pairs = [(took(measured=True), took(measured=False)) for _ in range(size.rounds)]
    return _figure("a heartbeat in its shard", "us", pairs, WANTED_HEARTBEAT)


async def _beats_us(played: SimulatedGroup, size: Size, *, measured: bool) -> float:
    shard, group = _shard(), played.group
    ledger = played.ledger if measured else Ledger(group.group_id, SHARD)
    shard.groups[group.group_id] = GroupContext(group, ledger)
    requests = [Heartbeat(TOKEN, group.generation, member_id) for member_id in group.members]
    began_s = perf_counter()
    for turn in range(size.heartbeats):
        shard.perform(group.group_id, requests[turn % len(requests)])
    return (perf_counter() - began_s) * 1_000_000 / size.heartbeats


def _shard() -> Shard:
    clock, threads, counters = SystemClock(), SystemThreads(readers=1), Counters()
    return Shard(
        SHARD,
        1,
        SHARD + 1,
        clock=clock,
        writer=Writer(MemoryStore(), NodeConfig(NODE, {}, max_batch_rows=1), clock, threads, counters),
        metadata_cache=MetadataCache(GroupSettings(), frozenset()),
        counters=counters,
        rebalance_rate=RebalanceRate(),
        log_ends=LogEndReports(MemoryStore(), threads, lambda: LOG_END_MAX_AGE_MS),
        quarantine=Quarantine(lambda _: False),
        on_timer=lambda: None,
        checkpoints=OffsetCheckpoints(MemoryStore(), NodeConfig(NODE, {}), clock, threads, counters, list),
        groups_of_clients=GroupsOfClients(),
        on_unload=lambda _: None,
    )


def _figure(what: str, unit: str, pairs: list[tuple[Took, Took]], wanted: float | None) -> Figure:
    kept, plain = (middle(each[place].time for each in pairs) for place in (0, 1))
    used_us = sum(took.postgres_cpu_us for took, _ in pairs) / len(pairs)
    details = {"postgres_cpu_us": used_us} if used_us else {}
    return Figure(what, kept, unit, "without history", plain, wanted=wanted, better="less", details=details)


if __name__ == "__main__":
    run_benchmark("ledger", "Measure what history costs.", in_durable_place(measure, Size()))
