"""A shard carries decisions out: decided, stored, said.

1. `decide` makes a decision, and the shard takes its group at once: the next request sees it.
2. Timers that the decision touches stop at once; what it stores is queued for the writer.
3. When that is in the database, the timers start (so a slow store is nobody's silence) and the replies go out. A
   decision that stores nothing waits for the newest one it may have seen, and goes at once if there is none.

A shard whose write fails, whose lease is gone, or that finds itself broken is *dropped*: whoever waits gets a
retriable error, and the shard is loaded again from what was stored, under a new epoch.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

import structlog

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.replies import Answer, Done, Reply
from coordinator_core.protocol.requests import (
    CommitOffsets,
    Deadline,
    DeadlineKind,
    Expire,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Reconsider,
    Request,
    Resume,
    SyncGroup,
    Token,
)
from coordinator_core.protocol.settings import Now
from coordinator_core.protocol.states import COMPLETING, PREPARING
from coordinator_core.runtime.clock import Clock
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.events import tell_of_members, tell_of_rebalances
from coordinator_core.runtime.hosting import Hosted, Pending
from coordinator_core.runtime.log_ends import LogEndReports
from coordinator_core.runtime.quarantine import Quarantine, QuarantinedGroup
from coordinator_core.runtime.restless import Restlessness
from coordinator_core.runtime.stays import NEVER_MS, ROWS_A_WRITE, SIGNS_OF_LIFE, hear
from coordinator_core.runtime.surroundings import Surroundings
from coordinator_core.runtime.timers import Armed, Timers
from coordinator_core.runtime.writer import Entry, Writer
from coordinator_core.store.awaited import awaited_members
from coordinator_core.store.ledger import Ledger
from coordinator_core.store.projection import group_row, load_group, project
from coordinator_core.store.row_checks import UnreadableRow, check_shard
from coordinator_core.store.rows import NOTHING_BESIDE, Beside, GroupWrite, StoredGroup, UnreadableGroup

log = structlog.get_logger("muster.runtime")

LOADED_AGAIN: Final = "the group's shard is being loaded again"

BesideOf = Callable[[Group, Decision, Now], Beside]
"""Says what is stored beside a decision: from the group before it, the decision, and its moment."""
HeldAsk = Callable[[Token, Request, BesideOf], Awaitable[Answer]]


MemberRequest = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | CommitOffsets
"""What members ask."""


def given(answer: Answer) -> asyncio.Future[Answer]:
    """Return an answer that need not be waited for."""
    future = asyncio.get_running_loop().create_future()
    future.set_result(answer)
    return future


def nothing_beside(_before: Group, _decision: Decision, _now: Now) -> Beside:
    """Return what is stored beside the decisions that members ask for: nothing."""
    return NOTHING_BESIDE


class Loaded(NamedTuple):
    """A group made from its rows, what is stored of a join phase that was forgotten, and what the group owes."""

    hosted: Hosted
    forgotten: GroupWrite | None
    decision: Decision


class Shard:
    """The groups of one shard, under one epoch of its lease."""

    def __init__(  # noqa: PLR0913 - by name, at one place: what the shards of a node share
        self,
        shard_id: int,
        epoch: int,
        shard_count: int,
        *,
        clock: Clock,
        writer: Writer,
        surroundings: Surroundings,
        counters: Counters,
        restlessness: Restlessness,
        log_ends: LogEndReports,
        quarantine: Quarantine,
        on_timer: Callable[[], None],
        on_drop: Callable[["Shard"], None],
    ) -> None:
        self.shard_id = shard_id
        self.epoch = epoch
        self.valid_until_ms = 0
        """Node time until which the lease certainly holds."""
        self.awake_until_ms = NEVER_MS
        """Node time past which the loop has stood still for too long, unless it is moved on before."""
        self.is_dropped = False
        self.is_loading = True
        self.groups: dict[str, Hosted] = {}
        self._rebalancing: set[str] = set()
        """Groups that are in the middle of a rebalance."""
        self.timers = Timers()
        self._shard_count = shard_count
        self._clock = clock
        self._writer = writer
        self._surroundings = surroundings
        self._counters = counters
        self._restlessness = restlessness
        self._log_ends = log_ends
        self._quarantine = quarantine
        self._on_timer = on_timer
        self._on_drop = on_drop
        self._waiting: dict[Token, asyncio.Future[Answer]] = {}

    # -- loading and dropping ------------------------------------------------------------------------

    def load(self, stored: Iterable[StoredGroup | UnreadableGroup]) -> None:
        """Serve every group as it was stored: sessions start afresh, and owed rebalances start.

        A group whose rows cannot be loaded is quarantined alone.
        """
        self._quarantine.begin_load(self.shard_id)
        for one in stored:
            now = self._clock.now()
            try:
                loaded = self._loaded(one, now)
            except UnreadableRow as failure:
                self._quarantine.add(QuarantinedGroup(one.group_id, self.shard_id, str(failure), now.wall_ms))
            else:
                self._serve(loaded, NOTHING_BESIDE, now)
        self.is_loading = False

    def reload(
        self, group_id: str, stored: StoredGroup | UnreadableGroup | None, token: Token, beside_of: BesideOf
    ) -> asyncio.Future[Answer]:
        """Serve a quarantined group again, now that its rows can be loaded, or are gone.

        Raises:
            UnreadableRow: the rows still cannot be loaded; the group stays quarantined.
            CoordinatorError: the shard was lost.
        """
        self._check_lease()
        if self.is_dropped:
            raise NotCoordinator("the shard has moved on")
        now = self._clock.now()
        if stored is None:
            loaded = Loaded(self._absent(group_id), None, Decision(Group(group_id)))
        else:
            loaded = self._loaded(stored, now)
        self._quarantine.release(group_id)
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        decision = loaded.decision._replace(replies=(Reply(token, Done()),))
        beside = beside_of(loaded.hosted.group, decision, now)
        self._serve(loaded._replace(decision=decision), beside, now)
        return answer

    def _loaded(self, stored: StoredGroup | UnreadableGroup, now: Now) -> Loaded:
        """Return what follows from a group's rows; nothing is changed yet.

        Raises:
            UnreadableRow: whatever is wrong with the rows.
        """
        if isinstance(stored, UnreadableGroup):
            raise UnreadableRow(stored.reason)
        check_shard(stored, self.shard_id, self._shard_count)
        try:
            group, ledger, forgotten = load_group(stored, now.wall_ms, self.epoch)
            decision = decide(group, Resume(), now, self._surroundings.context(group.group_id))
        except UnreadableRow:
            raise
        except Exception as failure:  # whatever it is, it is this group's alone
            log.exception("group_not_loaded", group=stored.group_id)
            raise UnreadableRow(f"its rows cannot be loaded ({type(failure).__name__}: {failure})") from failure
        return Loaded(Hosted(group, ledger), forgotten, decision)

    def _serve(self, loaded: Loaded, beside: Beside, now: Now) -> None:
        """Take a group in, and carry out what it owes."""
        hosted = loaded.hosted
        group_id = hosted.group.group_id
        self.groups[group_id] = hosted
        self._note_state(hosted.group)
        if loaded.forgotten is not None:
            self._enqueue(hosted, loaded.forgotten, Pending((), ()))
        try:
            self._carry_out(hosted, loaded.decision, beside, now.node_ms)
        except Exception:  # whatever it is, memory is no longer to be trusted: the database is
            log.exception("invariant_broken", group=group_id, request=Resume.__name__)
            self.fail(CoordinatorNotAvailable(LOADED_AGAIN))

    def extend_lease(self, valid_until_ms: int) -> None:
        """Count on the lease for longer. While it was in doubt nobody was heard, so that time is nobody's silence."""
        doubt_ms = self._clock.now().node_ms - self.valid_until_ms
        if doubt_ms > 0:
            self.timers.delay_all(doubt_ms)
            self._give_back(doubt_ms)
        self.valid_until_ms = valid_until_ms

    def allow_for_pause(self, length_ms: int) -> None:
        """Give every member and handshake the time in which the loop did not run."""
        self.timers.delay_members(length_ms)
        self._give_back(length_ms)

    def _give_back(self, length_ms: int) -> None:
        node_ms = self._clock.now().node_ms
        for hosted in self.groups.values():
            for stay in hosted.ledger.stays.values():
                stay.give_back(length_ms, node_ms)

    def fail(self, error: CoordinatorError) -> None:
        """Drop the shard because something went wrong; it comes back, loaded from what was stored."""
        if not self.is_dropped:
            self._counters.shards_failed += 1
            log.warning("shard_failed", shard=self.shard_id, epoch=self.epoch, why=error.detail)
        self.drop(error)

    def drop(self, error: CoordinatorError) -> None:
        """Give the shard up: whoever waits is told to ask again, and nothing more is decided here."""
        if self.is_dropped:
            return
        self.is_dropped = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()
        self._on_drop(self)

    # -- requests --------------------------------------------------------------------------------------

    @property
    def waiting_requests(self) -> int:
        """Return how many requests have no answer yet: parked joins and syncs, and what is being stored."""
        return len(self._waiting)

    def ask(self, group_id: str, request: MemberRequest, now: Now) -> asyncio.Future[Answer]:
        """Decide a request, at once unless its group is held; its answer comes when everything it rests on is stored.

        Args:
            group_id: the group.
            request: what a member asks.
            now: this moment, at which the lease holds.

        Raises:
            CoordinatorError: the shard was lost; in the answer's place: the request was refused.
        """
        hosted = self.groups.get(group_id)
        # A heartbeat has nothing to do with what a group is held for, and to hold it up would count as silence.
        if hosted is None or hosted.hold is None or isinstance(request, Heartbeat):
            return self._ask_now(group_id, request.token, request, nothing_beside, now)
        return asyncio.create_task(self._ask_when_released(group_id, request))

    async def _ask_when_released(self, group_id: str, request: MemberRequest) -> Answer:
        while (hosted := self.groups.get(group_id)) is not None and hosted.hold is not None:
            async with hosted.hold:
                pass
            self._check_lease()
        return await self._ask_now(group_id, request.token, request, nothing_beside, self._clock.now())

    def _check_lease(self) -> None:
        """Refuse what has waited for so long that the shard may be another node's by now."""
        if self.valid_until_ms <= self._clock.now().node_ms:
            raise CoordinatorNotAvailable("the lease on the group's shard may have run out meanwhile")

    def _ask_now(
        self, group_id: str, token: Token, request: Request, beside_of: BesideOf, now: Now
    ) -> asyncio.Future[Answer]:
        if self.is_dropped:
            raise NotCoordinator("the shard has moved on")
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        self.perform(group_id, request, beside_of, now)
        return answer

    @asynccontextmanager
    async def holding(self, group_id: str) -> AsyncIterator[HeldAsk]:
        """Hold a group while its offsets are read: its requests wait, and what was queued for it is stored.

        Yields a function that asks the held group, to be called with a request made from what was read.
        """
        hosted = self._host(group_id)
        while hosted.hold is not None:
            async with hosted.hold:
                pass
            hosted = self._host(group_id)
        hosted.hold = lock = asyncio.Lock()
        try:
            async with lock:
                await hosted.wait_until_quiet()
                yield partial(self._ask_held, group_id)
        finally:
            hosted.hold = None
            self._forget_if_absent(hosted)

    async def _ask_held(self, group_id: str, token: Token, request: Request, beside_of: BesideOf) -> Answer:
        self._check_lease()
        return await self._ask_now(group_id, token, request, beside_of, self._clock.now())

    def expire(self, armed: Armed) -> None:
        """Do what a deadline was for."""
        if armed.deadline.kind is DeadlineKind.HANDSHAKE:
            self._counters.member_ids_expired += 1
        self.perform(armed.group_id, Expire(armed.deadline))

    def reconsider_all(self, *, is_rebalance_timeout_changed: bool, gone_topics: frozenset[str] = frozenset()) -> None:
        """Let every group look at settings and catalogue again."""
        for group_id in list(self.groups):
            self.perform(group_id, Reconsider(is_rebalance_timeout_changed, gone_topics))

    # -- decided, stored, said -----------------------------------------------------------------------------

    def perform(
        self, group_id: str, request: Request, beside_of: BesideOf = nothing_beside, now: Now | None = None
    ) -> None:
        """Decide a request and carry the decision out. A broken invariant drops the shard."""
        hosted = self.groups.get(group_id) or self._absent(group_id)
        context = self._surroundings.context(group_id)
        now = now or self._clock.now()
        try:
            decision = decide(hosted.group, request, now, context)
            if isinstance(request, CommitOffsets) and request.trusted_topics:
                self._log_ends.observe(decision.records, request.trusted_topics)
            if isinstance(request, SIGNS_OF_LIFE) and (decision.deadlines or decision.records):
                hear(hosted.ledger.stays.get(request.member_id), now, self.awake_until_ms)
            self._carry_out(hosted, decision, beside_of(hosted.group, decision, now), now.node_ms)
        except Exception:  # whatever it is, memory is no longer to be trusted: the database is
            log.exception("invariant_broken", group=group_id, request=type(request).__name__)
            self.fail(CoordinatorNotAvailable(LOADED_AGAIN))

    def _carry_out(self, hosted: Hosted, decision: Decision, beside: Beside, now_ms: int) -> None:
        before = hosted.group
        hosted.group = decision.group
        write = project(decision.group, decision.records, hosted.ledger, beside)
        if write is not None:
            pending = Pending(decision.deadlines, decision.replies, decision.records)
            self._stop_timers(hosted, decision.deadlines)
            if write.is_group_gone:
                hosted.group = Group(before.group_id)
                hosted.ledger = Ledger(before.group_id, self.shard_id, self.epoch)
            self.groups.setdefault(before.group_id, hosted)
            self._enqueue(hosted, write, pending)
        elif hosted.newest is not None:
            self._stop_timers(hosted, decision.deadlines)
            hosted.newest.followers.append(decision)
        else:
            self._settle(hosted, decision, now_ms)
        if before.state is not decision.group.state:
            self._note_state(decision.group)
            _log_transition(before, decision)

    def _note_state(self, group: Group) -> None:
        if group.state in {PREPARING, COMPLETING}:
            self._rebalancing.add(group.group_id)
        else:
            self._rebalancing.discard(group.group_id)

    def _enqueue(self, hosted: Hosted, write: GroupWrite, pending: Pending) -> None:
        hosted.unsettled += 1
        pending.is_of_group = write.group is not None or write.is_group_gone
        if pending.is_of_group:
            hosted.newest = pending
        stored = partial(self._stored, hosted, pending, write)
        self._writer.enqueue(Entry(self, write, write.row_count, stored, self.fail))

    def _stored(self, hosted: Hosted, pending: Pending, write: GroupWrite) -> None:
        hosted.settle_one(pending)
        self._counters.observe_rows(write)
        if write.transitions:
            self._restlessness.observe(write.transitions, self._clock.now().node_ms)
        tell_of_rebalances(write.rebalances)
        if not self.is_dropped:
            now_ms = self._clock.now().node_ms
            self._settle(hosted, pending, now_ms)
            for follower in pending.followers:
                self._settle(hosted, follower, now_ms)
        self._forget_if_absent(hosted)

    def _settle(self, hosted: Hosted, decided: Decision | Pending, now_ms: int) -> None:
        group_id = hosted.group.group_id
        is_sooner = False
        stays = hosted.ledger.stays
        for deadline, delay_ms in decided.deadlines:
            if delay_ms is None:
                self.timers.stop(Armed(group_id, deadline))
            else:
                armed = Armed(group_id, deadline)
                due_at_ms = now_ms + delay_ms
                if isinstance(decided, Pending) and not decided.is_of_group and deadline.kind is DeadlineKind.MEMBER:
                    # Heartbeats do not wait behind offsets: who was heard since, under a longer timeout, keeps that.
                    due_at_ms = max(due_at_ms, self.timers.due_at_ms(armed) or 0)
                is_sooner |= self.timers.start(armed, due_at_ms)
                stay = stays.get(deadline.subject)
                # Who was heard in this very millisecond needs no second look.
                if stay is not None and (stay.gap_began_ms != now_ms or stay.session_timeout_ms != delay_ms):
                    stay.session_began(now_ms, delay_ms)
        if is_sooner:
            self._on_timer()
        if decided.records:
            self._counters.observe(decided.records)
            tell_of_members(group_id, decided.records)
        for token, answer, _ in decided.replies:
            self._say(token, answer)

    def _say(self, token: Token, answer: Answer | CoordinatorError) -> None:
        """Tell whoever waits; one that went away asks again by the protocol's own rule for a lost answer."""
        future = self._waiting.pop(token, None)
        if future is None or future.done():
            return
        if isinstance(answer, CoordinatorError):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    def _stop_timers(self, hosted: Hosted, deadlines: tuple[tuple[Deadline, int | None], ...]) -> None:
        for deadline, _ in deadlines:
            self.timers.stop(Armed(hosted.group.group_id, deadline))

    # -- hours of stays ----------------------------------------------------------------------------------

    def tell_hours(self, limit: int) -> int:
        """Queue rows of stays of which an hour is over, at most `limit`; return how many."""
        now = self._clock.now()
        if self.valid_until_ms <= now.node_ms:
            return 0
        told = 0
        for group_id, hosted in list(self.groups.items()):
            rows = hosted.ledger.tell_hours(now.wall_ms, min(ROWS_A_WRITE, limit - told))
            if rows:
                self._enqueue(hosted, GroupWrite(group_id, self.shard_id, sessions=rows), Pending((), ()))
                told += len(rows)
        return told

    # -- awaited members ---------------------------------------------------------------------------------

    def store_awaited_members(self, after_ms: int, limit: int) -> int:
        """Queue a write of each group whose awaited members changed, at most `limit`; return how many.

        Args:
            after_ms: how long a rebalance must have lasted.
            limit: how many groups are written at most.
        """
        now = self._clock.now()
        if self.valid_until_ms <= now.node_ms:
            return 0
        rebalancing = (self.groups[group_id] for group_id in sorted(self._rebalancing))
        due = (
            hosted
            for hosted in rebalancing
            if hosted.ledger.under_way is not None
            and now.wall_ms - hosted.ledger.under_way.started_at_ms >= after_ms
            and awaited_members(hosted.group) != hosted.ledger.awaited
        )
        changed = list(islice(due, limit))
        for hosted in changed:
            hosted.ledger.awaited = awaited_members(hosted.group)
            row = group_row(hosted.group, hosted.ledger)
            self._enqueue(hosted, GroupWrite(row.group_id, self.shard_id, group=row), Pending((), ()))
        return len(changed)

    # -- which groups there are --------------------------------------------------------------------------

    def live_groups(self) -> Iterator[Group]:
        """Return the groups that exist."""
        return (hosted.group for hosted in self.groups.values() if hosted.group.exists)

    def oldest_rebalance_ms(self, wall_ms: int) -> int:
        """Return when the rebalance began, in wall time, that has been under way for longest; now, if none is."""
        under_way = (hosted.ledger.under_way for hosted in self.groups.values())
        return min((each.started_at_ms for each in under_way if each is not None), default=wall_ms)

    def _absent(self, group_id: str) -> Hosted:
        return Hosted(Group(group_id), Ledger(group_id, self.shard_id, self.epoch))

    def _host(self, group_id: str) -> Hosted:
        return self.groups.setdefault(group_id, self._absent(group_id))

    def _forget_if_absent(self, hosted: Hosted) -> None:
        if hosted.is_forgettable:
            self.groups.pop(hosted.group.group_id, None)


def _log_transition(before: Group, decision: Decision) -> None:
    group = decision.group
    log.info(
        "request_decided",
        group=group.group_id,
        from_state=str(before.state),
        to_state=str(group.state),
        generation_before=before.generation,
        generation=group.generation,
        members=len(group.members),
        trigger=None if group.trigger is None else str(group.trigger),
        records=[type(record).__name__ for record in decision.records],
    )
