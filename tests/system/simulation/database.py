"""The simulated database: the memory store behind connections on which every call takes time and may fail.

A call of a node is sent, taken by the database in one instant (transactions are serial), and answered. Between these
moments the node may pause or die, the connection may be cut, and the database may be away, slow, or refuse.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from coordinator_core.protocol.requests import GroupSnapshot
from coordinator_core.runtime.quarantine import FAILURES_MAX
from coordinator_core.state_store.interface import OutcomeUnknown, StoreError, StoreUnavailable
from coordinator_core.state_store.rows import (
    Batch,
    ChangeRow,
    CheckpointResult,
    GroupWrite,
    ShardCheckpoint,
    Versions,
    WriteResult,
)
from coordinator_core.state_store.runs import WHOLE_GROUP, CandidateRow, RunRow
from tests.support.memory_store import MemoryStore
from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.weather import Weather
from tests.system.simulation.world import World

T = TypeVar("T")

DATABASE_AHEAD_MS = 1_790_000_000_000
"""What the database's clock shows when the world begins."""
CALL_TIMEOUT_S = 2.4
"""When a node gives a silent database up; below half of the lease."""
FAILURES_HEARD_LATE = 30
"""How much likelier it is that a failure is heard late: what was queued behind it would not stand."""


class Locked(Exception):
    """A row lock is held by a transaction that is under way until `until_s`."""

    def __init__(self, until_s: float) -> None:
        super().__init__()
        self.until_s = until_s


