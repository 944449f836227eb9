"""`MemoryStore` is the `Store` without a database: the same rules, one lock, and a clock that tests may hold.

It is deterministic: what it answers depends on the calls it was given and on the clock alone.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import Any

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.store.candidates import CandidatePlace, ListedCandidate, ListedDay
from coordinator_core.store.dropping import DroppedDay, HasCopy
from coordinator_core.store.history import (
    ExpiryForecast,
    GroupPosition,
    ListedRebalance,
    Moment,
    OwnedSpan,
    PositionThen,
    RebalancePlace,
    RebalanceWait,
    TransitionPlace,
    WaitQuestion,
)
from coordinator_core.store.incarnations import IDENTITY_CHANGED, change_of, jump_over
from coordinator_core.store.log_ends import LogEndReport
from coordinator_core.store.memory import history, positions, stays, tuning
from coordinator_core.store.memory.groups import Groups, History, Refused
from coordinator_core.store.memory.leases import Leases
from coordinator_core.store.memory.log_ends import LogEnds
from coordinator_core.store.memory.maintenance import Maintenance
from coordinator_core.store.memory.overview import Surroundings, overview
from coordinator_core.store.memory.partitions import Partitions
from coordinator_core.store.memory.positions import Past
from coordinator_core.store.memory.reports import Reports
from coordinator_core.store.memory.small_tables import SmallTables
from coordinator_core.store.overview import Overview, OverviewFilter
from coordinator_core.store.positions import GroupPositions, LaggingPosition, PastLogEnd, PastPosition, Stretch
from coordinator_core.store.reports import Report, ReportFilter, ReportKind
from coordinator_core.store.rows import (
    ArchivedOffset,
    Batch,
    ChangeFilter,
    ChangeRow,
    FetchedOffset,
    GroupFilter,
    GroupWrite,
    Identity,
    Incarnation,
    LeaseRow,
    ListedGroup,
    RebalanceMemberRow,
    RecordedChange,
    Renewal,
    SettingOrigin,
    StoredGroup,
    StoredSettings,
    TopicRow,
    TransitionRow,
    UnreadableGroup,
    Versions,
    Written,
)
from coordinator_core.store.runs import CandidateRow, ForecastRow, RunRow, RunStatus, decided, is_as_seen
from coordinator_core.store.stay_lists import ListedStay, StayFilter, StayPlace
from coordinator_core.store.tuning import TuningPast, TuningQuestion


def wall_clock_ms() -> int:
    """Return the machine's wall time."""
    return time.time_ns() // 1_000_000


