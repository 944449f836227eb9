"""The coordinator is what front doors call: it finds the shard, and the shard decides.

It owns the loops of a node: the writer; the timekeeper; the renewal, which also notices changed settings and
maintenance that waits to be worked off; history's upkeep; the hours of stays that go on; and the members that long
rebalances wait for.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from copy import deepcopy
from dataclasses import replace
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
from coordinator_core.protocol.replies import Answer
from coordinator_core.protocol.requests import (
    Heartbeat,
    JoinGroup,
    SyncGroup,
    Token,
)
from coordinator_core.protocol.settings import Now
from coordinator_core.runtime.archive_files import ArchiveFiles
from coordinator_core.runtime.archiving import Archiving
from coordinator_core.runtime.awaited import AwaitedMembersLoop
from coordinator_core.runtime.behind import GroupLag
from coordinator_core.runtime.clock import Clock, SystemClock, SystemThreads, Threads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.counters import Counters, Counts, GroupCounts
from coordinator_core.runtime.describe import describe_group
from coordinator_core.runtime.desk import Desk
from coordinator_core.runtime.diagnosis import Diagnosis
from coordinator_core.runtime.history import History
from coordinator_core.runtime.log_ends import LogEndReports
from coordinator_core.runtime.loops import kept_running, told
from coordinator_core.runtime.maintenance import Maintenance
from coordinator_core.runtime.operators import Operators
from coordinator_core.runtime.ownership import Ownership
from coordinator_core.runtime.quarantine import Quarantine, QuarantinedGroup
from coordinator_core.runtime.readiness import Inspection, quarantine_notice
from coordinator_core.runtime.restless import Restlessness
from coordinator_core.runtime.scraped import Scraped
from coordinator_core.runtime.shard import MemberRequest, Shard, given
from coordinator_core.runtime.stays import Hours
from coordinator_core.runtime.surroundings import Surroundings
from coordinator_core.runtime.timekeeper import Timekeeper
from coordinator_core.runtime.tuning import Tuning
from coordinator_core.runtime.unsettled import unsettled_groups
from coordinator_core.runtime.views import GroupView, Readiness, SettingInForce, ShardOwner
from coordinator_core.runtime.writer import Writer
from coordinator_core.store.candidates import CandidatePlace, ListedCandidate, ListedDay
from coordinator_core.store.history import ExpiryForecast, GroupPosition
from coordinator_core.store.interface import OutcomeUnknown, Store, StoreError, StoreUnavailable
from coordinator_core.store.overview import Overview, OverviewFilter
from coordinator_core.store.reports import Report, ReportFilter
from coordinator_core.store.rows import FetchedOffset, GroupFilter, ListedGroup, StoredSettings, TopicRow, Versions
from coordinator_core.store.runs import RunRow

log = structlog.get_logger("muster.runtime")

T = TypeVar("T")

HISTORY_CHECK_S = 3_600
"""How often the partitions of history tables are looked after, and nodes that were lost are forgotten."""


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
        self._threads = threads or SystemThreads(config.max_reads)
        self._tokens = count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._surroundings = Surroundings(config.defaults, config.environment_keys)
        self._counters = sums = Counters()
        self._restlessness = Restlessness()
        self._log_ends = LogEndReports(store, self._threads, self._surroundings.log_end_max_age_ms)
        self._quarantine = Quarantine(self._is_served)
        shared = (self._clock, self._threads, sums)
        self._writer = Writer(
            store,
            config.node_id,
            *shared,
            max_batch_rows=config.max_batch_rows,
            prepare_ahead_rows=config.prepare_ahead_rows,
        )
        self._ownership = Ownership(store, config, *shared, self._make_shard)
        self._timekeeper = Timekeeper(self._clock, self._owned_shards, config.pause_ms, sums.loop_gap_s)
        archive = ArchiveFiles(config.archive_uri or "", is_checked=config.archive_check)
        archiving = Archiving(store, self._threads, lambda: self._clock.now().node_ms, archive.has)
        self._maintenance = Maintenance(
            store,
            self._threads,
            lambda: self._ownership.owned,
            self.new_token,
            chunk=config.maintenance_chunk,
            groups_at_once=config.maintenance_groups,
            archiving=archiving,
            quarantine=self._quarantine,
        )
        self.history = History(store, self._read)
        self.tuning = Tuning(store, self._read, self._surroundings, lambda: self._clock.now().wall_ms, config)
        self.diagnosis = Diagnosis(store, self._read, self._surroundings, lambda: self._clock.now().wall_ms)
        self.lag = GroupLag(store, self._read, self._surroundings, lambda: self._clock.now().wall_ms)
        self._inspection = Inspection(store, self._read, config.schema, lambda: self._ownership.failure)
        self._is_stopping = False
        self._scraped = Scraped(
            store, self._read, self._clock, lambda: self._ownership.owned, self._surroundings.log_end_max_age_ms
        )
        desk = Desk(
            store,
            self._read,
            self.new_token,
            self._serving,
            lambda: self._clock.now().wall_ms,
            self._surroundings.log_end_max_age_ms,
            self._loaded_shard,
            self._quarantine,
        )
        self.operators = Operators(desk, self._surroundings, self._look_around, self._ownership.hurry)
        self._shard_count = 0

    def _make_shard(self, shard_id: int, epoch: int) -> Shard:
        return Shard(
            shard_id,
            epoch,
            self._shard_count,
            clock=self._clock,
            writer=self._writer,
            surroundings=self._surroundings,
            counters=self._counters,
            restlessness=self._restlessness,
            log_ends=self._log_ends,
            quarantine=self._quarantine,
            on_timer=self._timekeeper.look_again,
            on_drop=self._ownership.forget,
        )

    def _owned_shards(self) -> list[Shard]:
        return list(self._ownership.owned.values())

    def _is_served(self, group_id: str) -> bool:
        shard = self._ownership.owned.get(self.shard_id_of(group_id))
        return shard is not None and group_id in shard.groups

    # -- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read what stands around groups, take a share of the shards, and begin to serve.

        Raises:
            StoreError: the database cannot be reached.
        """
        self._shard_count = await self._threads.read(self._store.shard_count)
        await self._look_after_history()
        await self._refresh(await self._threads.read(self._store.versions))
        self._start_loop("writer", self._writer.run)
        await self._tend()
        self._start_loop("timekeeper", self._timekeeper.run)
        self._start_loop("ownership", self._keep_tending)
        self._start_loop("history", self._keep_history)
        self._start_loop("log_ends", self._log_ends.run)
        self._start_loop("hours", Hours(self._owned_shards, self._is_writer_behind).run)
        after_ms = self._config.awaited_members_after_ms
        self._start_loop("awaited", AwaitedMembersLoop(self._owned_shards, self._is_writer_behind, after_ms).run)

    async def stop(self) -> None:
        """Hand every shard over, let whoever waits ask another node, and end."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._ownership.hand_over()
        await told("log_ends", self._log_ends.flush)
        try:
            await self._threads.lease(partial(self._store.retire_node, self.node_id))
        except StoreError as error:
            log.warning("node_not_retired", why=str(error))
        await asyncio.to_thread(self._threads.close)

    def _is_writer_behind(self) -> bool:
        return self._writer.queued_rows > self._config.max_batch_rows

    def _start_loop(self, name: str, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        self._tasks.append(asyncio.create_task(kept_running(name, loop), name=f"muster-{name}"))

    async def _keep_tending(self) -> None:
        while True:
            await self._ownership.wait_for_turn()
            try:
                await self._tend()
            except Exception as error:  # whatever it is, `/readyz` says it; the loop begins again
                self._ownership.note_failure(f"{type(error).__name__}: {error}")
                raise

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
        working_off = told("maintenance", self._maintenance.work_off)
        self._tasks.append(asyncio.create_task(working_off, name="muster-maintenance"))

    async def _keep_history(self) -> None:
        while True:
            await asyncio.sleep(HISTORY_CHECK_S)
            await self._look_after_history()
            await self._forget_lost_nodes()

    async def _look_after_history(self) -> None:
        try:
            await self._threads.read(partial(self._store.create_history_partitions, self._config.history_days_ahead))
        except StoreError as error:
            log.warning("history_partitions_not_checked", why=str(error))

    async def _forget_lost_nodes(self) -> None:
        kept_ms = self._config.lost_nodes_kept_hours * 3_600_000
        try:
            await self._threads.lease(partial(self._store.forget_nodes, kept_ms))
        except StoreError as error:
            log.warning("lost_nodes_not_forgotten", why=str(error))

    async def _refresh(self, versions: Versions) -> None:
        """Read settings and catalogue again, and let groups look at what changed."""
        before = self._surroundings.versions
        try:
            settings: StoredSettings = await self._threads.read(self._store.settings)
            topics: list[TopicRow] = await self._threads.read(self._store.topics)
        except StoreError as error:
            log.warning("surroundings_not_read", why=str(error))
            return
        gone = self._surroundings.update(versions, settings, topics)
        self._log_ends.forget_deleted(versions.log_end_deletions)
        is_settings = before[:2] != versions[:2]
        for shard in self._owned_shards():
            shard.reconsider_all(is_rebalance_timeout_changed=is_settings, gone_topics=gone)

    async def _look_around(self) -> None:
        """Take up at once what this node has just changed."""
        await self._refresh(await self._read(self._store.versions))

    # -- the group protocol --------------------------------------------------------------------------------

    def new_token(self) -> Token:
        """Return a token that no other request of this node has."""
        return next(self._tokens)

    def ask(self, group_id: str, request: MemberRequest) -> asyncio.Future[Answer]:
        """Decide a request at once; its answer comes when everything it rests on is stored, which may be at once too.

        Giving up on the answer is harmless: it is dropped, and the group is not told.

        Raises:
            CoordinatorError: the request was refused, be it here or in the answer's place; its `action` says what the
                caller should do.
        """
        now = self._clock.now()
        shard = self._shard_of(group_id, now)
        self._quarantine.check(group_id)
        if shard.is_loading:
            return given(answer_while_loading(request, self._surroundings.context(group_id).settings))
        if not isinstance(request, Heartbeat) and self._writer.queued_rows > self._config.max_queued_rows:
            raise CoordinatorNotAvailable("too many writes are waiting for the database")
        if isinstance(request, JoinGroup | SyncGroup) and self._waiting_requests() >= self._config.max_waiting_requests:
            raise CoordinatorNotAvailable("too many requests are waiting for an answer (max_waiting_requests)")
        return shard.ask(group_id, request, now)

    def _waiting_requests(self) -> int:
        return sum(shard.waiting_requests for shard in self._ownership.owned.values())

    def _shard_of(self, group_id: str, now: Now) -> Shard:
        """Return the shard, if it is certainly ours."""
        shard_id = self.shard_id_of(group_id)
        shard = self._ownership.owned.get(shard_id)
        if shard is not None and shard.valid_until_ms > now.node_ms:
            return shard
        lease = self._ownership.leases.get(shard_id)
        is_elsewhere = lease is not None and lease.node_id not in {None, self.node_id} and not lease.is_expired
        if is_elsewhere and lease is not None:
            raise NotCoordinator("another node owns this group", lease.url)
        why = self._ownership.failure or self._ownership.loading.why(shard_id)
        raise CoordinatorNotAvailable(why or "the group's shard is between two owners")

    def shard_id_of(self, group_id: str) -> int:
        """Return the shard that a group belongs to."""
        return _shard_number(group_id, self._shard_count)

    async def shard_moved(self, group_id: str) -> None:
        """Wait until the group's shard is served under another epoch than now."""
        await self._ownership.moved(self.shard_id_of(group_id))

    def coordinator_of(self, group_id: str) -> ShardOwner:
        """Return who serves a group, as far as this node knows."""
        shard_id = self.shard_id_of(group_id)
        lease = self._ownership.leases.get(shard_id)
        if lease is None or lease.is_expired:
            return ShardOwner(shard_id, None, None, 0 if lease is None else lease.epoch)
        return ShardOwner(shard_id, lease.node_id, lease.url, lease.epoch)

    def owner_url(self, group_id: str) -> str | None:
        """Return where a group is served, as far as this node knows; None where nobody is known to."""
        lease = self._ownership.leases.get(self.shard_id_of(group_id))
        return None if lease is None or lease.is_expired else lease.url

    # -- what stands -----------------------------------------------------------------------------------------

    def _serving(self, group_id: str) -> Shard:
        shard = self._loaded_shard(group_id)
        self._quarantine.check(group_id)
        return shard

    def _loaded_shard(self, group_id: str) -> Shard:
        shard = self._shard_of(group_id, self._clock.now())
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

    def quarantined(self) -> list[QuarantinedGroup]:
        """Return the groups of this node's shards that are not served because their rows cannot be loaded, by id."""
        return self._quarantine.of_shards(self._ownership.owned)

    async def was_seen(self, group_id: str) -> bool:
        """Tell whether history knows a group that is gone."""
        return await self._read(partial(self._store.was_seen, group_id))

    async def has_offsets(self, group_id: str) -> bool:
        """Tell whether anything is committed for a group, be it alive or not; any node may."""
        return await self._read(partial(self._store.has_offsets, group_id))

    async def fetch_offsets(self, group_id: str, topics: Sequence[str] | None) -> list[FetchedOffset]:
        """Return committed offsets, by topic and partition; any node may."""
        return await self._read(partial(self._store.fetch_offsets, group_id, topics))

    async def list_groups(self, which: GroupFilter) -> list[ListedGroup]:
        """Return a page of groups; any node may."""
        return await self._read(partial(self._store.list_groups, which))

    async def overview(self, which: OverviewFilter) -> Overview:
        """Return a page of groups in one of the overview's orders, and how many are in each state; any node may."""
        fresh_since_ms = self._clock.now().wall_ms - self._surroundings.log_end_max_age_ms()
        return await self._read(partial(self._store.overview, replace(which, fresh_since_ms=fresh_since_ms)))

    # -- catalogue and settings ------------------------------------------------------------------------------

    async def topics(self) -> list[TopicRow]:
        """Return the topic catalogue."""
        return await self._read(self._store.topics)

    def settings_in_force(self, group_id: str | None) -> dict[str, SettingInForce]:
        """Return every setting in force for a group (or the cluster), and where each comes from."""
        return self._surroundings.in_force(group_id)

    # -- maintenance ---------------------------------------------------------------------------------------

    async def runs(self) -> list[RunRow]:
        """Return the newest maintenance runs first."""
        return await self._read(self._store.runs)

    async def run(self, run_id: str) -> RunRow:
        """Return one maintenance run, with its counts by outcome."""
        return await self._read(partial(self._store.run, run_id))

    async def run_candidates(self, run_id: str, after: CandidatePlace | None, limit: int) -> list[ListedCandidate]:
        """Return a page of a maintenance run's candidates, by group, topic and partition."""
        return await self._read(partial(self._store.run_candidates, run_id, after, limit))

    async def run_days(self, run_id: str) -> list[ListedDay]:
        """Return the days of history that a maintenance run names, the oldest first."""
        return await self._read(partial(self._store.run_days, run_id))

    async def reports(self, which: ReportFilter) -> list[Report]:
        """Return the newest report of each group, by group; any node may."""
        return await self._read(partial(self._store.reports, which))

    async def _read(self, call: Callable[[], T]) -> T:
        try:
            return await self._threads.read(call)
        except (StoreUnavailable, OutcomeUnknown) as error:
            raise CoordinatorNotAvailable(f"the database cannot be reached: {error}") from error

    # -- itself ----------------------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """Return what the node has added up since it started, and how it stands now."""
        now = self._clock.now()
        now_ms = now.node_ms
        shards = self._owned_shards()
        began_ms = min((shard.oldest_rebalance_ms(now.wall_ms) for shard in shards), default=now.wall_ms)
        groups = [group for shard in shards for group in shard.live_groups()]
        lease_left_ms = min((shard.valid_until_ms - now_ms for shard in shards), default=0)
        return Counts(
            node_id=self.node_id,
            version=self._config.version,
            sums=deepcopy(self._counters),
            groups=GroupCounts.of(groups, now.wall_ms),
            longest_rebalance_s=max(0, now.wall_ms - began_ms) / 1000,
            unsettled=unsettled_groups((hosted for shard in shards for hosted in shard.groups.values()), now.wall_ms),
            restless=self._restlessness.most(now_ms),
            quarantined_groups=len(self.quarantined()),
            members_of_group=tuple((group.group_id, len(group.members)) for group in groups),
            shard_count=self._shard_count,
            shards_active=self._shards_active(),
            shards_loading=sum(shard.is_loading for shard in shards),
            lease_left_s=max(0, lease_left_ms) / 1000,
            is_store_reached=self._ownership.reaches_store(),
            incarnation=self._ownership.incarnation,
            deadlines_armed=sum(len(shard.timers) for shard in shards),
            queued_rows=self._writer.queued_rows,
            max_queued_rows=self._config.max_queued_rows,
            wall_ms=now.wall_ms,
        )

    async def readiness(self) -> Readiness:
        """Tell whether the node would serve, as of now; every reason why not is a sentence."""
        if self._is_stopping:
            return Readiness(is_ready=False, reasons=("the node is stopping",))
        found = await self._inspection.look()
        if self._ownership.namesake is not None:
            return Readiness(is_ready=False, reasons=(self._ownership.namesake,))
        if (busy_ms := self._writer.busy_ms()) > self._config.lease_ttl_ms:
            # The database itself bounds every write by less than half a lease: one that takes longer hangs.
            hanging = f"a write to the database has been hanging for {busy_ms // 1000} s"
            return Readiness(is_ready=False, reasons=(hanging,))
        if failures := self._ownership.loading.reasons():
            return Readiness(is_ready=False, reasons=(*found.reasons, *failures))
        if not self._shards_active() and not self._is_spare():
            return Readiness(is_ready=False, reasons=(*found.reasons, "the node owns no shard yet"))
        if quarantined := len(self.quarantined()):
            return replace(found, reasons=(*found.reasons, quarantine_notice(quarantined)))
        return found

    def _shards_active(self) -> int:
        """Return how many shards are served now."""
        now_ms = self._clock.now().node_ms
        return sum(not shard.is_loading and shard.valid_until_ms > now_ms for shard in self._owned_shards())

    def _is_spare(self) -> bool:
        """Tell whether there are more nodes than shards, so some must own none."""
        renewal = self._ownership.last_renewal
        return renewal is not None and len(renewal.live_nodes) > len(renewal.leases)

    async def positions(self, *, by_partition: bool) -> tuple[GroupPosition, ...] | None:
        """Return what this node's groups have committed, by topic or partition; None where nobody knows just now."""
        return None if self._is_stopping else await self._scraped.positions(by_partition=by_partition)

    async def behind_ms(self, lookback_ms: int) -> dict[tuple[str, str, int], int] | None:
        """Return for how long partitions of this node's groups are behind; None where nobody knows just now."""
        return None if self._is_stopping else await self._scraped.behind_ms(lookback_ms)

    async def newest_runs(self) -> dict[str, int] | None:
        """Return as of when each job last ran, in milliseconds; None where nobody knows just now."""
        return None if self._is_stopping else await self._scraped.newest_runs()

    async def expiring(self) -> ExpiryForecast | None:
        """Return what will expire of this node's groups; None where nobody has looked, or knows just now."""
        return None if self._is_stopping else await self._scraped.expiring()


@lru_cache(maxsize=65_536)
def _shard_number(group_id: str, shard_count: int) -> int:
    return shard_of(group_id, shard_count)
