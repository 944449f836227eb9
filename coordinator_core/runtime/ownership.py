"""Which shards this node owns: it renews its leases, takes free ones up to its share, and gives some up.

* A lease counts from *before* its renewal was sent, by the node's own monotonic clock, so a node stops answering
  before anybody else may begin. Until it hears from the database again it answers for nothing.
* A shard that is lost, or was dropped, comes back under a new epoch, loaded from what was stored.
* Shards are taken and loaded a few at a time, and leases are renewed meanwhile, so that however much there is to load
  takes nothing away from what is owned already.
* A new incarnation of the database (`store/incarnations.py`) drops every shard at the next renewal.
* A shard that cannot be loaded, or not within the time of a lease, is released, and is tried again later.
* Of two processes under one name the elder gives way: it finds that its shards are its name's and not its own.
* The loop decides when to renew; the calls run on a thread and a connection of their own.

Source: ARCHITECTURE.md "Ownership, and losing a node".
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from math import ceil

import structlog

from coordinator_core.protocol.errors import CoordinatorNotAvailable, NotCoordinator
from coordinator_core.runtime.clock import Clock, Threads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.load_failures import LoadFailures
from coordinator_core.runtime.shard import Shard
from coordinator_core.store.incarnations import ROLLED_BACK, is_rolled_back
from coordinator_core.store.interface import Store, StoreError
from coordinator_core.store.rows import Incarnation, LeaseRow, Renewal, StoredGroup, UnreadableGroup

log = structlog.get_logger("muster.runtime")

RENEWALS_PER_TTL = 3
LOOKS_PER_TTL = 20
"""Renewals in the time of a lease while shards are on their way to another owner: callers wait for them."""
RETRY_AFTER_FAILURE_MS = 250
TAKE_OVER_STEPS = 10
"""In how many steps one node would take all shards there are."""

MakeShard = Callable[[int, int], Shard]


class Ownership:
    """The shards of one node, and what it knows of everybody else's."""

    def __init__(
        self,
        store: Store,
        config: NodeConfig,
        clock: Clock,
        threads: Threads,
        counters: Counters,
        make_shard: MakeShard,
    ) -> None:
        self.owned: dict[int, Shard] = {}
        self.leases: dict[int, LeaseRow] = {}
        self.last_renewal: Renewal | None = None
        self.failure: str | None = "the node has not reached the database yet"
        """Why the last renewal failed; None when it did not."""
        self.namesake: str | None = None
        """Why this node owns nothing as long as another process serves under its name; None when nobody does."""
        self._store = store
        self._config = config
        self._clock = clock
        self._threads = threads
        self._counters = counters
        self._asked_at_ms: int | None = None
        """Since when a renewal is under way."""
        self._taking: asyncio.Future[dict[int, int]] | None = None
        """A take-over that has not been answered: what it takes is this node's, and known to nobody."""
        self._taken: dict[int, int] = {}
        """Shard → the epoch under which this process took it and has not given it up; others may have it by now."""
        self._has_told_of_failure = False
        self._make_shard = make_shard
        self.loading = LoadFailures(clock)
        self._load_task: asyncio.Task[None] | None = None
        """The load under way, or the last one."""
        self._hurry = asyncio.Event()
        self._moved: dict[tuple[int, int], asyncio.Event] = {}
        """(shard, epoch) → what is set when the epoch is over; only where somebody waits for that."""

    @property
    def incarnation(self) -> Incarnation | None:
        """The database's incarnation, as of the last renewal; None before the first."""
        return None if self.last_renewal is None else self.last_renewal.incarnation

    def hurry(self) -> None:
        """Renew now: something changed."""
        self._hurry.set()

    async def wait_for_turn(self) -> None:
        """Wait until it is time to renew again, or somebody is in a hurry."""
        try:
            async with asyncio.timeout(self.turn_after_ms() / 1000):
                await self._hurry.wait()
        except TimeoutError:
            pass
        self._hurry.clear()

    def reaches_store(self) -> bool:
        """Tell whether the last renewal came through, and the one under way has not taken longer than a lease."""
        is_hanging = (
            self._asked_at_ms is not None and self._clock.now().node_ms - self._asked_at_ms > self._config.lease_ttl_ms
        )
        return self.failure is None and not is_hanging

    def turn_after_ms(self) -> float:
        """Return how long to wait before the next renewal, if nobody is in a hurry."""
        if self.failure:
            return RETRY_AFTER_FAILURE_MS
        return self._config.lease_ttl_ms / (LOOKS_PER_TTL if self._is_moving() else RENEWALS_PER_TTL)

    def _is_moving(self) -> bool:
        """Tell whether some shard has no owner, as far as this node knows, or this node waits for its share."""
        if self.last_renewal is None:
            return True
        share = len(self.leases) // max(1, len(self.last_renewal.live_nodes))
        return len(self.owned) < share or any(
            lease.node_id is None or lease.is_expired for lease in self.leases.values()
        )

    async def renew(self) -> Renewal | None:
        """Renew every lease, drop what is lost, and move towards this node's share.

        Returns:
            What was found, or None if the database could not be reached.
        """
        sent_ms = self._asked_at_ms = self._clock.now().node_ms
        epochs = {shard_id: shard.epoch for shard_id, shard in self.owned.items()}
        last = self.last_renewal
        try:
            renewal = await self._threads.lease(partial(self._renew_at_store, epochs, last))
        except StoreError as error:
            self._counters.renewals_failed += 1
            self.note_failure(str(error))
            return None
        finally:
            self._asked_at_ms = None
        self._counters.renewals += 1
        self._note_success()
        self.last_renewal = renewal
        self.leases = {lease.shard_id: lease for lease in renewal.leases}
        self.loading.forget(lease.shard_id for lease in renewal.leases if self._is_served_elsewhere(lease))
        for shard_id, epoch in list(self._moved):
            if self.leases[shard_id].epoch != epoch:
                self._moved.pop((shard_id, epoch)).set()
        self._look_for_namesake(epochs)
        if last is not None and renewal.incarnation != last.incarnation:
            self._drop_for_incarnation(renewal.incarnation, last.incarnation)
        self._extend(renewal, epochs, sent_ms)
        return renewal

    def _renew_at_store(self, epochs: dict[int, int], last: Renewal | None) -> Renewal:
        """Renew, and renew again under a new incarnation where the database was rolled back."""
        config, store = self._config, self._store
        node = (config.node_id, config.url, config.version, epochs, config.lease_ttl_ms)
        if last is None:
            return store.renew(*node)
        renewal = store.renew(*node, last.renewals)
        if is_rolled_back(renewal, last):
            store.start_incarnation(renewal.incarnation.number, config.node_id, ROLLED_BACK)
            renewal = store.renew(*node, last.renewals)
        return renewal

    def _drop_for_incarnation(self, found: Incarnation, last: Incarnation) -> None:
        """Drop every shard: what this node remembers may be more than the database holds."""
        log.error(
            "database_incarnation_changed",
            incarnation=found.number,
            incarnation_before=last.number,
            identity=None if found.identity is None else asdict(found.identity),
            identity_before=None if last.identity is None else asdict(last.identity),
        )
        for shard in list(self.owned.values()):
            shard.drop(CoordinatorNotAvailable("the database was restored or failed over; the group is loaded again"))

    def _look_for_namesake(self, epochs: dict[int, int]) -> None:
        """See whether another process took shards as this node, and for how long it keeps them."""
        ours = {shard_id: lease for shard_id, lease in self.leases.items() if lease.node_id == self._config.node_id}
        if self.namesake is None and any(ours[shard_id].epoch > epochs[shard_id] for shard_id in ours.keys() & epochs):
            self.namesake = (
                f"another process serves as {self._config.node_id}: give each node an address of its own"
                " (MUSTER_ADVERTISED_URL)"
            )
            log.error("node_name_shared", node=self._config.node_id)
        elif all(lease.is_expired for lease in ours.values()):
            self.namesake = None

    async def moved(self, shard_id: int) -> None:
        """Wait until a renewal finds a shard under another epoch than it is known to have now."""
        key = (shard_id, self.leases[shard_id].epoch)
        await self._moved.setdefault(key, asyncio.Event()).wait()

    def note_failure(self, why: str) -> None:
        """Take note that the database was not reached, or did not do what it was asked to."""
        if not self._has_told_of_failure:
            log.warning("store_unavailable", why=why)
        self._has_told_of_failure = True
        self.failure = why

    def _note_success(self) -> None:
        if self._has_told_of_failure:
            log.info("store_recovered")
        self._has_told_of_failure = False
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

    # -- towards an even share ------------------------------------------------------------------------------

    async def rebalance_shards(self, renewal: Renewal) -> None:
        """Take free shards up to this node's share; give up what is beyond it."""
        share = ceil(len(renewal.leases) / max(1, len(renewal.live_nodes)))
        missing = share - len(self.owned)
        if missing > 0:
            free = [lease.shard_id for lease in renewal.leases if self._is_free(lease)]
            await self._take_in_steps(free[:missing])
        elif missing < 0:
            await self.give_up(list(self.owned)[missing:])

    def _is_free(self, lease: LeaseRow) -> bool:
        if self.loading.is_waiting(lease.shard_id):
            return False
        is_mine = lease.node_id == self._config.node_id and lease.shard_id not in self.owned and not self.namesake
        return is_mine or lease.node_id is None or lease.is_expired

    def _is_served_elsewhere(self, lease: LeaseRow) -> bool:
        return lease.node_id not in {None, self._config.node_id} and not lease.is_expired

    async def _take_in_steps(self, shard_ids: list[int]) -> None:
        """Take shards until all are taken, or it is time to renew; the next turn, which is soon, goes on."""
        renew_at_ms = self._clock.now().node_ms + self._config.lease_ttl_ms / RENEWALS_PER_TTL
        for step in self.loading.steps(shard_ids, ceil(len(self.leases) / TAKE_OVER_STEPS)):
            if not await self._is_loaded_by(renew_at_ms):
                return
            try:
                await self._take(step)
            except StoreError as error:
                self.note_failure(str(error))
                return
        await self._is_loaded_by(renew_at_ms)

    async def _is_loaded_by(self, node_ms: float) -> bool:
        """Wait for the load under way, but not beyond a moment; tell whether there is time left."""
        left_ms = node_ms - self._clock.now().node_ms
        if self._load_task is not None and not self._load_task.done():
            await asyncio.wait([self._load_task], timeout=max(0, left_ms) / 1000)
            return self._load_task.done() and self._clock.now().node_ms <= node_ms
        return left_ms >= 0

    async def _take(self, shard_ids: list[int]) -> None:
        sent_ms = self._clock.now().node_ms
        config = self._config
        self._taking = self._threads.lease(
            lambda: self._store.take_over(config.node_id, shard_ids, config.lease_ttl_ms)
        )
        try:
            epochs = await asyncio.shield(self._taking)
        except StoreError:
            self._taking = None
            raise
        self._taking = None
        shards = [self._open(shard_id, epoch, sent_ms) for shard_id, epoch in epochs.items()]
        self._load_task = asyncio.create_task(self._load(shards), name="muster-load")

    def _open(self, shard_id: int, epoch: int, sent_ms: int) -> Shard:
        self._counters.shards_taken += 1
        self._taken[shard_id] = epoch
        shard = self._make_shard(shard_id, epoch)
        shard.valid_until_ms = sent_ms + self._config.lease_ttl_ms
        self.owned[shard_id] = shard
        self.leases[shard_id] = LeaseRow(shard_id, self._config.node_id, epoch, is_expired=False, url=self._config.url)
        return shard

    async def _load(self, shards: list[Shard]) -> None:
        """Load shards that were just taken; release those that cannot be loaded."""
        ids = [shard.shard_id for shard in shards]
        began_ms = self._clock.now().node_ms
        ttl_s = self._config.lease_ttl_ms / 1000
        try:
            async with asyncio.timeout(ttl_s):
                stored = await self._threads.read(partial(self._store.load_shards, ids))
        except TimeoutError:
            await self._give_load_up(shards, f"its groups were not read within {ttl_s:g} s, the time of a lease")
            return
        except StoreError as error:
            await self._give_load_up(shards, str(error))
            return
        except Exception as error:  # whatever it is, the shards are released and tried again
            log.exception("load_broke", shards=ids)
            await self._give_load_up(shards, f"{type(error).__name__}: {error}")
            return
        for shard in shards:
            await self._load_one(shard, [one for one in stored if one.shard_id == shard.shard_id])
        took_ms = self._clock.now().node_ms - began_ms
        self._counters.load_s.add(took_ms / 1000)
        log.info("shards_taken", shards=sorted(ids), groups=len(stored), took_ms=took_ms)

    async def _load_one(self, shard: Shard, stored: list[StoredGroup | UnreadableGroup]) -> None:
        if shard.is_dropped:
            return
        try:
            shard.load(stored)
        except Exception as error:  # whatever it is, the shard is released and tried again
            log.exception("load_broke", shards=[shard.shard_id])
            await self._give_load_up([shard], f"{type(error).__name__}: {error}")
        else:
            self.loading.forget([shard.shard_id])

    async def _give_load_up(self, shards: list[Shard], why: str) -> None:
        """Drop and release shards that could not be loaded; each is tried again after a while."""
        lost = [shard for shard in shards if not shard.is_dropped]
        for shard in lost:
            self.loading.add(shard.shard_id, why)
            shard.fail(CoordinatorNotAvailable(f"the group's shard cannot be loaded: {why}"))
        self._counters.loads_failed += len(lost)
        log.error("shards_not_loaded", shards=[shard.shard_id for shard in lost], why=why)
        await self._release({shard.shard_id: shard.epoch for shard in lost})

    async def hand_over(self) -> None:
        """Give up all shards, also those that were dropped, or about to be taken, when the loops were stopped."""
        if self._load_task is not None:
            self._load_task.cancel()
            await asyncio.gather(self._load_task, return_exceptions=True)
        await self.give_up(list(self.owned))
        try:
            if self._taking is not None:
                self._taken |= await self._taking
        except StoreError as error:
            self.note_failure(str(error))
        if self._taken:
            await self._release(self._taken)

    async def give_up(self, shard_ids: Iterable[int]) -> None:
        """Release shards, so that another node can take them at once; whoever waits there asks again."""
        epochs: dict[int, int] = {}
        for shard_id in list(shard_ids):
            shard = self.owned.get(shard_id)
            if shard is not None:
                epochs[shard_id] = shard.epoch
                self._taken.pop(shard_id, None)
                shard.drop(NotCoordinator("the shard moves to another node"))
        if not epochs:
            return
        self._counters.shards_given_up += len(epochs)
        log.info("shards_given_up", shards=sorted(epochs))
        await self._release(epochs)

    async def _release(self, epochs: dict[int, int]) -> None:
        try:
            await self._threads.lease(partial(self._store.release, self._config.node_id, epochs))
        except StoreError as error:
            self.note_failure(str(error))

    def forget(self, shard: Shard) -> None:
        """Take note that a shard was dropped; it may be taken again, under a new epoch."""
        if self.owned.get(shard.shard_id) is shard:
            del self.owned[shard.shard_id]
        self.hurry()
