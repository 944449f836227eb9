"""Shard ownership of a node: renew its leases, acquire free shards up to its share, and release shards beyond it.

* A lease counts from *before* its renewal was sent, by the node's monotonic clock, so a node stops serving a shard
  before another node can acquire it. After that the node refuses requests until a renewal succeeds.
* A shard that was lost or unloaded is loaded again under a new epoch.
* The newest settings are applied before an acquired shard is served, so that a change which its former owner answered
  stays effective.
* Shards are acquired and loaded a few at a time, and leases are renewed meanwhile, so that loading does not endanger
  the leases of owned shards.
* A new incarnation of the database (`state_store/incarnations.py`) unloads every shard at the next renewal.
* A shard that cannot be loaded, or not within the time of a lease, is released and retried later.
* When two processes use the same node id, the older one resigns: its shards have newer epochs than it acquired.
* Renewals run on a thread and a connection of their own.

Source: ARCHITECTURE.md "Ownership and failover".
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from functools import partial
from math import ceil

import structlog

from coordinator_core.protocol.errors import CoordinatorNotAvailable, NotCoordinator
from coordinator_core.runtime.clock import Clock, Threads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.database_errors import summary_of
from coordinator_core.runtime.load_failures import LoadFailures
from coordinator_core.runtime.memory import end_if_out_of_memory
from coordinator_core.runtime.shard import Shard
from coordinator_core.state_store.incarnations import ROLLED_BACK
from coordinator_core.state_store.interface import RolledBack, RuntimeStore, StoreError
from coordinator_core.state_store.rows import Incarnation, LeaseRow, Renewal, ShardLog, StoredGroup, UnreadableGroup

log = structlog.get_logger("muster.runtime")

RENEWALS_PER_TTL = 3
FAST_RENEWALS_PER_TTL = 20
"""Renewals in the time of a lease while shards have no owner: clients wait for them."""
RETRY_AFTER_FAILURE_MS = 250
ACQUIRE_STEPS = 10
"""The number of steps in which one node acquires all shards of the cluster."""

MakeShard = Callable[[int, int], Shard]


class ShardOwnership:
    """The shards of one node, and the leases of all nodes as of the last renewal."""

    def __init__(
        self,
        store: RuntimeStore,
        config: NodeConfig,
        clock: Clock,
        threads: Threads,
        counters: Counters,
        make_shard: MakeShard,
        refresh_settings: Callable[[], Awaitable[None]],
    ) -> None:
        self.owned: dict[int, Shard] = {}
        self.leases: dict[int, LeaseRow] = {}
        self.last_renewal: Renewal | None = None
        self.failure: str | None = "the node has not reached the database yet"
        """Why the last renewal failed; None if it succeeded."""
        self.duplicate_node: str | None = None
        """Why this node owns no shard: another process uses its node id; None if no process does."""
        self._store = store
        self._config = config
        self._clock = clock
        self._threads = threads
        self._counters = counters
        self._renewal_started_ms: int | None = None
        """When the renewal under way started; None if there is none."""
        self._acquiring: asyncio.Future[dict[int, int]] | None = None
        """An acquisition without a result yet: its shards already belong to this node."""
        self._acquired: dict[int, int] = {}
        """Shard → the epoch under which this process acquired it, until it releases it; may be outdated."""
        self._logged_failures: set[str] = set()
        """The failures that were logged since the last renewal that succeeded."""
        self._make_shard = make_shard
        self._refresh_settings = refresh_settings
        self.loading = LoadFailures(clock)
        self._load_task: asyncio.Task[None] | None = None
        """The load under way, or the last one."""
        self._loaded_ms: dict[int, int] = {}
        """Shard → when this process last loaded it, in node time."""
        self._repeated: set[int] = set()
        """Shards that were unloaded for a repeated failure; loading them again is not logged."""
        self._wake = asyncio.Event()
        self._moved: dict[tuple[int, int], asyncio.Event] = {}
        """(shard, epoch) → event that is set when the epoch ends; only if a task waits for it."""

    @property
    def incarnation(self) -> Incarnation | None:
        """The database's incarnation at the last renewal; None before the first."""
        return None if self.last_renewal is None else self.last_renewal.incarnation

    def wake(self) -> None:
        """Renew now, because something changed."""
        self._wake.set()

    async def wait_for_renewal(self) -> None:
        """Wait until the next renewal is due, or `wake` is called."""
        try:
            async with asyncio.timeout(self.renewal_delay_ms() / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def is_store_reachable(self) -> bool:
        """Return whether the last renewal succeeded, and the one under way has not taken longer than a lease."""
        is_hanging = (
            self._renewal_started_ms is not None
            and self._clock.now().node_ms - self._renewal_started_ms > self._config.lease_ttl_ms
        )
        return self.failure is None and not is_hanging

    def renewal_delay_ms(self) -> float:
        """Return the delay before the next renewal."""
        if self.failure:
            return RETRY_AFTER_FAILURE_MS
        return self._config.lease_ttl_ms / (FAST_RENEWALS_PER_TTL if self._has_unowned_shards() else RENEWALS_PER_TTL)

    def _has_unowned_shards(self) -> bool:
        """Return whether a shard has no owner, as of the last renewal, or this node owns less than its share."""
        if self.last_renewal is None:
            return True
        share = len(self.leases) // max(1, len(self.last_renewal.live_nodes))
        return len(self.owned) < share or any(
            lease.node_id is None or lease.is_expired for lease in self.leases.values()
        )

    async def renew(self, cluster_configs: int) -> Renewal | None:
        """Renew every lease, and unload shards whose leases are lost.

        Args:
            cluster_configs: the version of the cluster's settings that this node has applied.

        Returns:
            The renewal, or None if the database could not be reached.
        """
        sent_ms = self._renewal_started_ms = self._clock.now().node_ms
        epochs = {shard_id: shard.epoch for shard_id, shard in self.owned.items()}
        last = self.last_renewal
        try:
            renewal = await self._threads.lease(partial(self._renew_at_store, epochs, last, cluster_configs))
        except StoreError as error:
            self._counters.renewals_failed += 1
            self.record_failure(error)
            return None
        finally:
            self._renewal_started_ms = None
        self._counters.renewals += 1
        self._record_success()
        self.last_renewal = renewal
        self.leases = {lease.shard_id: lease for lease in renewal.leases}
        self.loading.forget(lease.shard_id for lease in renewal.leases if self.is_served_elsewhere(lease))
        for shard_id, epoch in list(self._moved):
            if self.leases[shard_id].epoch != epoch:
                self._moved.pop((shard_id, epoch)).set()
        self._check_duplicate_node(epochs)
        if last is not None and renewal.incarnation != last.incarnation:
            self._unload_for_incarnation(renewal.incarnation, last.incarnation)
        self._extend(renewal, epochs, sent_ms)
        return renewal

    def _renew_at_store(self, epochs: dict[int, int], last: Renewal | None, cluster_configs: int) -> Renewal:
        """Renew; if the database was rolled back, start a new incarnation and renew again."""
        config, store = self._config, self._store
        node = (config.node_id, config.listeners, config.version, epochs, config.lease_ttl_ms, last, cluster_configs)
        try:
            return store.renew(*node)
        except RolledBack as rollback:
            store.start_incarnation(rollback.incarnation, config.node_id, ROLLED_BACK)
            return store.renew(*node)

    def _unload_for_incarnation(self, found: Incarnation, last: Incarnation) -> None:
        """Unload every shard: memory may hold more than the database."""
        log.error(
            "database_incarnation_changed",
            incarnation=found.number,
            incarnation_before=last.number,
            identity=None if found.identity is None else asdict(found.identity),
            identity_before=None if last.identity is None else asdict(last.identity),
        )
        for shard in list(self.owned.values()):
            shard.unload(CoordinatorNotAvailable("the database was restored or failed over; the group is loaded again"))

    def _check_duplicate_node(self, epochs: dict[int, int]) -> None:
        """Detect whether another process has acquired shards under this node id, and when its leases have expired."""
        ours = {shard_id: lease for shard_id, lease in self.leases.items() if lease.node_id == self._config.node_id}
        if self.duplicate_node is None and any(
            ours[shard_id].epoch > epochs[shard_id] for shard_id in ours.keys() & epochs
        ):
            self.duplicate_node = (
                f"another process uses the node id {self._config.node_id}: give each node an address of its own"
                " (MUSTER_ADVERTISED_URL)"
            )
            log.error("node_id_conflict_detected", node=self._config.node_id)
        elif all(lease.is_expired for lease in ours.values()):
            self.duplicate_node = None

    async def wait_for_epoch_change(self, shard_id: int, epoch: int) -> None:
        """Wait until a renewal finds, or has found, a shard under another epoch than this one."""
        if self.leases[shard_id].epoch == epoch:
            await self._moved.setdefault((shard_id, epoch), asyncio.Event()).wait()

    def record_failure(self, error: Exception) -> None:
        """Record that a call to the database failed; only the log has the text of the error."""
        self.failure = summary_of(error)
        reason = f"{type(error).__name__}: {error}"
        if reason not in self._logged_failures:
            log.warning("database_unreachable", reason=reason)
        self._logged_failures.add(reason)

    def _record_success(self) -> None:
        if self._logged_failures:
            log.info("database_recovered")
        self._logged_failures.clear()
        self.failure = None

    def _extend(self, renewal: Renewal, epochs: dict[int, int], sent_ms: int) -> None:
        for shard_id, epoch in epochs.items():
            shard = self.owned.get(shard_id)
            if shard is None or shard.epoch != epoch:
                continue
            if shard_id in renewal.held:
                shard.extend_lease(sent_ms + self._config.lease_ttl_ms)
            else:
                shard.fail(NotCoordinator("another node owns the shard now"))

    # -- acquire and release --------------------------------------------------------------------------------

    async def rebalance_shards(self, renewal: Renewal) -> None:
        """Acquire free shards up to this node's share; release shards beyond it."""
        share = ceil(len(renewal.leases) / max(1, len(renewal.live_nodes)))
        missing = share - len(self.owned)
        if missing > 0:
            free = [lease.shard_id for lease in renewal.leases if self._is_free(lease)]
            await self._acquire_in_steps(free[:missing])
        elif missing < 0:
            await self.release_shards(list(self.owned)[missing:])

    def _is_free(self, lease: LeaseRow) -> bool:
        if self.loading.is_waiting(lease.shard_id):
            return False
        is_mine = lease.node_id == self._config.node_id and lease.shard_id not in self.owned and not self.duplicate_node
        return is_mine or lease.node_id is None or lease.is_expired

    def is_served_elsewhere(self, lease: LeaseRow) -> bool:
        """Return whether another node owned a shard at the last renewal."""
        return lease.node_id not in {None, self._config.node_id} and not lease.is_expired

    async def _acquire_in_steps(self, shard_ids: list[int]) -> None:
        """Acquire shards until all are acquired or a renewal is due, after which the next call continues."""
        renew_at_ms = self._clock.now().node_ms + self._config.lease_ttl_ms / RENEWALS_PER_TTL
        for step in self.loading.steps(shard_ids, ceil(len(self.leases) / ACQUIRE_STEPS)):
            if not await self._is_loaded_by(renew_at_ms):
                return
            try:
                await self._acquire(step)
            except StoreError as error:
                self.record_failure(error)
                return
        await self._is_loaded_by(renew_at_ms)

    async def _is_loaded_by(self, node_ms: float) -> bool:
        """Wait for the load under way, until `node_ms` at most; return whether it ended before."""
        left_ms = node_ms - self._clock.now().node_ms
        if self._load_task is not None and not self._load_task.done():
            await asyncio.wait([self._load_task], timeout=max(0, left_ms) / 1000)
            return self._load_task.done() and self._clock.now().node_ms <= node_ms
        return left_ms >= 0

    async def _acquire(self, shard_ids: list[int]) -> None:
        sent_ms = self._clock.now().node_ms
        config = self._config
        self._acquiring = self._threads.lease(
            lambda: self._store.acquire_leases(config.node_id, shard_ids, config.lease_ttl_ms)
        )
        try:
            epochs = await asyncio.shield(self._acquiring)
        except StoreError:
            self._acquiring = None
            raise
        self._acquiring = None
        shards = [self._open(shard_id, epoch, sent_ms) for shard_id, epoch in epochs.items()]
        self._load_task = asyncio.create_task(self._load(shards), name="muster-load")

    def _open(self, shard_id: int, epoch: int, sent_ms: int) -> Shard:
        self._counters.shards_acquired += 1
        self._acquired[shard_id] = epoch
        shard = self._make_shard(shard_id, epoch)
        shard.valid_until_ms = sent_ms + self._config.lease_ttl_ms
        self.owned[shard_id] = shard
        config = self._config
        self.leases[shard_id] = LeaseRow(shard_id, config.node_id, epoch, is_expired=False, listeners=config.listeners)
        return shard

    async def _load(self, shards: list[Shard]) -> None:
        """Load shards that were acquired; release those that cannot be loaded."""
        ids = [shard.shard_id for shard in shards]
        began_ms = self._clock.now().node_ms
        ttl_s = self._config.lease_ttl_ms / 1000
        try:
            async with asyncio.timeout(ttl_s):
                await self._refresh_settings()
                stored = await self._threads.read(partial(self._store.load_shards, ids))
                logs = await self._threads.read(partial(self._store.load_offset_log, ids))
        except TimeoutError:
            await self._release_failed_loads(
                shards, f"its groups were not read within {ttl_s:g} s, the time of a lease"
            )
            return
        except StoreError as error:
            await self._release_failed_loads(shards, str(error), error.summary)
            return
        except Exception as error:  # any error: the shards are released and retried
            end_if_out_of_memory(error)
            log.exception("shard_load_crashed", shards=ids)
            await self._release_failed_loads(shards, f"{type(error).__name__}: {error}")
            return
        for shard in shards:
            of_shard = [one for one in stored if one.shard_id == shard.shard_id]
            await self._load_one(shard, of_shard, logs[shard.shard_id])
            await asyncio.sleep(0)  # Thousands of groups take half a second: requests come between.
        took_ms = self._clock.now().node_ms - began_ms
        self._counters.load_s.add(took_ms / 1000)
        if not self._repeated.issuperset(ids):
            log.info("shards_acquired", shards=sorted(ids), groups=len(stored), took_ms=took_ms)
        self._repeated.difference_update(ids)

    async def _load_one(self, shard: Shard, stored: list[StoredGroup | UnreadableGroup], shard_log: ShardLog) -> None:
        if shard.is_unloaded:
            return
        self._loaded_ms[shard.shard_id] = self._clock.now().node_ms
        try:
            shard.load(stored, shard_log)
        except Exception as error:  # any error: the shard is released and retried
            end_if_out_of_memory(error)
            log.exception("shard_load_crashed", shards=[shard.shard_id])
            await self._release_failed_loads([shard], f"{type(error).__name__}: {error}")
        else:
            self.loading.forget([shard.shard_id])

    async def _release_failed_loads(self, shards: list[Shard], reason: str, summary: str | None = None) -> None:
        """Unload and release shards that could not be loaded; each is retried later.

        Args:
            shards: the shards.
            reason: why, for the log.
            summary: the same for clients; None: `reason`.
        """
        failed = [shard for shard in shards if not shard.is_unloaded]
        for shard in failed:
            self.loading.add(shard.shard_id, summary or reason)
            shard.fail(CoordinatorNotAvailable(f"the group's shard cannot be loaded: {summary or reason}"))
        self._counters.loads_failed += len(failed)
        log.error("shard_load_failed", shards=[shard.shard_id for shard in failed], reason=reason)
        await self._release_leases({shard.shard_id: shard.epoch for shard in failed})

    async def release_all_shards(self) -> None:
        """Release all shards, including unloaded ones and those of an acquisition under way."""
        if self._load_task is not None:
            self._load_task.cancel()
            await asyncio.gather(self._load_task, return_exceptions=True)
        await self.release_shards(list(self.owned))
        try:
            if self._acquiring is not None:
                self._acquired |= await self._acquiring
        except StoreError as error:
            self.record_failure(error)
        if self._acquired:
            await self._release_leases(self._acquired)

    async def release_shards(self, shard_ids: Iterable[int]) -> None:
        """Unload and release shards, so that another node can acquire them at once."""
        epochs: dict[int, int] = {}
        for shard_id in list(shard_ids):
            shard = self.owned.get(shard_id)
            if shard is not None:
                epochs[shard_id] = shard.epoch
                self._acquired.pop(shard_id, None)
                shard.unload(NotCoordinator("the shard moves to another node"))
        if not epochs:
            return
        self._counters.shards_released += len(epochs)
        log.info("shards_released", shards=sorted(epochs))
        await self._release_leases(epochs)

    async def _release_leases(self, epochs: dict[int, int]) -> None:
        try:
            await self._threads.lease(partial(self._store.release, self._config.node_id, epochs))
        except StoreError as error:
            self.record_failure(error)

    def forget(self, shard: Shard) -> None:
        """Forget an unloaded shard; it may be acquired again under a new epoch.

        One that fails as soon as it is loaded, such as by a refused row, waits for `RETRY_AFTER_FAILURE_MS`.
        """
        if self.owned.get(shard.shard_id) is shard:
            del self.owned[shard.shard_id]
        if shard.is_failure_repeated:
            self._repeated.add(shard.shard_id)
        if self._clock.now().node_ms - self._loaded_ms.get(shard.shard_id, 0) >= RETRY_AFTER_FAILURE_MS:
            self.wake()
        else:
            asyncio.get_running_loop().call_later(RETRY_AFTER_FAILURE_MS / 1000, self.wake)
