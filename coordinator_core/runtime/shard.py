"""A shard: the groups of one shard in memory, and how their decisions are applied.

1. `decide` makes a decision, and the shard takes the decision's group at once, so the next request sees it. Small
   commits wait until the event loop has read its sockets, and are decided one after the other (DECISIONS.md, 116).
2. Timers that the decision concerns stop at once; its rows are queued for the writer.
3. When the rows are in the database, the timers start (so a slow store does not expire sessions) and the replies are
   sent. A decision without rows waits for the newest one that it may be based on, and completes at once if there is
   none.

A shard is *unloaded* when a write fails, its lease is lost or an invariant is violated: waiting requests get a
retriable error, and the shard is loaded again from the database under a new epoch.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

import structlog
from msgspec.structs import replace

from coordinator_core.protocol.decide import Decide, decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, InvalidRequest, NotCoordinator
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import (
    SESSION_ACTIVITY,
    CommitOffsets,
    Deadline,
    DeadlineKind,
    ExpireDeadline,
    Heartbeat,
    MemberRequest,
    Request,
    Resume,
    Token,
)
from coordinator_core.protocol.responses import Answer, EmptyResponse, Reply
from coordinator_core.protocol.settings import Now
from coordinator_core.protocol.states import COMPLETING, PREPARING
from coordinator_core.runtime.clock import Clock
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.events import log_member_events, log_rebalances, log_transition
from coordinator_core.runtime.group_context import LOCK_GRACE_MS, LOCKED_RETRY_MS, GroupContext, PendingDecision
from coordinator_core.runtime.groups_of_clients import GroupsOfClients
from coordinator_core.runtime.log_ends import LogEndReports
from coordinator_core.runtime.memory import end_if_out_of_memory, end_process
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.runtime.quarantine import REFUSALS, VIOLATIONS, Quarantine, QuarantinedGroup, WriteRefused
from coordinator_core.runtime.rebalance_rate import RebalanceRate
from coordinator_core.runtime.shard_offsets import Checkpoints, ShardOffsets
from coordinator_core.runtime.timers import GroupTimer, Timers
from coordinator_core.runtime.waiting_requests import WaitingRequests, completed_future
from coordinator_core.runtime.writer import Writer
from coordinator_core.state_store.ledger import Ledger
from coordinator_core.state_store.member_sessions import NO_DEADLINE_MS
from coordinator_core.state_store.offset_log import InvalidCommit, LoggedCommits
from coordinator_core.state_store.projection import load_group, project
from coordinator_core.state_store.row_checks import UnreadableRow, check_shard
from coordinator_core.state_store.rows import (
    NO_EXTRA_ROWS,
    ExtraRows,
    GroupWrite,
    MirrorPosition,
    ShardLog,
    StoredGroup,
    UnreadableGroup,
)

log = structlog.get_logger("muster.runtime")

SMALL_COMMIT_MAX_OFFSETS: Final = 16
"""A commit of more offsets is decided at once, while they are in the processor's caches, if it passes no other one."""
SHARD_RELOADING: Final = "the group's shard is being loaded again"

ExtraRowsOf = Callable[[Group, Decision, Now], ExtraRows]
"""Returns the rows to store with a decision, from the group before it, the decision, and its time."""
SubmitLocked = Callable[[Token, Request, ExtraRowsOf | None], Awaitable[Answer]]
"""Submits a request; None: it has no extra rows, as those of members."""


class LoadedGroup(NamedTuple):
    """A group loaded from its rows, the write that ends a forgotten join phase, and the decision to resume."""

    group_context: GroupContext
    forgotten: GroupWrite | None
    decision: Decision