class MemoryStore:
    """Keep everything in this process."""

    def __init__(self, clock_ms: Callable[[], int] = wall_clock_ms, shards: int = 50) -> None:
        """Start empty.

        Args:
            clock_ms: what stands in for the database's clock.
            shards: how many there are.
        """
        self._lock = RLock()
        self._clock_ms = clock_ms
        self._leases = Leases(shards, clock_ms)
        self._groups = Groups()
        self._partitions = Partitions()
        self._maintenance = Maintenance()
        self._reports = Reports()
        self._incarnation = Incarnation(1, clock_ms(), None)
        self.identity = Identity(system_identifier=1, timeline=1, database_oid=1, table_oid=1)
        """The actual one."""
        self._log_ends = LogEnds()
        self._small_tables = SmallTables(self._groups, self._maintenance, self._log_ends)

    def close(self) -> None:
        """There is nothing to close."""

    @property
    def history(self) -> History:
        """Everything that was inserted once."""
        return self._groups.history

    def propose(self, run: RunRow, candidates: Iterable[CandidateRow], forecasts: Iterable[ForecastRow] = ()) -> None:
        """Write a proposal, as a Spark job does; the candidates' change ids are not looked at."""
        with self._lock:
            self._maintenance.propose(run, candidates, self._clock_ms(), forecasts)

    def edit_group(self, group_id: str, **columns: Any) -> None:  # noqa: ANN401 - what people write may have any type
        """Change a group's row past every check, as people with SQL can."""
        with self._lock:
            self._groups.edit(group_id, columns)

    def report(self, kind: ReportKind, rows: Iterable[Report], parts: Iterable[Report] = ()) -> None:
        """Write reports, as a Spark job does."""
        with self._lock:
            self._reports.add(kind, rows, parts)

    # -- writes -------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> Written:
        """Store a batch, or say which shards and groups of it are not stored."""
        with self._lock:
            shards = {group_write.shard_id for group_write in batch.writes}
            held = self._leases.held(batch.node_id, {shard: batch.epochs[shard] for shard in shards})
            if self._incarnation.identity != self.identity:
                held = frozenset()
            by_group: dict[str, list[GroupWrite]] = {}
            for group_write in batch.writes:
                if group_write.shard_id in held:
                    by_group.setdefault(group_write.group_id, []).append(group_write)
            return Written(frozenset(shards - held), self._write_groups(by_group))

    def prepare(self, batch: Batch) -> Callable[[], Written]:
        """Return the write; nothing of it can be done beforehand."""
        return partial(self.write, batch)

    def _write_groups(self, by_group: Mapping[str, list[GroupWrite]]) -> dict[str, str]:
        refused = {}
        for group_id, writes in by_group.items():
            try:
                news = self._groups.write(group_id, writes)
            except Refused as refusal:
                refused[group_id] = str(refusal)
            else:
                self._partitions.take(news)
                self._maintenance.decide(news.outcomes)
        return refused

    # -- ownership ----------------------------------------------------------------------------------------

    def renew(
        self, node_id: str, url: str, version: str, epochs: Mapping[int, int], ttl_ms: int, renewals: int = 0
    ) -> Renewal:
        """Renew the node and all its leases at once."""
        with self._lock:
            self._verify_identity(node_id)
            counted = self._leases.renew_node(node_id, url, version, ttl_ms, renewals)
            held = self._leases.renew(node_id, epochs, ttl_ms)
            rows, live_nodes = self._leases.rows(), self._leases.live_nodes()
            return Renewal(held, rows, live_nodes, self._small_tables.versions, self._incarnation, counted)

    def start_incarnation(self, known: int, actor: str, reason: str) -> Incarnation:
        """Start an incarnation in place of the known one; do nothing where that is over already."""
        with self._lock:
            if self._incarnation.number == known:
                self._start_incarnation(actor, reason)
            return self._incarnation

    def incarnation(self) -> Incarnation:
        """Return the incarnation that is stored."""
        return self._incarnation

    def _verify_identity(self, node_id: str) -> None:
        if self._incarnation.identity is None:
            self._incarnation = replace(self._incarnation, identity=self.identity)
        elif self._incarnation.identity != self.identity:
            self._start_incarnation(node_id, IDENTITY_CHANGED)

    def _start_incarnation(self, actor: str, reason: str) -> None:
        before, now_ms = self._incarnation, self._clock_ms()
        last_sign_ms = max(before.started_at_ms, self._leases.last_renewed_at_ms(), self._groups.last_changed_at_ms())
        jump = jump_over(now_ms - last_sign_ms)
        self._leases.end_all(jump.epochs)
        self._groups.jump(jump)
        self._small_tables.jump(jump.versions)
        self._incarnation = Incarnation(before.number + 1, now_ms, self.identity)
        self._groups.note(change_of(before, self._incarnation, jump, actor, reason))

    def take_over(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Take every one of these shards that is free, expired or already ours; return shard → new epoch."""
        with self._lock:
            self._verify_identity(node_id)
            return self._leases.take_over(node_id, shard_ids, ttl_ms)

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Give these shards up, where they are still ours."""
        with self._lock:
            self._leases.release(node_id, epochs)

    def retire_node(self, node_id: str) -> None:
        """Take the node's own row away."""
        with self._lock:
            self._leases.retire_node(node_id)

    def forget_nodes(self, gone_for_ms: int) -> None:
        """Forget nodes that were lost so long ago."""
        with self._lock:
            self._leases.forget_nodes(gone_for_ms)

    def leases(self) -> tuple[LeaseRow, ...]:
        """Return every lease, by shard."""
        with self._lock:
            return self._leases.rows()

    def shard_count(self) -> int:
        """Return how many shards there are."""
        return len(self._leases.shards)

    # -- reads --------------------------------------------------------------------------------------------

    def load_shards(self, shard_ids: Iterable[int]) -> list[StoredGroup | UnreadableGroup]:
        """Return every group of these shards with its members."""
        with self._lock:
            return self._groups.load(frozenset(shard_ids))

    def load_group(self, group_id: str) -> StoredGroup | UnreadableGroup | None:
        """Return one group with its members, or None if it has no rows."""
        with self._lock:
            return self._groups.load_one(group_id)

    def fetch_offsets(self, group_id: str, topics: Sequence[str] | None = None) -> list[FetchedOffset]:
        """Return committed offsets by topic and partition; of all topics where none is named."""
        with self._lock:
            return self._groups.fetch(group_id, None if topics is None else frozenset(topics))

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        """Return offsets as a decision needs them; all of the group's where no partition is named."""
        with self._lock:
            return self._groups.stored(group_id, None if partitions is None else frozenset(partitions))

    def has_offsets(self, group_id: str) -> bool:
        """Tell whether the group has any offset left."""
        return bool(self.fetch_offsets(group_id))

    def list_groups(self, which: GroupFilter) -> list[ListedGroup]:
        """Return at most `limit` groups by id, after `after`."""
        with self._lock:
            return [
                replace(line, node_id=self._leases.shards[self._groups.shard_of(line.group_id)].node_id)
                for line in self._groups.page(which)
            ]

    def overview(self, which: OverviewFilter) -> Overview:
        """Return at most `limit` groups in the order asked for, and how many there are in each state."""
        with self._lock:
            nodes = {shard: lease.node_id for shard, lease in self._leases.shards.items()}
            around = Surroundings(self.history, self._log_ends, which.fresh_since_ms, self._clock_ms(), nodes)
            return overview(self._groups.all(), which, around)

    def was_seen(self, group_id: str) -> bool:
        """Tell whether history knows the group."""
        with self._lock:
            return self._groups.was_seen(group_id)

    def schema(self) -> str | None:
        """There is no schema that could be too old."""
        return "9999"

    def lacks_history_partitions(self) -> bool:
        """Tell whether a day ahead has no partition of its own, or rows have fallen into a default partition."""
        with self._lock:
            return self._partitions.lack(self._clock_ms())

    def create_history_partitions(self, days_ahead: int) -> None:
        """Create the partitions of today and the days ahead, where they are missing."""
        with self._lock:
            self._partitions.create(self._clock_ms(), days_ahead)

    # -- changes, and what they took ----------------------------------------------------------------------

    def change(self, change_id: str) -> RecordedChange | None:
        """Return one change, or None if there is none."""
        with self._lock:
            return self._groups.change(change_id)

    def changes(self, which: ChangeFilter) -> list[RecordedChange]:
        """Return at most `limit` changes, the newest first."""
        with self._lock:
            return self._groups.changes(which)

    def archived_offsets(
        self, change_id: str, group_id: str, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[ArchivedOffset]:
        """Return what a change took from a group, by topic and partition."""
        with self._lock:
            return self._groups.archived(change_id, group_id, None if partitions is None else frozenset(partitions))

    # -- ends of logs -------------------------------------------------------------------------------------

    def report_log_ends(self, reports: Sequence[LogEndReport], deletions: int) -> bool:
        """Store ends that trusted reporters named, no partition twice, unless ends were deleted; an end never falls."""
        with self._lock:
            if self._small_tables.versions.log_end_deletions != deletions:
                return False
            self._partitions.take_log_ends(self._log_ends.report(reports))
            return True

    def delete_log_ends(self, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
        """Delete what is known of the end of a partition's log, or of all of a topic's."""
        with self._lock:
            return self._small_tables.delete_log_ends(topic, partition, change)

    def log_ends(self, topics: Sequence[str]) -> dict[tuple[str, int], LogEnd]:
        """Return the furthest end that trusted reporters named, by topic and partition, and when one did so last."""
        with self._lock:
            return self._log_ends.present(topics)

    def past_log_ends(self, stretch: Stretch, limit: int) -> list[PastLogEnd]:
        """Return at most `limit` such ends of the logs that a group has committed."""
        with self._lock:
            group = self._groups.standing(stretch.group_id)
            partitions = positions.committed_partitions(group, self.history, stretch)
            return self._log_ends.past(partitions, stretch)[:limit]

    # -- history ------------------------------------------------------------------------------------------

    def knows(self, group_id: str) -> bool:
        """Tell whether there is, or ever was, such a group."""
        with self._lock:
            return self._groups.standing(group_id).row is not None or self._groups.was_seen(group_id)

    def rebalances(self, group_id: str, after: RebalancePlace | None, limit: int) -> list[ListedRebalance]:
        """Return a page of rebalances, the newest first and the one under way before it."""
        with self._lock:
            return history.rebalances(self._groups.standing(group_id), self.history, group_id, after)[:limit]

    def rebalance_members(self, group_id: str, rebalance_id: str) -> list[RebalanceMemberRow]:
        """Return everybody's part in a rebalance that is over."""
        with self._lock:
            return history.rebalance_members(self.history, group_id, rebalance_id)

    def rebalance_waits(self, question: WaitQuestion, limit: int) -> list[RebalanceWait]:
        """Return at most `limit` waits, the longest first."""
        with self._lock:
            return history.waits(self._groups.standing(question.group_id), self.history, question)[:limit]

    def stays(self, which: StayFilter, after: StayPlace | None, limit: int) -> list[ListedStay]:
        """Return a page of stays, the newest first."""
        with self._lock:
            return stays.stays(self._groups.standing(which.group_id), self.history, which, after)[:limit]

    def transitions(self, group_id: str, after: TransitionPlace | None, limit: int) -> list[TransitionRow]:
        """Return a page of changes of the group's state, the newest first."""
        with self._lock:
            return history.transitions(self.history, group_id, after)[:limit]

    def tuning(self, question: TuningQuestion) -> TuningPast:
        """Return what a group's past tells of its timeouts."""
        with self._lock:
            return tuning.past_of(self._groups.standing(question.group_id), self.history, question)

    def ownership(self, moment: Moment) -> list[OwnedSpan]:
        """Return who held which partitions at a moment."""
        with self._lock:
            return history.ownership(self._groups.standing(moment.group_id), self.history, moment)

    def group_positions(
        self, shard_ids: Iterable[int], fresh_since_ms: int, *, by_partition: bool
    ) -> list[GroupPosition]:
        """Return what the groups of these shards have committed, added up by topic or partition."""
        with self._lock:
            groups = self._groups.of_shards(frozenset(shard_ids))
            return history.group_positions(groups, self._log_ends, fresh_since_ms, by_partition=by_partition)

    def expiring(self, shard_ids: Iterable[int]) -> ExpiryForecast | None:
        """Return what will expire of the groups of these shards; None where no run has ever looked."""
        with self._lock:
            return self._maintenance.expiring(frozenset(shard_ids), self._clock_ms())

    def reports(self, which: ReportFilter) -> list[Report]:
        """Return at most `limit` reports by group: the newest of each, with its parts."""
        with self._lock:
            return self._reports.newest(which)

    def positions(self, moment: Moment) -> list[PositionThen]:
        """Return what was committed as of a moment."""
        with self._lock:
            return history.positions(self._groups.standing(moment.group_id), self.history, moment)

    def _past(self) -> Past:
        return Past(self.history, self._log_ends)

    def held_positions(self, group_id: str, since_ms: int) -> GroupPositions:
        """Return where a group stands, partition by partition."""
        with self._lock:
            return positions.group_positions(self._groups.standing(group_id), self._past(), group_id, since_ms)

    def lagging_positions(self, shard_ids: Iterable[int], since_ms: int) -> list[LaggingPosition]:
        """Return which offsets of these shards' groups are behind, in order."""
        with self._lock:
            standing = self._groups.of_shards(frozenset(shard_ids))
            return list(positions.lagging(standing, self._past(), since_ms))

    def past_positions(self, stretch: Stretch, limit: int) -> list[PastPosition]:
        """Return at most `limit` of a group's positions over time."""
        with self._lock:
            found = positions.past_positions(self._groups.standing(stretch.group_id), self.history, stretch)
            return found[:limit]

    # -- settings and catalogue ---------------------------------------------------------------------------

    def versions(self) -> Versions:
        """Return how often each small table was changed."""
        return self._small_tables.versions

    def topics(self) -> list[TopicRow]:
        """Return the catalogue, by topic."""
        with self._lock:
            return self._small_tables.topics()

    def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow) -> TopicRow:
        """Put a topic into the catalogue, or raise its count; ValueError if it would fall."""
        with self._lock:
            return self._small_tables.put_topic(topic, partitions, log_start_offset, change)

    def delete_topic(self, topic: str, change: ChangeRow) -> ChangeRow | None:
        """Take a topic out of the catalogue, and begin a run that archives its offsets."""
        with self._lock:
            return self._small_tables.delete_topic(topic, change)

    def settings(self) -> StoredSettings:
        """Return every stored setting."""
        with self._lock:
            return self._small_tables.settings()

    def setting_origins(self, group_id: str) -> dict[str, SettingOrigin]:
        """Return by whom and when each stored setting of the group or the cluster was set."""
        with self._lock:
            return self._small_tables.setting_origins(group_id)

    def put_settings(self, group_id: str | None, values: Mapping[str, str | None], change: ChangeRow) -> None:
        """Set or (None) unset settings of a group, or of the cluster."""
        with self._lock:
            self._small_tables.put_settings(group_id, values, change)

    def undo_settings(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Take a change of settings back, key by key, where what it set still stands."""
        with self._lock:
            return self._small_tables.undo_settings(change_id, change)

    def begin_undo(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Begin a run that takes back what a change archived."""
        with self._lock:
            return self._small_tables.begin_undo(change_id, change)

    # -- maintenance --------------------------------------------------------------------------------------

    def runs(self, limit: int = 100) -> list[RunRow]:
        """Return the newest runs first."""
        with self._lock:
            return self._maintenance.newest(limit)

    def run(self, run_id: str) -> RunRow:
        """Return one run, its counts by outcome included; RunNotFound if there is none."""
        with self._lock:
            return self._maintenance.find(run_id)

    def run_candidates(self, run_id: str, after: CandidatePlace | None, limit: int) -> list[ListedCandidate]:
        """Return at most `limit` candidates of a run after a place; RunNotFound if there is none."""
        with self._lock:
            return self._maintenance.candidates(run_id, after)[:limit]

    def run_days(self, run_id: str) -> list[ListedDay]:
        """Return no day, because this store keeps no partitions; RunNotFound if there is no such run."""
        with self._lock:
            self._maintenance.find(run_id)
            return []

    def begin_apply(self, run_id: str, change: ChangeRow, candidates: int | None = None) -> RunRow:
        """Mark a proposed run as applying, and note the change; not if it names other candidates than were seen."""
        with self._lock:
            run = self._maintenance.find(run_id)
            if run.status == RunStatus.PROPOSED and not is_as_seen(run.counts, candidates):
                return run
            return self._decide(run_id, change, RunStatus.APPLYING)

    def reject(self, run_id: str, change: ChangeRow) -> RunRow:
        """Mark a proposed run as rejected, and note the change."""
        return self._decide(run_id, change, RunStatus.REJECTED)

    def _decide(self, run_id: str, change: ChangeRow, status: RunStatus) -> RunRow:
        with self._lock:
            was = self._maintenance.find(run_id).status
            now = decided(was, status)
            if now is not None and not self._groups.was_made(change.change_id):
                if was == RunStatus.PROPOSED:
                    self._maintenance.set_status(run_id, status, change.change_id)
                before, after = {"run_id": run_id, "status": was}, {"run_id": run_id, "status": now}
                self._groups.note(replace(change, before=before, after=after))
            return self._maintenance.find(run_id)

    def newest_runs(self) -> dict[str, int]:
        """Return as of when each job last ran."""
        with self._lock:
            return self._maintenance.newest_runs(self._clock_ms())

    def next_candidates(self, shard_ids: Iterable[int], limit: int, without: Sequence[str] = ()) -> list[CandidateRow]:
        """Return at most `limit` undecided candidates of applying runs in these shards, by run and group."""
        with self._lock:
            return self._maintenance.next_candidates(frozenset(shard_ids), limit, frozenset(without))

    def finish_runs(self) -> list[str]:
        """Mark every applying run that has no undecided candidate as applied, and return their ids."""
        with self._lock:
            return self._maintenance.finish()

    def drop_archived(self, has_copy: HasCopy) -> DroppedDay | None:
        """Return None: no job can copy what lies in this process."""
        return None