class WatchedStore(MemoryStore):
    """The memory store, which reports its writes to a witness, and fails the next write on request."""

    def __init__(self, world: World, shards: int, witness: "Witness") -> None:
        super().__init__(lambda: DATABASE_AHEAD_MS + int(world.now_s * 1000), shards)
        self.lingers_for_s: float | None = None
        """The next write is taken only after so long, and its caller never learns of it."""
        self.refuses_one = False
        """Of the next write one group is refused."""
        self._world = world
        self._witness = witness
        self._under_way: list[tuple[float, frozenset[int]]] = []
        self._refused: Counter[tuple[str, str]] = Counter()
        """(node, group) → how often a write was refused: too seldom for a quarantine, which no operator here ends."""
        self._newest_seen: dict[str, int] = {}
        """Run, and then the change that applies it → the newest commit that its proposal can have seen."""
        self.answered_of_groups: dict[str, int] = {}
        """Group → the version of the groups' settings as of which a change of its own was answered."""
        self.answered_of_cluster: list[tuple[int, frozenset[str]]] = []
        """Versions of the cluster's settings as of which changes were answered, and the nodes that were listed."""
        self.topic_deletions: dict[str, str] = {}
        """Change → the topic that it deleted."""
        self.retentions_cut: set[str | None] = set()
        """Groups, or (None) the cluster, whose offsets expire at once by a setting."""

    def write(self, batch: Batch) -> WriteResult:
        """Store a batch, now or (unknown to the caller) later."""
        if self.lingers_for_s is not None:
            ends_s, self.lingers_for_s = self._world.now_s + self.lingers_for_s, None
            self._under_way.append((ends_s, frozenset(batch.epochs)))
            self._world.schedule(ends_s, partial(self._commit_late, batch))
            raise OutcomeUnknown("the connection was lost while committing")
        if self.refuses_one:
            self.refuses_one = False
            return self._write_but_one(batch)
        return self._write(batch)

    def _commit_late(self, batch: Batch) -> None:
        self._world.strike("write_landed_late", f"{len(batch.writes)} writes of {batch.node_id}")
        self._write(batch)

    def checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        """Store dirty offsets, now or (unknown to the caller) later."""
        if self.lingers_for_s is not None:
            ends_s, self.lingers_for_s = self._world.now_s + self.lingers_for_s, None
            self._under_way.append((ends_s, frozenset(shards)))
            self._world.schedule(ends_s, partial(self._checkpoint_late, node_id, shards))
            raise OutcomeUnknown("the connection was lost while committing")
        return self._checkpoint(node_id, shards)

    def _checkpoint_late(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> None:
        self._world.strike("checkpoint_landed_late", f"{len(shards)} shards of {node_id}")
        self._checkpoint(node_id, shards)

    def _checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        result = super().checkpoint(node_id, shards)
        epochs = {shard_id: shard.epoch for shard_id, shard in shards.items() if shard_id not in result.lost_shards}
        self._witness.checkpointed(node_id, epochs)
        return result

    def propose(self, run: RunRow, candidates: Iterable[CandidateRow]) -> None:
        """Write a proposal, and note which commits it can have seen."""
        super().propose(run, candidates)
        self._newest_seen[run.run_id] = self._groups._commit_version

    def begin_apply(self, run_id: str, change: ChangeRow, candidates: int | None = None) -> RunRow:
        """Mark a run as applying."""
        self._newest_seen.setdefault(change.change_id, self._newest_seen[run_id])
        return super().begin_apply(run_id, change, candidates)

    def delete_topic(self, topic: str, change: ChangeRow) -> ChangeRow | None:
        """Delete a topic, and note which commits its run can have seen."""
        is_first = self.change(change.change_id) is None
        recorded = super().delete_topic(topic, change)
        if is_first and recorded is not None:
            self.topic_deletions[change.change_id] = topic
            self._newest_seen[change.change_id] = self._groups._commit_version
        return recorded

    def timeout_ms(self, group_id: str, name: str) -> int | None:
        """Return the stored setting of a timeout of a group; None: there is none, so that its members' own count."""
        stored = self._settings_and_topics
        value = stored._group_settings.get(group_id, {}).get(name, stored._cluster_settings.get(name))
        return None if value is None else int(value)

    def seen_by_cleanup(self, run_id: str, group_id: str) -> GroupSnapshot | None:
        """Return a group as a run proposed its cleanup."""
        return self._maintenance._runs[run_id].candidates[group_id, *WHOLE_GROUP].seen

    def newest_seen(self, change_id: str) -> int:
        """Return the newest commit that the proposal of a run can have seen."""
        return self._newest_seen[change_id]

    def put_settings(
        self,
        group_id: str | None,
        values: Mapping[str, str | None],
        change: ChangeRow,
        checked: Versions | None = None,
    ) -> bool:
        """Set settings, and note who lets offsets expire."""
        if values.get("offsets_retention_minutes") is not None:
            self.retentions_cut.add(group_id)
        return super().put_settings(group_id, values, change, checked)

    def _write(self, batch: Batch) -> WriteResult:
        written = super().write(batch)
        for group_id, why in written.refused_groups.items():
            self._world.fail("StoreRefusesNothing", f"the store refuses a write of {batch.node_id}: {why}", group_id)
        self._witness.wrote(batch, written)
        return written

    def _write_but_one(self, batch: Batch) -> WriteResult:
        groups = {one.group_id for one in batch.writes if self._refused[batch.node_id, one.group_id] < FAILURES_MAX - 1}
        if not groups:
            return self._write(batch)
        victim = self._world.chance.choice(sorted(groups))
        self._refused[batch.node_id, victim] += 1
        self._world.strike("group_refused", f"a write of {batch.node_id}", victim)
        rest = tuple(one for one in batch.writes if one.group_id != victim)
        written = self._write(replace(batch, writes=rest))
        return replace(written, refused_groups={**written.refused_groups, victim: "by chance"})

    def acquire_leases(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Take shards over, after the transactions under way that hold their rows."""
        wanted = list(shard_ids)
        for ends_s, shards in self._under_way:
            if ends_s >= self._world.now_s and not shards.isdisjoint(wanted):
                raise Locked(ends_s)
        before = {shard_id: self._leases.shards[shard_id].node_id for shard_id in wanted}
        taken = super().acquire_leases(node_id, wanted, ttl_ms)
        self._witness.took(node_id, taken, {shard_id: before[shard_id] for shard_id in taken})
        return taken

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Give shards up."""
        super().release(node_id, epochs)
        self._witness.released(node_id, epochs)

    def offsets_of(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return the offsets of a group, from the table and from the log."""
        offsets = {(one.topic, one.partition): one.offset for one in self.fetch_offsets(group_id)}
        for shard_log in self.load_offset_log(self._leases.shards).values():
            for _, logged in shard_log.commits:
                if logged.group_id == group_id:
                    offsets |= {
                        (one.topic, one.partition): one.offset for record in logged.records for one in record.offsets
                    }
        return offsets

    def owner_of(self, shard_id: int) -> tuple[str | None, int]:
        """Return who owns a shard, and under which epoch."""
        lease = self._leases.shards[shard_id]
        return lease.node_id, lease.epoch


class Witness:
    """Receives every stored write; this one ignores them."""

    def wrote(self, batch: Batch, written: WriteResult) -> None:
        """Take note of a batch."""

    def checkpointed(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Take note of the shards of a checkpoint, which was stored."""

    def took(self, node_id: str, epochs: Mapping[int, int], before: Mapping[int, str | None]) -> None:
        """Take note of shards that changed hands; `before` says whose they were."""

    def released(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Take note of shards given up."""


def stored_writes(batch: Batch, written: WriteResult) -> Iterable[GroupWrite]:
    """Return the writes of a batch that are in the store now."""
    for one in batch.writes:
        if one.shard_id not in written.lost_shards and one.group_id not in written.refused_groups:
            yield one


@dataclass(slots=True)
class Job:
    """One call on its way."""

    kind: str
    call: Callable[[], Any]
    future: Any
    lane: "Lane | None" = None


class Lane:
    """Calls that run one after the other."""

    def __init__(self) -> None:
        self.is_busy = False
        self.waiting: deque[Job] = deque()


class Connections:
    """One process's threads and connections to the database."""

    def __init__(
        self, world: World, weather: Weather, store: WatchedStore, loop: SimulatedLoop, crash: Callable[[str], None]
    ) -> None:
        self.is_cut = False
        """Whether the network between this node and the database is gone."""
        self._world = world
        self._weather = weather
        self._store = store
        self._loop = loop
        self._crash = crash
        self.in_trouble_at_s = -1.0
        """When a call last failed, or its answer was lost."""
        self._writer = Lane()
        self._checkpoints = Lane()
        self._leases = Lane()

    # -- what the runtime calls ----------------------------------------------------------------------------

    def write(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a write; one at a time, in order."""
        return self._submit("write", call, self._writer)

    def checkpoint(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a checkpoint; one at a time, beside writes."""
        return self._submit("checkpoint", call, self._checkpoints)

    def lease(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call about leases."""
        return self._submit("lease", call, self._leases)

    def read(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a read, beside everything else."""
        return self._submit("read", call, None)

    def close(self) -> None:
        """There is nothing to close."""

    # -- a call's way --------------------------------------------------------------------------------------

    def _submit(self, kind: str, call: Callable[[], T], lane: Lane | None) -> asyncio.Future[T]:
        job = Job(kind, call, self._loop.create_future(), lane)
        if lane is not None and lane.is_busy:
            lane.waiting.append(job)
        else:
            self._send(job)
        return job.future  # type: ignore[no-any-return]  # a future of what the call returns

    def _send(self, job: Job) -> None:
        if job.lane is not None:
            job.lane.is_busy = True
        self._world.after(self._weather.store_delay_s(), partial(self._arrive, job))

    def _arrive(self, job: Job) -> None:
        """Come to the database, if the process got as far as sending it."""
        world, chances = self._world, self._weather.store
        if self._loop.is_dead and world.happens(0.5):
            return
        if self._loop.is_paused and world.happens(0.5):
            world.after(0.05, partial(self._arrive, job))  # its thread stopped before it could send
        elif self.is_cut or self._weather.is_store_down:
            world.after(CALL_TIMEOUT_S, partial(self._answer, job, StoreUnavailable("no answer"), 0.0))
        elif job.kind in {"write", "checkpoint"}:
            self._arrive_write(job, chances)
        elif job.kind == "lease" and world.happens(chances["lease_answer_lost"]):
            world.strike("lease_answer_lost", self._loop.name)
            self._execute(job, lost=OutcomeUnknown("the answer was lost"))
        else:
            self._execute(job)

    def _arrive_write(self, job: Job, chances: Mapping[str, float]) -> None:
        world, name = self._world, self._loop.name
        fault = self._weather.draw(chances, "write_")
        if fault is not None and fault != "write_refused":
            world.strike(fault.replace("write", job.kind), name)
        match fault:
            case "write_crash_before":
                self._crash(f"before the store took a {job.kind}")
            case "write_crash_after":
                self._execute(job)
                self._crash(f"after the store took a {job.kind}")
            case "write_unknown_not_taken":
                self._answer(job, OutcomeUnknown("the connection was lost while committing"))
            case "write_unknown_taken":
                self._execute(job, lost=OutcomeUnknown("the connection was lost while committing"))
            case "write_unknown_late":
                self._store.lingers_for_s = world.between(0.1, 4.0)
                self._execute(job)
            case "write_timed_out":
                self._answer(job, StoreUnavailable("statement timeout"), CALL_TIMEOUT_S)
            case "write_deadlocked":
                world.after(world.between(0.2, 1.2), partial(self._execute, job))  # found, undone, and done again
            case "write_refused" if job.kind == "write":
                self._store.refuses_one = True
                self._execute(job)
            case _:
                self._execute(job)

    def _execute(self, job: Job, lost: StoreError | None = None) -> None:
        """Let the database do it, in one instant."""
        try:
            outcome = job.call()
        except Locked as lock:
            self._world.schedule(lock.until_s + 0.001, partial(self._execute, job, lost))
            return
        except Exception as error:  # noqa: BLE001 - whatever a call raises is its caller's
            outcome = error
        self._store.lingers_for_s, self._store.refuses_one = None, False
        self._answer(job, outcome if lost is None else lost)

    def _answer(self, job: Job, outcome: object, after_s: float | None = None) -> None:
        if isinstance(outcome, StoreError):
            self.in_trouble_at_s = self._world.now_s
        delay_s = self._weather.store_delay_s() if after_s is None else after_s
        self._world.after(delay_s, lambda: self._loop.deliver(self._finish, job, outcome))

    def _finish(self, job: Job, outcome: object) -> None:
        """Start the lane's next call, and deliver the outcome to the process; a paused one receives it later."""
        lane = job.lane
        if lane is not None:
            lane.is_busy = False
            if lane.waiting:
                self._send(lane.waiting.popleft())
        late = self._weather.store["outcome_heard_late"] * (
            FAILURES_HEARD_LATE if isinstance(outcome, Exception) else 1
        )
        if job.kind == "write" and self._world.happens(late):
            self._world.strike("outcome_heard_late", self._loop.name)
            self._loop.call_later(self._world.between(0.01, 0.5), _complete, job.future, outcome)
        else:
            _complete(job.future, outcome)


def _complete(future: "asyncio.Future[Any]", outcome: object) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
