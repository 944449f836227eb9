"""The coordinator is what front doors call: it finds the shard, and the shard decides.

It owns the loops of a node: the writer, the timekeeper, and the renewal, which also notices changed settings and
maintenance that waits to be worked off.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import TypeVar

import structlog

from coordinator_core.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.loading import answer_while_loading
from coordinator_core.protocol.replies import Answer, OffsetsDeleted
from coordinator_core.protocol.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    ForceRebalance,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    RemoveMember,
    SyncGroup,
    Token,
)
from coordinator_core.protocol.setting_rules import SettingValue, check_settings, check_together
from coordinator_core.runtime.act import Act
from coordinator_core.runtime.clock import Clock, SystemClock, SystemThreads, Threads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.describe import describe_group
from coordinator_core.runtime.maintenance import Maintenance
from coordinator_core.runtime.ownership import Ownership
from coordinator_core.runtime.shard import Shard, no_outcomes
from coordinator_core.runtime.surroundings import Surroundings
from coordinator_core.runtime.timekeeper import Timekeeper
from coordinator_core.runtime.views import GroupView, Readiness, SettingInForce, ShardOwner
from coordinator_core.runtime.writer import Writer
from coordinator_core.store.interface import OutcomeUnknown, Store, StoreError, StoreUnavailable
from coordinator_core.store.rows import (
    FetchedOffset,
    GroupFilter,
    ListedGroup,
    RunRow,
    StoredSettings,
    TopicRow,
    Versions,
)

log = structlog.get_logger("muster.runtime")

T = TypeVar("T")
MemberRequest = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | CommitOffsets | ForceRebalance | RemoveMember

HISTORY_CHECK_S = 3_600
"""How often the partitions of history tables are looked after."""


class Coordinator:
    """One node of the platform."""

    def __init__(
        self,
        store: Store,
        config: NodeConfig,
        clock: Clock | None = None,
        threads: Threads | None = None,
    ) -> None:
        self.node_id = config.node_id
        self.url = config.url
        self._store = store
        self._config = config
        self._clock = clock or SystemClock()
        self._threads = threads or SystemThreads()
        self._tokens = count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._surroundings = Surroundings(config.defaults, config.environment_keys)
        self._writer = Writer(store, config.node_id, self._threads, config.max_batch_rows)
        self._ownership = Ownership(store, config, self._clock, self._threads, self._make_shard)
        self._timekeeper = Timekeeper(self._clock, self._owned_shards, config.pause_ms)
        self._maintenance = Maintenance(
            store, self._threads, lambda: self._ownership.owned, self.new_token, config.maintenance_chunk
        )
        self._shard_count = 0
        self._lacks_history_partitions = False

    def _make_shard(self, shard_id: int, epoch: int) -> Shard:
        return Shard(
            shard_id,
            epoch,
            clock=self._clock,
            writer=self._writer,
            surroundings=self._surroundings,
            on_timer=self._timekeeper.look_again,
            on_drop=self._ownership.forget,
        )

    def _owned_shards(self) -> list[Shard]:
        return list(self._ownership.owned.values())

    # -- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read what stands around groups, take a share of the shards, and begin to serve.

        Raises:
            StoreError: the database cannot be reached.
        """
        self._shard_count = await self._threads.read(self._store.shard_count)
        await self._look_after_history()
        await self._refresh(await self._threads.read(self._store.versions))
        self._start_loop("writer", self._writer.run())
        await self._tend()
        self._start_loop("timekeeper", self._timekeeper.run())
        self._start_loop("ownership", self._keep_tending())
        self._start_loop("history", self._keep_history())

    async def stop(self) -> None:
        """Hand every shard over, let whoever waits ask another node, and end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._ownership.give_up(list(self._ownership.owned))
        try:
            await self._threads.lease(partial(self._store.retire_node, self.node_id))
        except StoreError as error:
            log.warning("node_not_retired", why=str(error))
        await asyncio.to_thread(self._threads.close)

    def _start_loop(self, name: str, loop: Coroutine[None, None, None]) -> None:
        self._tasks.append(asyncio.create_task(loop, name=f"muster-{name}"))

    async def _keep_tending(self) -> None:
        while True:
            await self._ownership.wait_for_turn()
            await self._tend()

    async def _tend(self) -> None:
        """Renew the leases; then see to settings, shards and maintenance, as far as there is anything to do."""
        renewal = await self._ownership.renew()
        if renewal is None:
            return
        if renewal.versions != self._surroundings.versions:
            await self._refresh(renewal.versions)
        await self._ownership.rebalance_shards(renewal)
        self._begin_maintenance()

    def _begin_maintenance(self) -> None:
        """Work candidates off beside the renewals, never in their way; one round at a time."""
        if any(task.get_name() == "muster-maintenance" and not task.done() for task in self._tasks):
            return
        self._tasks = [task for task in self._tasks if not task.done()]
        self._start_loop("maintenance", self._maintenance.work_off())

    async def _keep_history(self) -> None:
        while True:
            await asyncio.sleep(HISTORY_CHECK_S)
            await self._look_after_history()

    async def _look_after_history(self) -> None:
        try:
            await self._threads.read(partial(self._store.create_history_partitions, self._config.history_days_ahead))
            self._lacks_history_partitions = await self._threads.read(self._store.lacks_history_partitions)
        except StoreError as error:
            log.warning("history_partitions_not_checked", why=str(error))

    async def _refresh(self, versions: Versions) -> None:
        """Read settings and catalogue again, and let groups look at what changed."""
        before = self._surroundings.versions
        try:
            settings: StoredSettings = await self._threads.read(self._store.settings)
            topics: list[TopicRow] = await self._threads.read(self._store.topics)
        except StoreError as error:
            log.warning("surroundings_not_read", why=str(error))
            return
        self._surroundings.update(versions, settings, topics)
        is_settings = before[:2] != versions[:2]
        for shard in self._owned_shards():
            shard.reconsider_all(is_rebalance_timeout_changed=is_settings)

    # -- the group protocol --------------------------------------------------------------------------------

    def new_token(self) -> Token:
        """Return a token that no other request of this node has."""
        return next(self._tokens)

    async def ask(self, group_id: str, request: MemberRequest) -> Answer:
        """Decide a request, and return its answer when everything it rests on is stored.

        Giving up on the answer is harmless: it is dropped, and the group is not told.

        Raises:
            CoordinatorError: the request was refused; its `action` says what the caller should do.
        """
        shard = self._shard_of(group_id)
        if shard.is_loading:
            return answer_while_loading(request, self._surroundings.context(group_id).settings)
        if not isinstance(request, Heartbeat) and self._writer.queued_rows > self._config.max_queued_rows:
            raise CoordinatorNotAvailable("too many writes are waiting for the database")
        return await shard.ask(group_id, request.token, request)

    def _shard_of(self, group_id: str) -> Shard:
        """Return the shard, if it is certainly ours."""
        shard_id = self.shard_id_of(group_id)
        shard = self._ownership.owned.get(shard_id)
        if shard is not None and (shard.valid_until_ms > self._clock.now().node_ms):
            return shard
        lease = self._ownership.leases.get(shard_id)
        is_elsewhere = lease is not None and lease.node_id not in {None, self.node_id} and not lease.is_expired
        if is_elsewhere and lease is not None:
            raise NotCoordinator("another node owns this group", lease.url)
        raise CoordinatorNotAvailable(self._ownership.failure or "the group's shard is between two owners")

    def shard_id_of(self, group_id: str) -> int:
        """Return the shard that a group belongs to."""
        return _shard_of(group_id, self._shard_count)

    def coordinator_of(self, group_id: str) -> ShardOwner:
        """Return who serves a group, as far as this node knows."""
        shard_id = self.shard_id_of(group_id)
        lease = self._ownership.leases.get(shard_id)
        if lease is None or lease.is_expired:
            return ShardOwner(shard_id, None, None, 0 if lease is None else lease.epoch)
        return ShardOwner(shard_id, lease.node_id, lease.url, lease.epoch)

    # -- operators -----------------------------------------------------------------------------------------

    async def delete_offsets(self, group_id: str, topic: str, partition: int | None, act: Act) -> OffsetsDeleted:
        """Take a topic's offsets, or one of them, away; they go to the archive under the act's change."""
        shard = self._serving(group_id)
        async with shard.holding(group_id) as ask:
            wanted = None if partition is None else [(topic, partition)]
            stored = await self._read(partial(self._store.stored_offsets, group_id, wanted))
            of_topic = tuple(offset for offset in stored if offset.topic == topic)
            partitions = wanted or [(offset.topic, offset.partition) for offset in of_topic]
            token = self.new_token()
            request = DeleteOffsets(token, tuple(partitions), of_topic, act.change_id)
            answer = await ask(token, request, no_outcomes)
        assert isinstance(answer, OffsetsDeleted)
        return answer

    async def delete_group(self, group_id: str, act: Act) -> None:
        """Take an empty group away with its offsets, which go to the archive under the act's change."""
        shard = self._serving(group_id)
        async with shard.holding(group_id) as ask:
            stored = await self._read(partial(self._store.stored_offsets, group_id, None))
            token = self.new_token()
            await ask(token, DeleteGroup(token, tuple(stored), act.change_id), no_outcomes)

    def _serving(self, group_id: str) -> Shard:
        shard = self._shard_of(group_id)
        if shard.is_loading:
            raise CoordinatorLoadInProgress("the group is being loaded")
        return shard

    def describe(self, group_id: str) -> GroupView | None:
        """Return a group as it is now, or None if there is no such group.

        Raises:
            NotCoordinator: another node knows.
        """
        shard = self._serving(group_id)
        return describe_group(shard, group_id, self._surroundings.context(group_id), self._clock.now())

    async def was_seen(self, group_id: str) -> bool:
        """Tell whether history knows a group that is gone."""
        return await self._read(partial(self._store.was_seen, group_id))

    async def fetch_offsets(self, group_id: str, topics: Sequence[str] | None) -> list[FetchedOffset]:
        """Return committed offsets, by topic and partition; any node may."""
        return await self._read(partial(self._store.fetch_offsets, group_id, topics))

    async def list_groups(self, which: GroupFilter) -> list[ListedGroup]:
        """Return a page of groups; any node may."""
        return await self._read(partial(self._store.list_groups, which))

    # -- catalogue and settings ------------------------------------------------------------------------------

    async def topics(self) -> list[TopicRow]:
        """Return the topic catalogue."""
        return await self._read(self._store.topics)

    async def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, act: Act) -> TopicRow:
        """Put a topic into the catalogue; a raised count rebalances every Stable group that reads it.

        Raises:
            ValueError: the count would fall.
        """
        change = act.change("put_topic", None, self._clock.now().wall_ms)
        put = partial(self._store.put_topic, topic, partitions, log_start_offset, change)
        row = await self._read(put)
        await self._refresh(await self._read(self._store.versions))
        return row

    def settings_in_force(self, group_id: str | None) -> dict[str, SettingInForce]:
        """Return every setting in force for a group (or the cluster), and where each comes from."""
        return self._surroundings.in_force(group_id)

    async def put_settings(
        self, group_id: str | None, values: Mapping[str, SettingValue], act: Act
    ) -> dict[str, SettingInForce]:
        """Change settings of a group or the cluster; in force here at once, elsewhere within one renewal.

        Raises:
            InvalidRequest: a key or value that will not do, by itself or beside the others.
        """
        check_settings(values)
        texts = {key: None if value is None else str(value) for key, value in values.items()}
        check_together(self._surroundings.would_be(group_id, texts))
        change = act.change("put_settings", group_id, self._clock.now().wall_ms)
        await self._read(partial(self._store.put_settings, group_id, texts, change))
        await self._refresh(await self._read(self._store.versions))
        return self.settings_in_force(group_id)

    # -- maintenance ---------------------------------------------------------------------------------------

    async def runs(self) -> list[RunRow]:
        """Return the newest maintenance runs first."""
        return await self._read(self._store.runs)

    async def run(self, run_id: str) -> RunRow:
        """Return one maintenance run, with its counts by outcome."""
        return await self._read(partial(self._store.run, run_id))

    async def apply_run(self, run_id: str, act: Act) -> RunRow:
        """Mark a run as applying; the owners of its shards work it off. Repeating is harmless."""
        change = act.change("apply_run", None, self._clock.now().wall_ms)
        run = await self._read(partial(self._store.begin_apply, run_id, change))
        self._ownership.hurry()
        return run

    async def reject_run(self, run_id: str, act: Act) -> RunRow:
        """Mark a proposed run as rejected: nothing of it is applied."""
        change = act.change("reject_run", None, self._clock.now().wall_ms)
        return await self._read(partial(self._store.reject, run_id, change))

    async def _read(self, call: Callable[[], T]) -> T:
        try:
            return await self._threads.read(call)
        except (StoreUnavailable, OutcomeUnknown) as error:
            raise CoordinatorNotAvailable(f"the database cannot be reached: {error}") from error

    # -- itself ----------------------------------------------------------------------------------------------

    def readiness(self) -> Readiness:
        """Tell whether the node serves; every reason why not is a sentence."""
        reasons = []
        now_ms = self._clock.now().node_ms
        sure = [shard for shard in self._owned_shards() if shard.valid_until_ms > now_ms and not shard.is_loading]
        if self._ownership.failure is not None:
            reasons.append(f"the database cannot be reached: {self._ownership.failure}")
        if not sure:
            reasons.append("the node owns no shard yet")
        warnings = ("history tables lack partitions of their own",) if self._lacks_history_partitions else ()
        return Readiness(is_ready=not reasons, reasons=tuple(reasons) + warnings)


@lru_cache(maxsize=65_536)
def _shard_of(group_id: str, shard_count: int) -> int:
    return shard_of(group_id, shard_count)
