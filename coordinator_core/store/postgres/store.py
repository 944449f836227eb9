"""`PostgresStore` is the `Store` over a Postgres database: which line each call takes, and nothing else."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

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
from coordinator_core.store.log_ends import LogEndReport
from coordinator_core.store.overview import Overview, OverviewFilter
from coordinator_core.store.positions import GroupPositions, LaggingPosition, PastLogEnd, PastPosition, Stretch
from coordinator_core.store.postgres import (
    archive,
    candidates,
    changes,
    history,
    incarnations,
    leases,
    loading,
    log_ends,
    maintenance,
    overview,
    partitions,
    positions,
    reads,
    reports,
    revision,
    small_tables,
    stays,
    tuning,
    writes,
)
from coordinator_core.store.postgres.at_once import AtOnce
from coordinator_core.store.postgres.connections import Limits, Line
from coordinator_core.store.postgres.identity import read_incarnation
from coordinator_core.store.postgres.known_server import KnownServer
from coordinator_core.store.postgres.present_minute import PresentMinute
from coordinator_core.store.reports import Report, ReportFilter
from coordinator_core.store.rows import (
    ArchivedOffset,
    Batch,
    ChangeFilter,
    ChangeRow,
    FetchedOffset,
    GroupFilter,
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
from coordinator_core.store.runs import CandidateRow, RunRow
from coordinator_core.store.stay_lists import ListedStay, StayFilter, StayPlace
from coordinator_core.store.tuning import TuningPast, TuningQuestion

KEY_LOOKUPS_ONLY = {"enable_hashjoin": "off", "enable_mergejoin": "off"}
"""The writer finds every row by its key; old statistics shall not talk it into reading whole tables."""


CHANGES_AT_ONCE = 2
"""How many settings, topics and runs may be changed at once; each waits for others of its kind in any case."""


class PostgresStore:
    """Keep everything in one Postgres database, migrated to this program's own schema.

    Five lines: two connections of the writer's own and one of the leases', and small pools for what people change and
    for reads.
    """

    def __init__(
        self,
        url: str,
        *,
        lease_ttl_ms: int = 5_000,
        read_timeout_ms: int = 10_000,
        connect_timeout_s: int = 2,
        readers: int = 4,
    ) -> None:
        """Prepare; nothing is connected before the first call.

        Args:
            url: `postgresql+psycopg2://user:password@host:port/database`.
            lease_ttl_ms: how long a lease runs. Whatever a transaction may wait for is bounded below half of it.
            read_timeout_ms: how long one read may take.
            connect_timeout_s: how long connecting may take.
            readers: how many reads may be under way at once.
        """
        bounded = Limits(
            statement_timeout_ms=lease_ttl_ms * 4 // 10,
            lock_timeout_ms=lease_ttl_ms * 3 // 10,
            idle_in_transaction_timeout_ms=lease_ttl_ms * 4 // 10,
            connect_timeout_s=connect_timeout_s,
        )
        patient = replace(bounded, statement_timeout_ms=read_timeout_ms)
        self._writer = Line(url, "writer", 1, bounded, KEY_LOOKUPS_ONLY)
        self._commits = AtOnce(url, "writer", bounded, KEY_LOOKUPS_ONLY)
        self._minute = PresentMinute()
        self._server = KnownServer()
        self._leases = Line(url, "leases", 1, bounded)
        self._changes = Line(url, "changes", CHANGES_AT_ONCE, patient)
        self._readers = Line(url, "reader", readers, patient, stands_alone=True)

    def close(self) -> None:
        """Close every connection."""
        for line in (self._writer, self._commits, self._leases, self._changes, self._readers):
            line.close()

    # -- writes -------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> Written:
        """Store a batch in one transaction, or say which shards and groups of it are not stored."""
        return self.prepare(batch)()

    def prepare(self, batch: Batch) -> Callable[[], Written]:
        """Turn a batch into what is sent, and return the call that sends it."""
        prepared = writes.prepare(batch)
        return partial(writes.write, self._writer, self._commits, self._server, prepared, self._minute)

    # -- ownership ----------------------------------------------------------------------------------------

    def renew(
        self, node_id: str, url: str, version: str, epochs: Mapping[int, int], ttl_ms: int, renewals: int = 0
    ) -> Renewal:
        """Renew the node's row and all its leases at once."""
        node = {"node_id": node_id, "url": url, "version": version, "renewals": renewals}
        renew = partial(leases.renew, server=self._server, node=node, epochs=epochs, ttl_ms=ttl_ms)
        return self._leases.transact(renew)

    def start_incarnation(self, known: int, actor: str, reason: str) -> Incarnation:
        """Start an incarnation in place of the known one; do nothing where that is over already."""
        return self._leases.transact(partial(incarnations.start, known=known, actor=actor, reason=reason))

    def incarnation(self) -> Incarnation:
        """Return the incarnation that is stored."""
        return self._readers.read(read_incarnation)

    def take_over(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Take every one of these shards that is free, expired or already ours; return shard → new epoch."""
        wanted = sorted(shard_ids)
        take = partial(leases.take_over, server=self._server, node_id=node_id, shard_ids=wanted, ttl_ms=ttl_ms)
        return self._leases.transact(take)

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Give these shards up, where they are still ours."""
        self._leases.transact(partial(leases.release, node_id=node_id, epochs=epochs))

    def retire_node(self, node_id: str) -> None:
        """Take the node's own row away."""
        self._leases.transact(partial(leases.retire_node, node_id=node_id))

    def forget_nodes(self, gone_for_ms: int) -> None:
        """Take the rows of nodes away that were lost so long ago."""
        self._leases.transact(partial(leases.forget_nodes, gone_for_ms=gone_for_ms))

    def leases(self) -> tuple[LeaseRow, ...]:
        """Return every lease, by shard."""
        return self._readers.read(leases.read_leases)

    def shard_count(self) -> int:
        """Return how many shards the database was made for."""
        return self._readers.read(leases.read_shard_count)

    # -- reads --------------------------------------------------------------------------------------------

    def load_shards(self, shard_ids: Iterable[int]) -> list[StoredGroup | UnreadableGroup]:
        """Return every group of these shards with its members."""
        return self._readers.read(partial(loading.load_shards, shard_ids=list(shard_ids)))

    def load_group(self, group_id: str) -> StoredGroup | UnreadableGroup | None:
        """Return one group with its members, or None if it has no rows."""
        return self._readers.read(partial(loading.load_group, group_id=group_id))

    def fetch_offsets(self, group_id: str, topics: Sequence[str] | None = None) -> list[FetchedOffset]:
        """Return committed offsets by topic and partition; of all topics where none is named."""
        return self._readers.read(partial(reads.fetch_offsets, group_id=group_id, topics=topics))

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        """Return offsets as a decision needs them; all of the group's where no partition is named."""
        return self._readers.read(partial(reads.stored_offsets, group_id=group_id, partitions=partitions))

    def has_offsets(self, group_id: str) -> bool:
        """Tell whether the group has any offset left."""
        return self._readers.read(partial(reads.has_offsets, group_id=group_id))

    def list_groups(self, which: GroupFilter) -> list[ListedGroup]:
        """Return at most `limit` groups by id, after `after`."""
        return self._readers.read(partial(reads.list_groups, which=which))

    def overview(self, which: OverviewFilter) -> Overview:
        """Return at most `limit` groups in the order asked for, and how many there are in each state."""
        return self._readers.read(partial(overview.read_overview, which=which))

    def was_seen(self, group_id: str) -> bool:
        """Tell whether history knows the group."""
        return self._readers.read(partial(reads.was_seen, group_id=group_id))

    def schema(self) -> str | None:
        """Return the revision of the database's schema."""
        return self._readers.read(revision.read_schema)

    def lacks_history_partitions(self) -> bool:
        """Tell whether a day ahead has no partition of its own, or rows have fallen into a default partition."""
        return partitions.lack(self._changes)

    def create_history_partitions(self, days_ahead: int) -> None:
        """Create the partitions of today and the days ahead, where they are missing."""
        partitions.create_ahead(self._changes, days_ahead)

    # -- history ------------------------------------------------------------------------------------------

    def knows(self, group_id: str) -> bool:
        """Tell whether there is, or ever was, such a group."""
        return self._readers.read(partial(history.knows, group_id=group_id))

    def rebalances(self, group_id: str, after: RebalancePlace | None, limit: int) -> list[ListedRebalance]:
        """Return a page of rebalances, the newest first and the one under way before it."""
        return self._readers.read(partial(history.read_rebalances, group_id=group_id, after=after, limit=limit))

    def rebalance_members(self, group_id: str, rebalance_id: str) -> list[RebalanceMemberRow]:
        """Return everybody's part in a rebalance that is over."""
        read = partial(history.read_rebalance_members, group_id=group_id, rebalance_id=rebalance_id)
        return self._readers.read(read)

    def rebalance_waits(self, question: WaitQuestion, limit: int) -> list[RebalanceWait]:
        """Return at most `limit` waits, the longest first."""
        return self._readers.read(partial(history.read_waits, question=question, limit=limit))

    def stays(self, which: StayFilter, after: StayPlace | None, limit: int) -> list[ListedStay]:
        """Return a page of stays, the newest first."""
        return self._readers.read(partial(stays.read_stays, which=which, after=after, limit=limit))

    def transitions(self, group_id: str, after: TransitionPlace | None, limit: int) -> list[TransitionRow]:
        """Return a page of changes of the group's state, the newest first."""
        return self._readers.read(partial(history.read_transitions, group_id=group_id, after=after, limit=limit))

    def tuning(self, question: TuningQuestion) -> TuningPast:
        """Return what a group's past tells of its timeouts, and the newest advice that a job has written down."""
        return self._readers.read(partial(tuning.read_past, question=question))

    def ownership(self, moment: Moment) -> list[OwnedSpan]:
        """Return who held which partitions at a moment."""
        return self._readers.read(partial(history.read_ownership, moment=moment))

    def group_positions(
        self, shard_ids: Iterable[int], fresh_since_ms: int, *, by_partition: bool
    ) -> list[GroupPosition]:
        """Return what the groups of these shards have committed, added up by topic or partition."""
        wanted = list(shard_ids)
        read = partial(history.read_group_positions, shard_ids=wanted, fresh_since_ms=fresh_since_ms)
        return self._readers.read(partial(read, by_partition=by_partition))

    def expiring(self, shard_ids: Iterable[int]) -> ExpiryForecast | None:
        """Return what will expire of the groups of these shards; None where no run has ever looked."""
        return self._readers.read(partial(maintenance.read_forecast, shard_ids=list(shard_ids)))

    def reports(self, which: ReportFilter) -> list[Report]:
        """Return at most `limit` reports by group: the newest of each, with its parts."""
        return self._readers.read(partial(reports.read_reports, which=which))

    def positions(self, moment: Moment) -> list[PositionThen]:
        """Return what was committed as of a moment."""
        return self._readers.read(partial(history.read_positions, moment=moment))

    def held_positions(self, group_id: str, since_ms: int) -> GroupPositions:
        """Return where a group stands, partition by partition."""
        return self._readers.read(partial(positions.read_group_positions, group_id=group_id, since_ms=since_ms))

    def lagging_positions(self, shard_ids: Iterable[int], since_ms: int) -> list[LaggingPosition]:
        """Return which offsets of these shards' groups are behind, in order."""
        wanted = list(shard_ids)
        return self._readers.read(partial(positions.read_lagging, shard_ids=wanted, since_ms=since_ms))

    def past_positions(self, stretch: Stretch, limit: int) -> list[PastPosition]:
        """Return at most `limit` of a group's positions over time."""
        return self._readers.read(partial(positions.read_past_positions, stretch=stretch, limit=limit))

    # -- changes, and what they took ----------------------------------------------------------------------

    def change(self, change_id: str) -> RecordedChange | None:
        """Return one change, or None if there is none."""
        return self._readers.read(partial(changes.find_change, change_id=change_id))

    def changes(self, which: ChangeFilter) -> list[RecordedChange]:
        """Return at most `limit` changes, the newest first."""
        return self._readers.read(partial(changes.list_changes, which=which))

    def archived_offsets(
        self, change_id: str, group_id: str, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[ArchivedOffset]:
        """Return what a change took from a group, by topic and partition."""
        find = partial(changes.archived_offsets, change_id=change_id, group_id=group_id, partitions=partitions)
        return self._readers.read(find)

    # -- ends of logs -------------------------------------------------------------------------------------

    def report_log_ends(self, reports: Sequence[LogEndReport], deletions: int) -> bool:
        """Store ends that trusted reporters named, no partition twice; an end never falls."""
        return self._changes.transact(partial(log_ends.report_log_ends, reports=reports, deletions=deletions))

    def delete_log_ends(self, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
        """Delete what is known of the end of a partition's log, or of all of a topic's."""
        return self._changes.transact(
            partial(small_tables.delete_log_ends, topic=topic, partition=partition, change=change)
        )

    def log_ends(self, topics: Sequence[str]) -> dict[tuple[str, int], LogEnd]:
        """Return the furthest end that trusted reporters named, by topic and partition, and when one did so last."""
        return self._readers.read(partial(log_ends.read_log_ends, topics=topics))

    def past_log_ends(self, stretch: Stretch, limit: int) -> list[PastLogEnd]:
        """Return at most `limit` such ends of the logs that a group has committed."""
        return self._readers.read(partial(log_ends.read_past_log_ends, stretch=stretch, limit=limit))

    # -- settings and catalogue ---------------------------------------------------------------------------

    def versions(self) -> Versions:
        """Return how often each small table was changed."""
        return self._readers.read(leases.read_versions)

    def topics(self) -> list[TopicRow]:
        """Return the catalogue, by topic."""
        return self._readers.read(small_tables.read_topics)

    def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow) -> TopicRow:
        """Put a topic into the catalogue, or raise its count; ValueError if it would fall."""
        put = partial(
            small_tables.put_topic,
            topic=topic,
            partitions=partitions,
            log_start_offset=log_start_offset,
            change=change,
        )
        return self._changes.transact(put)

    def delete_topic(self, topic: str, change: ChangeRow) -> ChangeRow | None:
        """Take a topic out of the catalogue, and begin a run that archives its offsets."""
        return self._changes.transact(partial(small_tables.delete_topic, topic=topic, change=change))

    def settings(self) -> StoredSettings:
        """Return every stored setting."""
        return self._readers.read(small_tables.read_settings)

    def setting_origins(self, group_id: str) -> dict[str, SettingOrigin]:
        """Return by whom and when each stored setting of the group or the cluster was set."""
        return self._readers.read(partial(small_tables.read_origins, group_id=group_id))

    def put_settings(self, group_id: str | None, values: Mapping[str, str | None], change: ChangeRow) -> None:
        """Set or (None) unset settings of a group, or of the cluster."""
        put = partial(small_tables.put_settings, group_id=group_id, values=values, change=change)
        self._changes.transact(put)

    def undo_settings(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Take a change of settings back, key by key, where what it set still stands."""
        return self._changes.transact(partial(small_tables.undo_settings, change_id=change_id, change=change))

    # -- maintenance --------------------------------------------------------------------------------------

    def begin_undo(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Begin a run that takes back what a change archived."""
        return self._changes.transact(partial(small_tables.begin_undo, change_id=change_id, change=change))

    def runs(self, limit: int = 100) -> list[RunRow]:
        """Return the newest runs first."""
        return self._readers.read(partial(maintenance.read_runs, limit=limit))

    def run(self, run_id: str) -> RunRow:
        """Return one run, its counts by outcome included; RunNotFound if there is none."""
        return self._readers.read(partial(maintenance.read_run, run_id=run_id))

    def run_candidates(self, run_id: str, after: CandidatePlace | None, limit: int) -> list[ListedCandidate]:
        """Return at most `limit` candidates of a run after a place; RunNotFound if there is none."""
        return self._readers.read(partial(candidates.read_candidates, run_id=run_id, after=after, limit=limit))

    def run_days(self, run_id: str) -> list[ListedDay]:
        """Return the days of history that a run names, the oldest first; RunNotFound if there is none."""
        return self._readers.read(partial(candidates.read_days, run_id=run_id))

    def begin_apply(self, run_id: str, change: ChangeRow, candidates: int | None = None) -> RunRow:
        """Mark a proposed run as applying, and note the change; not if it names other candidates than were seen."""
        begin = partial(maintenance.begin_apply, run_id=run_id, change=change, candidates=candidates)
        return self._changes.transact(begin)

    def reject(self, run_id: str, change: ChangeRow) -> RunRow:
        """Mark a proposed run as rejected, and note the change."""
        return self._changes.transact(partial(maintenance.reject, run_id=run_id, change=change))

    def newest_runs(self) -> dict[str, int]:
        """Return as of when each job last ran."""
        return self._readers.read(maintenance.read_newest_runs)

    def next_candidates(self, shard_ids: Iterable[int], limit: int, without: Sequence[str] = ()) -> list[CandidateRow]:
        """Return at most `limit` undecided candidates of applying runs in these shards, by run and group."""
        wanted = list(shard_ids)
        read = partial(maintenance.next_candidates, shard_ids=wanted, limit=limit, without=without)
        return self._readers.read(read)

    def finish_runs(self) -> list[str]:
        """Mark every applying run that has no undecided candidate as applied, and return their ids."""
        return self._changes.transact(maintenance.finish_runs)

    def drop_archived(self, has_copy: HasCopy) -> DroppedDay | None:
        """Decide about one day of history that an applying run names; None if none is left."""
        return self._changes.transact(partial(archive.drop_next, has_copy=has_copy))