class Shard:
    """The groups of one shard, under one epoch of its lease."""

    def __init__(  # noqa: PLR0913 - called once, with what the shards of a node share
        self,
        shard_id: int,
        epoch: int,
        shard_count: int,
        *,
        clock: Clock,
        writer: Writer,
        metadata_cache: MetadataCache,
        counters: Counters,
        rebalance_rate: RebalanceRate,
        log_ends: LogEndReports,
        quarantine: Quarantine,
        on_timer: Callable[[], None],
        checkpoints: Checkpoints,
        groups_of_clients: GroupsOfClients,
        on_unload: Callable[["Shard"], None],
        mirror: Decide | None = None,  # Decides in place of the protocol, where a Kafka cluster is mirrored.
    ) -> None:
        self.shard_id = shard_id
        self.epoch = epoch
        self.valid_until_ms = 0
        """Node time until which the lease is certainly valid."""
        self.stalled_after_ms = NO_DEADLINE_MS
        """Node time after which the event loop counts as paused; the timer loop keeps moving it."""
        self.is_unloaded = False
        self.is_failure_repeated = False
        """Whether the shard was unloaded for a failure that was logged before, as of every write to a full disk."""
        self.is_loading = True
        self.groups: dict[str, GroupContext] = {}
        self.offsets = ShardOffsets()
        self.rebalancing: set[str] = set()
        """Groups in PreparingRebalance or CompletingRebalance."""
        self.timers = Timers()
        self._shard_count = shard_count
        self._clock = clock
        self._writer = writer
        self._metadata_cache = metadata_cache
        self._counters = counters
        self._rebalance_rate = rebalance_rate
        self._log_ends = log_ends
        self._quarantine = quarantine
        self._on_timer = on_timer
        self._checkpoints = checkpoints
        self._groups_of_clients = groups_of_clients
        self._on_unload = on_unload
        self._decide: Decide = mirror or decide
        self.is_mirror = mirror is not None
        self._waiting = WaitingRequests(counters)

    # -- loading and unloading -----------------------------------------------------------------------

    def load(self, stored: Iterable[StoredGroup | UnreadableGroup], shard_log: ShardLog) -> None:
        """Load every group from its rows: sessions restart, and pending rebalances start.

        A group whose rows cannot be loaded is quarantined alone; one whose new rows are refused remains quarantined.
        """
        self._quarantine.begin_load(self.shard_id, self.epoch)
        self._checkpoints.note_growth(self.offsets.load(shard_log, self._clock.now().node_ms), "")
        for one in stored:
            if self._quarantine.get(one.group_id) is not None:
                continue
            now = self._clock.now()
            try:
                loaded = self._load_group(one, now)
            except UnreadableRow as failure:
                reason = f"its stored rows cannot be loaded: {failure}"
                self._quarantine.add(QuarantinedGroup(one.group_id, self.shard_id, reason, now.wall_ms))
            else:
                self._add_group(loaded, NO_EXTRA_ROWS, now)
        self.is_loading = False

    def reload(
        self, group_id: str, stored: StoredGroup | UnreadableGroup | None, token: Token, extra_rows_of: ExtraRowsOf
    ) -> asyncio.Future[Answer]:
        """Load a quarantined group again after its rows were repaired or deleted.

        Raises:
            UnreadableRow: the rows still cannot be loaded; the group remains quarantined.
            CoordinatorError: the shard was lost.
        """
        self._check_lease()
        self.check_is_loaded()
        now = self._clock.now()
        if stored is None:
            loaded = LoadedGroup(self._absent(group_id), None, Decision(Group(group_id)))
        else:
            loaded = self._load_group(stored, now)
        self._quarantine.release(group_id)
        answer = self._waiting.wait(token)
        decision = replace(loaded.decision, replies=(Reply(token, EmptyResponse()),))
        extra_rows = extra_rows_of(loaded.group_context.group, decision, now)
        self._add_group(loaded._replace(decision=decision), extra_rows, now)
        return answer

    def _load_group(self, stored: StoredGroup | UnreadableGroup, now: Now) -> LoadedGroup:
        """Load a group from its rows without changing the shard.

        Raises:
            UnreadableRow: the rows cannot be loaded; the text says why.
        """
        if isinstance(stored, UnreadableGroup):
            raise UnreadableRow(stored.reason)
        check_shard(stored, self.shard_id, self._shard_count)
        try:
            group, ledger, forgotten = load_group(stored, now.wall_ms, self.epoch, is_mirrored=self.is_mirror)
            decision = self._decide(group, Resume(), now, self._metadata_cache.context(group.group_id))
        except UnreadableRow:
            raise
        except Exception as failure:  # any error concerns this group only
            end_if_out_of_memory(failure)
            log.exception("group_load_failed", group=stored.group_id)
            raise UnreadableRow(f"its rows cannot be loaded ({type(failure).__name__}: {failure})") from failure
        return LoadedGroup(GroupContext(group, ledger), forgotten, decision)

    def _add_group(self, loaded: LoadedGroup, extra_rows: ExtraRows, now: Now) -> None:
        """Add a group, and apply the decision to resume it."""
        group_context = loaded.group_context
        group_id = group_context.group.group_id
        self.groups[group_id] = group_context
        self._track_rebalancing(group_context.group)
        if loaded.forgotten is not None:
            self.enqueue(group_context, loaded.forgotten)
        try:
            self._apply(group_context, loaded.decision, extra_rows, now.node_ms)
        except Exception as error:  # noqa: BLE001 - any error violates an invariant
            self._violated(error, group_id, Resume.__name__)

    def extend_lease(self, valid_until_ms: int) -> None:
        """Extend the lease; time in which it was in doubt, and requests were refused, is added to every deadline."""
        doubt_ms = self._clock.now().node_ms - self.valid_until_ms
        if doubt_ms > 0:
            self.timers.delay_all(doubt_ms)
            self._extend_gaps(doubt_ms)
        self.valid_until_ms = valid_until_ms

    def allow_for_pause(self, length_ms: int) -> None:
        """Add a pause of the event loop to the session deadlines of members and pending members."""
        self.timers.delay_members(length_ms)
        self._extend_gaps(length_ms)

    def _extend_gaps(self, length_ms: int) -> None:
        node_ms = self._clock.now().node_ms
        for group_context in self.groups.values():
            for session in group_context.ledger.sessions.values():
                session.exclude_pause(length_ms, node_ms)

    def fail(self, error: CoordinatorError, *, is_repeated: bool = False) -> None:
        """Unload the shard after an error; the node loads it again from the database, and logs neither if repeated."""
        if not self.is_unloaded:
            self._counters.shards_failed += 1
            self.is_failure_repeated = is_repeated
            if not is_repeated:
                log.warning("shard_unloaded", shard=self.shard_id, epoch=self.epoch, reason=error.detail)
        self.unload(error)

    def unload(self, error: CoordinatorError) -> None:
        """Unload the shard: waiting requests fail with a retriable error, and nothing more is decided here."""
        if self.is_unloaded:
            return
        self.is_unloaded = True
        self._waiting.fail_all(error)
        self._groups_of_clients.forget(self.groups.values())
        self._on_unload(self)

    # -- requests --------------------------------------------------------------------------------------

    def submit(self, group_id: str, request: MemberRequest, now: Now) -> asyncio.Future[Answer]:
        """Decide a request, at once unless its group is locked, and return its response.

        The lease is valid at the time `now`.

        Raises:
            CoordinatorError: the shard was unloaded; as the future's exception: the request was refused.
        """
        group_context = self.groups.get(group_id)
        if group_context is not None and isinstance(request, Heartbeat):
            # It does not depend on offsets, and a delayed one would count as silence: it does not wait for the lock.
            return self._submit_heartbeat(group_context, request, now)
        if group_context is None or group_context.lock is None:
            if group_context is not None and isinstance(request, CommitOffsets):
                return self._submit_commit(group_context, request, now)
            return self._submit_now(group_id, request.token, request, None, now)
        waiting = asyncio.create_task(self._submit_when_unlocked(group_id, request))
        if isinstance(request, CommitOffsets):
            return waiting  # If its client gives up, it is dropped: it could replace a newer one.
        waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # its client may have gone
        return asyncio.shield(waiting)

    async def _submit_when_unlocked(self, group_id: str, request: MemberRequest) -> Answer:
        while (group_context := self.groups.get(group_id)) is not None and group_context.lock is not None:
            async with group_context.lock:
                pass
            self._check_lease()
        return await self._submit_now(group_id, request.token, request, None, self._clock.now())

    def _check_lease(self) -> None:
        """Refuse a request that has waited so long that another node may own the shard."""
        if self.valid_until_ms <= self._clock.now().node_ms:
            raise CoordinatorNotAvailable("the lease on the group's shard may have expired meanwhile")

    def _submit_now(
        self, group_id: str, token: Token, request: Request, extra_rows_of: ExtraRowsOf | None, now: Now
    ) -> asyncio.Future[Answer]:
        self.check_is_loaded()
        answer = self._waiting.wait(token)
        self.perform(group_id, request, extra_rows_of, now)
        return answer

    def _submit_commit(self, group_context: GroupContext, request: CommitOffsets, now: Now) -> asyncio.Future[Answer]:
        """Decide a commit when the event loop has read its sockets, after all that have arrived before."""
        group_id, writer = group_context.group.group_id, self._writer
        if len(request.offsets) > SMALL_COMMIT_MAX_OFFSETS and not group_context.unstored_writes:
            return self._submit_now(group_id, request.token, request, None, now)
        self.check_is_loaded()
        answer = self._waiting.wait(request.token)
        group_context.unstored_writes += 1
        rows = 1 + len(request.offsets)  # `GroupWrite.size`
        writer.expect(rows)

        def perform() -> None:
            writer.expect(-rows)
            if not self.is_unloaded:  # Otherwise the future has failed.
                self.perform(group_id, request, None, now)
            group_context.end_write()
            if not group_context.group.exists:
                self._forget_if_absent(group_context)

        self._waiting.loop.call_soon(perform)
        return answer

    def _submit_heartbeat(self, group_context: GroupContext, request: Heartbeat, now: Now) -> asyncio.Future[Answer]:
        """Answer a heartbeat at once, unless its group waits for a write; nearly every request comes here."""
        group = group_context.group
        if group_context.last_pending is not None or self.is_unloaded:
            return self._submit_now(group.group_id, request.token, request, None, now)
        try:
            decision = self._decide(group, request, now, self._metadata_cache.context(group.group_id))
            answer = decision.replies[0].answer
            if decision.deadlines:
                session = group_context.ledger.sessions.get(request.member_id)
                if session is not None:
                    session.record_activity(now, self.stalled_after_ms)
                self._complete(group_context, decision, now.node_ms)
        except MemoryError:
            end_process()  # The timer of the session may be lost.
        if isinstance(answer, CoordinatorError):
            raise answer
        return completed_future(answer, self._waiting.loop)

    @asynccontextmanager
    async def locked(self, group_id: str) -> AsyncIterator[SubmitLocked]:
        """Lock a group while its offsets are read: queued writes are stored first, and its requests wait.

        Its dirty offsets are checkpointed, so that the table has all of its offsets until the end of the block.

        Yields a function that submits a request to the locked group.
        """
        group_context = self._get_or_create(group_id)
        if group_context.lock is None:
            group_context.deferred_until_ms = self._clock.now().node_ms + LOCK_GRACE_MS
        while group_context.lock is not None:
            async with group_context.lock:
                pass
            group_context = self._get_or_create(group_id)
        group_context.lock = lock = asyncio.Lock()
        try:
            async with lock:
                await group_context.wait_until_drained()
                await self._checkpoints.store_group(self, group_id)
                yield partial(self._submit_locked, group_id)
        finally:
            group_context.lock = None
            self._forget_if_absent(group_context)

    async def _submit_locked(
        self, group_id: str, token: Token, request: Request, extra_rows_of: ExtraRowsOf | None
    ) -> Answer:
        self._check_lease()
        return await self._submit_now(group_id, token, request, extra_rows_of, self._clock.now())

    def expire(self, timer: GroupTimer) -> None:
        """Decide an expired deadline, or later if the group is locked."""
        now_ms = self._clock.now().node_ms
        if (group_context := self.groups.get(timer.group_id)) is not None and group_context.defers_deadlines(now_ms):
            self.timers.start(timer, now_ms + LOCKED_RETRY_MS)
            return
        if timer.deadline.kind is DeadlineKind.PENDING_MEMBER:
            self._counters.pending_member_ids_expired += 1
        self.perform(timer.group_id, ExpireDeadline(timer.deadline))

    # -- decide, store, reply -----------------------------------------------------------------------------

    def perform(
        self, group_id: str, request: object, extra_rows_of: ExtraRowsOf | None = None, now: Now | None = None
    ) -> None:
        """Decide a request and apply the decision. A violated invariant unloads the shard."""
        group_context = self.groups.get(group_id) or self._absent(group_id)
        context = self._metadata_cache.context(group_id)
        now = now or self._clock.now()
        try:
            decision = self._decide(group_context.group, request, now, context)
            if isinstance(request, SESSION_ACTIVITY) and (decision.deadlines or decision.records):
                session = group_context.ledger.sessions.get(request.member_id)
                if session is not None:
                    session.record_activity(now, self.stalled_after_ms)
            before = group_context.group
            extra_rows = NO_EXTRA_ROWS if extra_rows_of is None else extra_rows_of(before, decision, now)
            self._apply(group_context, decision, extra_rows, now.node_ms)
            if isinstance(request, CommitOffsets) and request.trusted_topic_prefixes:
                self._log_ends.observe(decision.records, request.trusted_topic_prefixes)
        except Exception as error:  # noqa: BLE001 - any error violates an invariant
            if isinstance(error, InvalidCommit) and isinstance(request, CommitOffsets):  # The group has not changed.
                log.warning("commit_refused", group=group_id, reason=str(error))
                self._waiting.reply((Reply(request.token, InvalidRequest(str(error))),))
            else:
                self._violated(error, group_id, type(request).__name__, is_counted=extra_rows_of is None)

    def _violated(self, error: Exception, group_id: str, request: str, *, is_counted: bool = True) -> None:
        """Unload the shard after an invariant was violated: memory may be inconsistent, the database is not."""
        end_if_out_of_memory(error)
        log.error("invariant_violated", group=group_id, request=request, exc_info=error)
        self.fail(CoordinatorNotAvailable(SHARD_RELOADING))
        if is_counted and not self.is_mirror:
            self._quarantine.count_failure(group_id, self.shard_id, self.epoch, self._clock.now(), VIOLATIONS)

    def _apply(self, group_context: GroupContext, decision: Decision, extra_rows: ExtraRows, now_ms: int) -> None:
        before = group_context.group
        write = project(decision.group, decision.records, group_context.ledger, extra_rows)
        group_context.group = decision.group
        if write is not None:
            self._stop_timers(group_context, decision.deadlines)
            if write.is_group_deleted:
                group_context.group = Group(before.group_id)
                group_context.ledger = self._new_ledger(before.group_id)
            self.groups.setdefault(before.group_id, group_context)
            self.enqueue(group_context, write, decision)
        elif group_context.last_pending is not None:
            self._stop_timers(group_context, decision.deadlines)
            group_context.last_pending.dependents.append(decision)
        else:
            self._complete(group_context, decision, now_ms)
            self._waiting.reply(decision.replies)
        if before.state is not decision.group.state:
            if before.exists is not group_context.group.exists:
                self._groups_of_clients.track(group_context)
            self._track_rebalancing(decision.group)
            log_transition(before, decision)

    def _track_rebalancing(self, group: Group) -> None:
        if group.state in {PREPARING, COMPLETING}:
            self.rebalancing.add(group.group_id)
        else:
            self.rebalancing.discard(group.group_id)

    def enqueue(self, group_context: GroupContext, write: GroupWrite, decision: Decision | None = None) -> None:
        """Queue the rows of a decision; None: of no decision."""
        pending = PendingDecision(self, group_context, write, decision or Decision(group_context.group))
        group_context.unstored_writes += 1
        if pending.changes_group:
            group_context.last_pending = pending
        self._writer.enqueue(pending)

    def write_failed(self, pending: PendingDecision, error: CoordinatorError) -> None:
        """Unload the shard, since the rows of a decision are not stored."""
        self.fail(error, is_repeated=self._writer.failures.is_repeated)
        pending.group_context.mark_stored(pending)  # Who waits for it learns that the shard was unloaded.
        # A mirror repeats what is refused until it is stored. Of an operator's change, the group is not the cause.
        if isinstance(error, WriteRefused) and not self.is_mirror and not pending.write.changes:
            group_id = pending.write.group_id
            self._quarantine.count_failure(group_id, self.shard_id, self.epoch, self._clock.now(), REFUSALS)

    def complete(self, pending: PendingDecision, log_position: int, node_ms: int) -> None:
        """Complete a decision whose rows are stored, and those that depend on it."""
        group_context, write, decision = pending.group_context, pending.write, pending.decision
        group_context.mark_stored(pending)
        self._counters.offsets_committed += write.committed_count
        if not write.is_only_logged:
            self._counters.observe_rows(write)
            self._rebalance_rate.observe(write.transitions, node_ms)
            log_rebalances(write.rebalances)
        if not self.is_unloaded:
            if write.logged is not None:
                growth = self.offsets.add(write.logged, log_position, node_ms, pending.client, pending.origin)
                if growth:  # Seldom: consumers replace their own commits.
                    self._checkpoints.note_growth(growth, pending.client)
            else:
                growth = write.committed_count - len(write.removed)
            group_context.uncounted_offsets += growth
            self._complete(group_context, decision, node_ms, is_of_offsets=not pending.changes_group)
            replies = list(decision.replies)
            for each in pending.dependents:
                self._complete(group_context, each, node_ms)
                replies += each.replies
            self._waiting.reply(replies)
        if not group_context.group.exists:
            self._forget_if_absent(group_context)

    def _complete(
        self, group_context: GroupContext, decision: Decision, now_ms: int, *, is_of_offsets: bool = False
    ) -> None:
        """Start the timers of a decision whose rows are stored, count its records, and log them."""
        group_id, timers = group_context.group.group_id, self.timers
        is_sooner = False
        sessions = group_context.ledger.sessions
        for deadline, delay_ms in decision.deadlines:
            timer = GroupTimer(group_id, deadline)
            if delay_ms is None:
                timers.stop(timer)
            else:
                due_at_ms = now_ms + delay_ms
                if is_of_offsets and deadline.kind is DeadlineKind.SESSION:
                    # Heartbeats do not wait for offset writes: a later deadline that one has set since remains.
                    due_at_ms = max(due_at_ms, timers.due_at_ms(timer) or 0)
                is_sooner |= timers.start(timer, due_at_ms)
                session = sessions.get(deadline.subject)
                # Nothing changes for a session whose timer started in this millisecond.
                if session is not None and (session.gap_start_ms != now_ms or session.session_timeout_ms != delay_ms):
                    session.timer_started(now_ms, delay_ms)
        if is_sooner:
            self._on_timer()
        if decision.records and not is_of_offsets:
            self._counters.observe(decision.records)
            log_member_events(group_id, decision.records)

    def _stop_timers(self, group_context: GroupContext, deadlines: tuple[tuple[Deadline, int | None], ...]) -> None:
        for deadline, _ in deadlines:
            self.timers.stop(GroupTimer(group_context.group.group_id, deadline))

    # -- a mirrored cluster --------------------------------------------------------------------------------

    def commits_observed(self, logged: LoggedCommits, position: int) -> None:
        """Take commits that the log of a mirrored cluster has: it is their offset log, and a checkpoint stores them.

        Args:
            logged: the commits.
            position: their position in that log (`MirrorPosition`).
        """
        self._checkpoints.note_growth(self.offsets.add(logged, position, self._clock.now().node_ms), "")

    async def store_offsets(self, group_id: str | None = None) -> None:
        """Wait until the table has every commit so far of a group, or (None) of the shard.

        Raises:
            CoordinatorError: the database cannot be reached, or the shard was lost.
        """
        await self._checkpoints.store_group(self, group_id)

    async def store_mirror_position(self, position: MirrorPosition) -> None:
        """Store how far the log of the mirrored cluster was read.

        Raises:
            CoordinatorError: the shard was lost.
        """
        of_no_group = self._absent("")
        self.enqueue(of_no_group, GroupWrite("", self.shard_id, mirror_position=position))
        await of_no_group.wait_until_drained()
        self.check_is_loaded()

    def check_is_loaded(self) -> None:
        """Raise NotCoordinator if the shard was unloaded."""
        if self.is_unloaded:
            raise NotCoordinator("the shard was unloaded on this node")

    # -- groups ------------------------------------------------------------------------------------------

    def live_groups(self) -> Iterator[Group]:
        """Return the groups that exist."""
        return (group_context.group for group_context in self.groups.values() if group_context.group.exists)

    def oldest_rebalance_ms(self, wall_ms: int) -> int:
        """Return the start of the longest rebalance under way, in wall time; `wall_ms` if there is none."""
        in_progress = (group_context.ledger.in_progress for group_context in self.groups.values())
        return min((each.started_at_ms for each in in_progress if each is not None), default=wall_ms)

    def _absent(self, group_id: str) -> GroupContext:
        return GroupContext(Group(group_id), self._new_ledger(group_id))

    def _new_ledger(self, group_id: str) -> Ledger:
        return Ledger(group_id, self.shard_id, self.epoch, is_mirrored=self.is_mirror)

    def _get_or_create(self, group_id: str) -> GroupContext:
        return self.groups.setdefault(group_id, self._absent(group_id))

    def _forget_if_absent(self, group_context: GroupContext) -> None:
        group_id = group_context.group.group_id
        if group_context.is_removable and self.groups.get(group_id) is group_context:
            del self.groups[group_id]
