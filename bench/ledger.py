"""What the ledger keeps costs a rebalance some rows, a commit one row a minute, and a heartbeat a few additions.

Each kind of work is done with history and without, in turns: rebalances and commits on a Postgres that forgets nothing,
whose store is handed batches as they are or stripped of history; heartbeats in a shard whose members' gaps are
measured or not. The ratio is what the ledger costs. What decides and what sends over HTTP is in neither.

Run: python -m bench.ledger [FILE]
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from bench.figures import Figure, middle, tell
from bench.servers import Place, durable_place
from bench.stable_groups import NODE, OFFER
from coordinator_core.protocol.consumer_protocol import Assignment, TopicPartitions, write_assignment
from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS
from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import (
    Deadline,
    DeadlineKind,
    Expire,
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
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.hosting import Hosted
from coordinator_core.runtime.log_ends import LogEndReports
from coordinator_core.runtime.quarantine import Quarantine
from coordinator_core.runtime.restless import Restlessness
from coordinator_core.runtime.shard import Shard
from coordinator_core.runtime.surroundings import Surroundings
from coordinator_core.runtime.writer import Writer
from coordinator_core.store.ledger import Ledger
from coordinator_core.store.memory import MemoryStore
from coordinator_core.store.postgres import PostgresStore
from coordinator_core.store.projection import project
from coordinator_core.store.rows import Batch, GroupWrite

SHARD: Final = 7
LEASE_MS: Final = 600_000
START_MS: Final = 1_900_000_000_000
MINUTE_MS: Final = 60_000
TOKEN: Final = 1
CONTEXT: Final = Context(GroupSettings())
WANTED_REBALANCE: Final = 1.5
WANTED_HEARTBEAT: Final = 1.25
WANTED_COMMIT: Final = 1.1
"""Within a minute; the one that ends it writes another row, and there is one such a minute and partition."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    members: tuple[int, ...] = (10, 1_000)
    partitions_a_member: int = 10
    commits: int = 500
    heartbeats: int = 20_000
    rounds: int = 9


class Played:
    """A group that is asked one thing after the other, and what that stores."""

    def __init__(self, name: str, members: int, partitions_a_member: int) -> None:
        self.group = Group(name)
        self.ledger = Ledger(name, SHARD)
        self._members = [f"{name}-member-{number}" for number in range(members)]
        self._partitions_a_member = partitions_a_member
        self._turns = 0
        self._at_ms = 0

    def began(self) -> list[GroupWrite]:
        """Return what it stores to become Stable for the first time."""
        joins = [self._join("", member_id) for member_id in self._members]
        windows = [Expire(Deadline(DeadlineKind.JOIN))] * 2
        return self._asked([*joins, *windows, *self._syncs(1)])

    def rebalanced(self, *, moves: bool) -> list[GroupWrite]:
        """Return what a rebalance stores in which every partition goes to another member, or none does."""
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
            fresh_member_id=fresh_id,
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
    """Measure."""
    store = PostgresStore(place.database_url)
    try:
        epochs = store.take_over(NODE, [SHARD], LEASE_MS)
        store.create_history_partitions(days_ahead=1)

        def write_ms(writes: list[GroupWrite]) -> float:
            """Write each decision by itself, as it is while nobody else asks anything."""
            began_s = perf_counter()
            for one in writes:
                assert not store.write(Batch(NODE, epochs, (one,))).refused_groups
            return (perf_counter() - began_s) * 1_000

        figures = [
            _rebalances(write_ms, size, members, moves=moves) for members in size.members for moves in (False, True)
        ]
        return [*figures, *_commits(write_ms, size), _heartbeats(size)]
    finally:
        store.close()


WriteMs = Callable[[list[GroupWrite]], float]


def _rebalances(write_ms: WriteMs, size: Size, members: int, *, moves: bool) -> Figure:
    kept, plain = (Played(f"{name}-{members}-{moves}", members, size.partitions_a_member) for name in ("kept", "plain"))
    write_ms(kept.began())
    write_ms(_stripped(plain.began()))
    pairs = [
        (write_ms(kept.rebalanced(moves=moves)), write_ms(_stripped(plain.rebalanced(moves=moves))))
        for _ in range(size.rounds)
    ]
    what = f"rebalance of {members:,} members, {'all' if moves else 'no'} partitions move"
    return _figure(what, "ms", pairs, WANTED_REBALANCE)


def _stripped(writes: list[GroupWrite]) -> list[GroupWrite]:
    """Return the writes without history."""
    return [
        one._replace(transitions=(), rebalances=(), ownerships=(), rebalance_members=(), sessions=()) for one in writes
    ]


def _commits(write_ms: WriteMs, size: Size) -> list[Figure]:
    """Commit within a minute, and with every commit the first of another minute; the plain ones are all of one."""
    figures = []
    kinds = (("a commit within a minute", 0, WANTED_COMMIT), ("a commit that ends a minute", MINUTE_MS, None))
    for what, step_ms, wanted in kinds:
        pairs = [
            (write_ms(_commit("kept", number, step_ms, size)), write_ms(_commit("plain", number, 0, size)))
            for number in range(size.rounds)
        ]
        figures.append(_figure(f"{what}, {size.commits} partitions", "ms", pairs, wanted))
    return figures


def _commit(name: str, number: int, step_ms: int, size: Size) -> list[GroupWrite]:
    at_ms = START_MS + number * step_ms
    offsets = tuple(OffsetToCommit("orders", partition, number) for partition in range(size.commits))
    return [GroupWrite(f"{name}-commits", SHARD, committed=(OffsetsCommitted(at_ms, "m", None, offsets),))]


def _heartbeats(size: Size) -> Figure:
    """Heartbeat in a shard, from the request to the restarted timer; with stays to measure, and with none."""
    played = Played("beats", 1_000, size.partitions_a_member)
    played.began()
    pairs = [
        (_beats_us(played, size, measured=True), _beats_us(played, size, measured=False)) for _ in range(size.rounds)
    ]
    return _figure("a heartbeat in its shard", "us", pairs, WANTED_HEARTBEAT)


def _beats_us(played: Played, size: Size, *, measured: bool) -> float:
    shard, group = _shard(), played.group
    ledger = played.ledger if measured else Ledger(group.group_id, SHARD)
    shard.groups[group.group_id] = Hosted(group, ledger)
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
        writer=Writer(MemoryStore(), NODE, clock, threads, counters, max_batch_rows=1, prepare_ahead_rows=1),
        surroundings=Surroundings(GroupSettings(), frozenset()),
        counters=counters,
        restlessness=Restlessness(),
        log_ends=LogEndReports(MemoryStore(), threads, lambda: LOG_END_MAX_AGE_MS),
        quarantine=Quarantine(lambda _: False),
        on_timer=lambda: None,
        on_drop=lambda _: None,
    )


def _figure(what: str, unit: str, pairs: list[tuple[float, float]], wanted: float | None) -> Figure:
    kept, plain = (middle(each[place] for each in pairs) for place in (0, 1))
    return Figure(what, kept, unit, "without the ledger", plain, wanted=wanted, better="less")


def _all() -> list[Figure]:
    with durable_place() as place:
        return measure(place, Size())


if __name__ == "__main__":
    tell("ledger", "Measure what history costs.", _all)
