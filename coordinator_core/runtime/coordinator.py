"""The coordinator of a node: passes requests to the shards that the node owns, and runs the node's loops.

The loops are: the writer; the timers; the renewal of leases, which also refreshes settings and starts maintenance; the
upkeep of history tables; reports of log ends; counts of offsets; session intervals; and awaited members of long
rebalances.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache, partial
from itertools import count
from typing import Final, Protocol, TypeVar

import structlog

from coordinator_core.protocol.decide import Decide
from coordinator_core.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.loading import respond_while_loading
from coordinator_core.protocol.requests import Heartbeat, MemberRequest, StoredOffset, Token
from coordinator_core.protocol.responses import Answer
from coordinator_core.protocol.setting_rules import SettingValue, check_settings
from coordinator_core.protocol.settings import GroupSettings, Now
from coordinator_core.runtime.admission import Admission
from coordinator_core.runtime.archive_files import ArchiveFiles
from coordinator_core.runtime.background_tasks import cancel_tasks, log_errors, restart_on_error
from coordinator_core.runtime.clock import Clock, SystemClock, SystemThreads, Threads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.confirmations import Confirmations
from coordinator_core.runtime.counters import Counters, GroupCounts, MirrorCounts, NodeCounts
from coordinator_core.runtime.database_errors import QueryFailures
from coordinator_core.runtime.group_description import describe_group
from coordinator_core.runtime.groups_of_clients import GroupsOfClients
from coordinator_core.runtime.history_archiver import HistoryArchiver
from coordinator_core.runtime.log_ends import LogEndReports
from coordinator_core.runtime.maintenance import Maintenance
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.runtime.offset_checkpoints import CHECKPOINT_AT_STOP_S, OffsetCheckpoints
from coordinator_core.runtime.offset_counts import OffsetCounts
from coordinator_core.runtime.quarantine import Quarantine, QuarantinedGroup
from coordinator_core.runtime.readiness import ReadinessCheck, quarantine_notice
from coordinator_core.runtime.rebalance_rate import RebalanceRate
from coordinator_core.runtime.shard import Shard
from coordinator_core.runtime.shard_ownership import FAST_RENEWALS_PER_TTL, ShardOwnership
from coordinator_core.runtime.shard_scan import reevaluate_groups, scan_awaited_members, scan_sessions
from coordinator_core.runtime.stuck_groups import rebalancing_groups
from coordinator_core.runtime.timer_loop import TimerLoop
from coordinator_core.runtime.views import GroupView, Readiness, ShardOwner
from coordinator_core.runtime.waiting_requests import completed_future
from coordinator_core.runtime.writer import Writer
from coordinator_core.state_store.interface import Store, StoreError
from coordinator_core.state_store.rows import FetchedOffset, StoredSettings, TopicRow, Versions

log = structlog.get_logger("muster.runtime")

T = TypeVar("T")

CHECKPOINTS: Final = "checkpoints"
"""The loop that ends last: a fetch may wait for it."""

HISTORY_CHECK_S = 3_600
"""How often partitions of history tables are created and rows of lost nodes are deleted."""
HISTORY_RETRY_S = 60
"""The same after a failure: not at once, since an attempt may block writers of history for a lock timeout."""


class ClusterFollower(Protocol):
    """What keeps the groups of a mirror as they are in the mirrored cluster."""

    cluster_id: str
    """The id of the cluster, as Kafka gives it."""
    counts: MirrorCounts

    async def run(self) -> None:
        """Follow the cluster, without end."""
        ...


class Coordinator:
    """One node of the platform."""

    def __init__(
        self,
        store: Store,
        config: NodeConfig,
        clock: Clock | None = None,
        threads: Threads | None = None,
        mirror: Decide | None = None,
    ) -> None:
        """Prepare a node.

        Args:
            store: the database.
            config: the node's configuration.
            clock: the time; None: the machine's.
            threads: where the store's calls run; None: threads of this process.
            mirror: decides in place of the protocol, where the groups are those of a mirrored cluster.
        """
        self.node_id = config.node_id
        self.listeners = config.listeners
        self.store = store
        self._config = config
        self._mirror = mirror
        self._clock = clock or SystemClock()
        self._threads = threads or SystemThreads(config.max_reads)
        self._tokens = count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._loops: list[asyncio.Task[None]] = []
        """Those of the tasks that never end before the node stops."""
        self.metadata_cache = MetadataCache(config.defaults, config.environment_keys)
        self._refreshing = asyncio.Lock()
        self._query_failures = QueryFailures()
        self._counters = sums = Counters()
        self._rebalance_rate = RebalanceRate()
        self._log_ends = LogEndReports(store, self._threads, self.metadata_cache.log_end_max_age_ms)
        self.quarantine = Quarantine(self._is_served)
        shared = (self._clock, self._threads, sums)
        self._writer = Writer(store, config, *shared)
        self._ownership = ShardOwnership(store, config, *shared, self._make_shard, self._refresh)
        self._checkpoints = OffsetCheckpoints(store, config, *shared, self._owned_shards)
        self._groups_of_clients = GroupsOfClients()
        self.admission = Admission(self._writer, self._checkpoints, self._groups_of_clients, sums, config)
        self._offset_counts = OffsetCounts(store, self._threads, self._owned_shards, self.settings_of)
        self._timer_loop = TimerLoop(self._clock, self._owned_shards, config.pause_ms, sums.loop_gap_s)
        archive = ArchiveFiles(config.archive_uri or "", is_checked=config.archive_check)
        archiver = HistoryArchiver(store, self._threads, lambda: self._clock.now().node_ms, archive.has)
        self._maintenance = Maintenance(
            store,
            self._threads,
            lambda: self._ownership.owned,
            self.new_token,
            lambda: self._clock.now().node_ms,
            self.shard_id_of,
            chunk=config.maintenance_chunk,
            max_concurrent_groups=config.maintenance_groups,
            expire_proposals=partial(store.expire_proposals, config.proposal_ttl_hours, f"node:{config.node_id}"),
            archiver=archiver,
            quarantine=self.quarantine,
        )
        self.confirmations = Confirmations(store, self.read, self.metadata_cache, self._clock, config)
        self._readiness_check = ReadinessCheck(
            store,
            self.read,
            config.schema,
            lambda: self._ownership.failure,
            (self._writer.failures, self._checkpoints.failures),
        )
        self._follower: ClusterFollower | None = None
        self.is_stopping = False
        self._shard_count = 0

    def _make_shard(self, shard_id: int, epoch: int) -> Shard:
        return Shard(
            shard_id,
            epoch,
            self._shard_count,
            clock=self._clock,
            writer=self._writer,
            metadata_cache=self.metadata_cache,
            counters=self._counters,
            rebalance_rate=self._rebalance_rate,
            log_ends=self._log_ends,
            quarantine=self.quarantine,
            on_timer=self._timer_loop.wake,
            checkpoints=self._checkpoints,
            groups_of_clients=self._groups_of_clients,
            on_unload=self._ownership.forget,
            mirror=self._mirror,
        )

    def _owned_shards(self) -> list[Shard]:
        return list(self._ownership.owned.values())

    def _is_served(self, group_id: str) -> bool:
        shard = self._ownership.owned.get(self.shard_id_of(group_id))
        return shard is not None and group_id in shard.groups

    # -- start and stop ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read settings and topic metadata, acquire a share of the shards, and start serving.

        Raises:
            StoreError: the database cannot be reached.
        """
        self._shard_count = await self._threads.read(self.store.shard_count)
        has_partitions = await self._create_history_partitions()
        await self._refresh()
        self._start_loop("writer", self._writer.run)
        self._start_loop(CHECKPOINTS, self._checkpoints.run)
        await self._renew()
        self._start_loop("timers", self._timer_loop.run)
        self._start_loop("ownership", self._renewal_loop)
        self._start_loop("history", partial(self._history_loop, has_partitions))
        self._start_loop("log_ends", self._log_ends.run)
        self._start_loop("offset_counts", self._offset_counts.run)
        scanned = self._owned_shards, self._is_writer_behind, self._clock
        awaited = scan_awaited_members(*scanned, self._config.awaited_members_after_ms)
        self._start_loop("session_intervals", scan_sessions(*scanned).run)
        self._start_loop("awaited_members", awaited.run)

    async def stop(self) -> None:
        """Release every shard, refuse waiting requests so that clients ask another node, and end."""
        self.is_stopping = True
        checkpoints = [task for task in self._tasks if task.get_name() == f"muster-{CHECKPOINTS}"]
        await cancel_tasks([task for task in self._tasks if task not in checkpoints])
        storing = asyncio.create_task(log_errors(CHECKPOINTS, self._store_dirty_offsets))
        await asyncio.wait([storing], timeout=CHECKPOINT_AT_STOP_S)
        await self._ownership.release_all_shards()
        try:
            await self._threads.lease(partial(self.store.delete_node, self.node_id))  # Others' shares grow by its own.
        except StoreError as error:
            log.warning("node_deregistration_failed", reason=str(error))
        await log_errors(CHECKPOINTS, self._store_dirty_offsets)  # There is no shard any more: it refuses what waits.
        await cancel_tasks(checkpoints)
        await log_errors("log_ends", self._log_ends.flush)
        await asyncio.to_thread(self._threads.close)

    async def _store_dirty_offsets(self) -> None:
        """Checkpoint every shard before it is released; what is not stored, its next owner reads from the log."""
        await self._checkpoints.checkpoint(self._owned_shards())

    def _is_writer_behind(self) -> bool:
        return self._writer.queued_rows > self._config.max_batch_rows

    def follow(self, follower: ClusterFollower) -> None:
        """Follow a mirrored cluster until the node stops."""
        self._follower = follower
        self._start_loop("mirror", follower.run)

    def _start_loop(self, name: str, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        self._loops.append(asyncio.create_task(restart_on_error(name, loop), name=f"muster-{name}"))
        self._tasks.append(self._loops[-1])

    async def _renewal_loop(self) -> None:
        while True:
            await self._ownership.wait_for_renewal()
            try:
                await self._renew()
            except Exception as error:  # any error: `/readyz` reports it, and the loop restarts
                self._ownership.record_failure(error)
                raise

    async def _renew(self) -> None:
        """Renew the leases; then refresh changed settings, rebalance shards and start maintenance."""
        renewal = await self._ownership.renew(self.metadata_cache.versions.cluster_configs)
        if renewal is None:
            return
        if renewal.versions != self.metadata_cache.versions:
            refreshing = self._begin("refresh", self._refresh_and_confirm)
            patience_s = self._config.lease_ttl_ms / FAST_RENEWALS_PER_TTL / 1000  # Where reads are slow, leases go on.
            await asyncio.wait([refreshing], timeout=patience_s)
        await self._ownership.rebalance_shards(renewal)
        self._begin("maintenance", self._maintenance.process_pending)

    def _begin(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> asyncio.Task[None]:
        """Start work in the background, unless it is under way; return its task."""
        self._tasks = [task for task in self._tasks if not task.done()]
        under_way = [task for task in self._tasks if task.get_name() == f"muster-{name}"]
        if not under_way:
            under_way = [asyncio.create_task(log_errors(name, work), name=f"muster-{name}")]
            self._tasks += under_way
        return under_way[0]

    async def _refresh_and_confirm(self) -> None:
        try:
            await self._refresh()
        except StoreError as error:
            log.warning("settings_refresh_failed", reason=str(error))
        else:
            self._ownership.wake()  # the next renewal confirms the settings

    async def _history_loop(self, has_partitions: bool) -> None:
        while True:
            await asyncio.sleep(HISTORY_CHECK_S if has_partitions else HISTORY_RETRY_S)
            has_partitions = await self._create_history_partitions()
            await self._delete_lost_nodes()

    async def _create_history_partitions(self) -> bool:
        """Return whether every partition ahead exists."""
        try:
            await self._threads.read(partial(self.store.create_history_partitions, self._config.history_days_ahead))
        except StoreError as error:
            log.warning("history_partition_check_failed", reason=str(error), retry_in_s=HISTORY_RETRY_S)
            return False
        return True

    async def _delete_lost_nodes(self) -> None:
        kept_ms = self._config.lost_nodes_kept_hours * 3_600_000
        try:
            await self._threads.lease(partial(self.store.delete_lost_nodes, kept_ms))
        except StoreError as error:
            log.warning("lost_node_cleanup_failed", reason=str(error))

    async def _refresh(self) -> None:
        """Read settings and topic metadata again if they have changed, and re-evaluate every group.

        One refresh at a time: an older one never replaces what a newer one has read.
        """
        async with self._refreshing:
            before = self.metadata_cache.versions
            versions: Versions = await self._threads.read(self.store.versions)
            if versions == before:
                return
            settings: StoredSettings = await self._threads.read(self.store.settings)
            topics: list[TopicRow] = await self._threads.read(self.store.topics)
            self.metadata_cache.update(versions, settings, topics)
            self._log_ends.forget_deleted(versions.log_end_deletions)
            is_settings = before[:2] != versions[:2]
            work = reevaluate_groups(self._owned_shards(), is_rebalance_timeout_changed=is_settings)
            self._tasks.append(asyncio.create_task(work, name="muster-reevaluation"))
            await asyncio.wait(self._tasks[-1:])  # If this call is cancelled, it goes on.

    async def read(self, call: Callable[[], T]) -> T:
        """Return the result of a call of the store on a reader thread.

        Raises:
            CoordinatorNotAvailable: the database cannot be reached.
        """
        return await self._query_failures.answer(self._threads.read(call))

    async def refresh_settings(self) -> None:
        """Apply the stored settings and topic metadata now, and not only after the next renewal.

        Raises:
            CoordinatorNotAvailable: the database cannot be reached.
        """
        await self._query_failures.answer(self._refresh())

    # -- the group protocol --------------------------------------------------------------------------------

    def new_token(self) -> Token:
        """Return a token that is unique among the requests of this node."""
        return next(self._tokens)

    def submit(self, group_id: str, request: MemberRequest) -> asyncio.Future[Answer]:
        """Decide a request, and return its response, which completes when everything that it depends on is stored.

        Cancelling the future discards the response; of requests, it stops commits only that wait for a locked group.

        Raises:
            CoordinatorError: the request was refused, either here or as the future's exception; its `action` says what
                the caller should do.
        """
        now = self._clock.now()
        shard = self._shard_of(group_id, now)
        self.quarantine.check(group_id)
        if shard.is_loading:
            return completed_future(respond_while_loading(request, self.metadata_cache.context(group_id).settings))
        if not isinstance(request, Heartbeat):
            self.admission.check(request, shard.groups.get(group_id), self.metadata_cache.context(group_id).settings)
        return shard.submit(group_id, request, now)

    def _shard_of(self, group_id: str, now: Now) -> Shard:
        """Return the shard of a group; raises CoordinatorError unless this node's lease on it is valid."""
        shard_id = _shard_number(group_id, self._shard_count)
        shard = self._ownership.owned.get(shard_id)
        if shard is not None and shard.valid_until_ms > now.node_ms:
            return shard
        lease = self._ownership.leases.get(shard_id)
        is_elsewhere = lease is not None and lease.node_id not in {None, self.node_id} and not lease.is_expired
        if is_elsewhere and lease is not None:
            raise NotCoordinator("another node owns this group", lease.listeners)
        reason = self._ownership.failure or self._ownership.loading.reason(shard_id)
        raise CoordinatorNotAvailable(reason or "the group's shard has no owner now")

    def shard_id_of(self, group_id: str) -> int:
        """Return the shard that a group belongs to."""
        return _shard_number(group_id, self._shard_count)

    async def wait_for_new_epoch(self, group_id: str, epoch: int) -> None:
        """Wait until the group's shard has another epoch than this one."""
        await self._ownership.wait_for_epoch_change(self.shard_id_of(group_id), epoch)

    def find_coordinator(self, group_id: str) -> ShardOwner:
        """Return the owner of a group's shard: this node, or another as of the last renewal."""
        shard_id = self.shard_id_of(group_id)
        shard = self._ownership.owned.get(shard_id)
        if shard is not None and shard.valid_until_ms > self._clock.now().node_ms:
            return ShardOwner(shard_id, self.node_id, self.listeners, shard.epoch)
        lease = self._ownership.leases.get(shard_id)
        if lease is None or lease.is_expired:
            return ShardOwner(shard_id, None, {}, 0 if lease is None else lease.epoch)
        return ShardOwner(shard_id, lease.node_id, lease.listeners, lease.epoch)

    def owner_address(self, group_id: str, listener: str) -> str | None:
        """Return the address of a listener of the node that serves a group, as of the last renewal; None if unknown."""
        lease = self._ownership.leases.get(self.shard_id_of(group_id))
        return None if lease is None or lease.is_expired else lease.listeners.get(listener)

    def addresses(self, listener: str) -> dict[str, str]:
        """Return the addresses of a listener by node id: this node's, and those of owners as of the last renewal."""
        others = {
            lease.node_id: lease.listeners[listener]
            for lease in self._ownership.leases.values()
            if lease.node_id is not None and not lease.is_expired and listener in lease.listeners
        }
        return {**others, self.node_id: self.listeners[listener]}

    # -- groups and offsets ---------------------------------------------------------------------------------

    def serving_shard(self, group_id: str) -> Shard:
        """Return the shard of a group; raises CoordinatorError unless this node serves the group."""
        shard = self.loaded_shard(group_id)
        self.quarantine.check(group_id)
        return shard

    def loaded_shard(self, group_id: str) -> Shard:
        """Return the shard of a group that this node owns, even if the group is quarantined."""
        shard = self._shard_of(group_id, self._clock.now())
        if shard.is_loading:
            raise CoordinatorLoadInProgress("the group is being loaded")
        return shard

    def describe(self, group_id: str) -> GroupView | None:
        """Return a group as it is now, or None if there is no such group.

        Raises:
            NotCoordinator: another node owns the group.
        """
        shard = self.serving_shard(group_id)
        return describe_group(shard, group_id, self.metadata_cache.context(group_id), self._clock.now())

    def quarantined(self) -> list[QuarantinedGroup]:
        """Return the quarantined groups of this node's shards, by id."""
        return self.quarantine.of_shards(self._ownership.owned)

    async def has_offsets(self, group_id: str) -> bool:
        """Return whether a group has committed offsets, whether or not it exists.

        Raises:
            NotCoordinator: another node owns the group.
        """
        await self._store_offsets(group_id)
        return await self.read(partial(self.store.has_offsets, group_id))

    async def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[str] | None,
        after: tuple[str, int] | None = None,
        limit: int | None = None,
    ) -> list[FetchedOffset]:
        """Return committed offsets, by topic and partition, as `Store.fetch_offsets` does.

        Raises:
            NotCoordinator: another node owns the group.
        """
        await self._store_offsets(group_id)
        return await self.read(partial(self.store.fetch_offsets, group_id, topics, after, limit))

    async def fetch_partitions(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> list[StoredOffset]:
        """Return the committed offsets of partitions, by topic and partition.

        Raises:
            NotCoordinator: another node owns the group.
        """
        await self._store_offsets(group_id)
        return await self.read(partial(self.store.stored_offsets, group_id, partitions))

    async def store_own_offsets(self, group_id: str) -> None:
        """Wait until the table `offsets` has every commit of a group of this node; of others it may lack the newest."""
        shard = self._ownership.owned.get(self.shard_id_of(group_id))
        if shard is not None:
            await self._checkpoints.store_group(shard, group_id)

    async def _store_offsets(self, group_id: str) -> None:
        """Wait until the table has every answered commit of a group; its owner knows which ones it lacks."""
        await self._checkpoints.store_group(self.loaded_shard(group_id), group_id)

    # -- topic metadata and settings -------------------------------------------------------------------------

    def settings_of(self, group_id: str) -> GroupSettings:
        """Return the effective settings of a group."""
        return self.metadata_cache.context(group_id).settings

    def check_settings(self, group_id: str, values: Mapping[str, SettingValue]) -> None:
        """Raise InvalidRequest if settings of a group could not be changed to these values."""
        check_settings(values)
        self.metadata_cache.check_change(group_id, {key: str(value) for key, value in values.items()})

    # -- the node --------------------------------------------------------------------------------------------

    @property
    def is_mirror(self) -> bool:
        """Whether the groups are those of a mirrored cluster, and are only read here."""
        return self._mirror is not None

    @property
    def mirrored_cluster(self) -> str | None:
        """The id of the mirrored cluster; None: this node coordinates its groups."""
        return None if self._follower is None else self._follower.cluster_id

    def wall_ms(self) -> int:
        """Return the wall time."""
        return self._clock.now().wall_ms

    def serving_shards(self) -> list[Shard]:
        """Return the loaded shards whose leases are valid."""
        now_ms = self._clock.now().node_ms
        return [shard for shard in self._owned_shards() if not shard.is_loading and shard.valid_until_ms > now_ms]

    def serves_all_shards(self) -> bool:
        """Return whether every shard of this node is loaded, with a valid lease."""
        return len(self.serving_shards()) == len(self._ownership.owned)

    def is_served_elsewhere(self, shard_id: int) -> bool:
        """Return whether another node owned a shard at the last renewal."""
        return self._ownership.is_served_elsewhere(self._ownership.leases[shard_id])

    def observe_log_ends(self, log_ends: Mapping[tuple[str, int], int]) -> None:
        """Take log ends of a mirrored cluster, by topic and partition; they are stored within about a second."""
        self._log_ends.observe_log_ends(log_ends, self._clock.now().wall_ms)

    def owned_shard_ids(self) -> list[int]:
        """Return the shards that this node owns, sorted."""
        return sorted(self._ownership.owned)

    def wake_maintenance(self) -> None:
        """Start the next renewal, and so maintenance, at once."""
        self._ownership.wake()

    def counts(self) -> NodeCounts:
        """Return the node's counters since its start, and its current state."""
        now = self._clock.now()
        shards = self._owned_shards()
        began_ms = min((shard.oldest_rebalance_ms(now.wall_ms) for shard in shards), default=now.wall_ms)
        groups = [group for shard in shards for group in shard.live_groups()]
        lease_left_ms = min((shard.valid_until_ms - now.node_ms for shard in shards), default=0)
        return NodeCounts(
            node_id=self.node_id,
            version=self._config.version,
            sums=deepcopy(self._counters),
            groups=GroupCounts.of(groups, now.wall_ms),
            longest_rebalance_s=max(0, now.wall_ms - began_ms) / 1000,
            rebalancing=rebalancing_groups(
                (group_context for shard in shards for group_context in shard.groups.values()), now.wall_ms
            ),
            rebalance_rates=self._rebalance_rate.most(now.node_ms),
            quarantined_groups=len(self.quarantined()),
            members_of_group=tuple((group.group_id, len(group.members)) for group in groups),
            shard_count=self._shard_count,
            shards_active=len(self.serving_shards()),
            shards_loading=sum(shard.is_loading for shard in shards),
            lease_left_s=max(0, lease_left_ms) / 1000,
            is_store_reachable=self._ownership.is_store_reachable(),
            incarnation=self._ownership.incarnation,
            active_timers=sum(len(shard.timers) for shard in shards),
            queued_rows=self._writer.queued_rows,
            queued_bytes=self._writer.queued_bytes,
            largest_shares=self.admission.largest_shares(),
            dirty_offsets=self._checkpoints.dirty_size,
            oldest_dirty_offset_s=self._checkpoints.oldest_ms() / 1000,
            max_queued_rows=self._config.max_queued_rows,
            max_queued_bytes=self._config.max_queued_bytes,
            wall_ms=now.wall_ms,
            mirror=None if self._follower is None else deepcopy(self._follower.counts),
        )

    async def readiness(self) -> Readiness:
        """Return whether the node can serve, and why not, one sentence for each reason."""
        if self.is_stopping:
            return Readiness(is_ready=False, reasons=("the node is stopping",))
        found = await self._readiness_check.check()
        if (failure := self._failure()) is not None:
            return Readiness(is_ready=False, reasons=(failure,))
        if failures := self._ownership.loading.reasons():
            return Readiness(is_ready=False, reasons=(*found.reasons, *failures))
        if not len(self.serving_shards()) and not self._is_spare():
            return Readiness(is_ready=False, reasons=(*found.reasons, "the node owns no shard yet"))
        if self._follower is not None and self._follower.counts.failure is not None:
            return Readiness(is_ready=False, reasons=(*found.reasons, self._follower.counts.failure))
        if quarantined := len(self.quarantined()):
            return replace(found, reasons=(*found.reasons, quarantine_notice(quarantined)))
        return found

    def _failure(self) -> str | None:
        """Return why the node cannot serve, whatever the database says."""
        if ended := [task.get_name() for task in self._loops if task.done()]:
            return f"the loop {ended[0]} has ended: restart the node"
        if (busy_ms := self._writer.busy_ms()) > self._config.lease_ttl_ms:
            # The statement timeout is less than half of a lease, so a write that takes longer hangs.
            return f"a write to the database has been hanging for {busy_ms // 1000} s"
        return self._ownership.duplicate_node

    def _is_spare(self) -> bool:
        """Return whether there are more nodes than shards, so that some nodes own none."""
        renewal = self._ownership.last_renewal
        return renewal is not None and len(renewal.live_nodes) > len(renewal.leases)


@lru_cache(maxsize=65_536)
def _shard_number(group_id: str, shard_count: int) -> int:
    return shard_of(group_id, shard_count)
