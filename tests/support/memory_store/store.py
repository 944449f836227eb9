"""`MemoryStore`, the `Store` without a database: the same rules, one lock, and an injected clock.

It is deterministic: its results depend only on its calls and on the clock.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.records import CommittedOffset
from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.incarnations import IDENTITY_CHANGED, change_of, is_rolled_back, jump_over
from coordinator_core.state_store.interface import RolledBack
from coordinator_core.state_store.log_ends import LogEndReport
from coordinator_core.state_store.partition_drop import DroppedDay, HasCopy
from coordinator_core.state_store.rows import (
    ArchivedOffset,
    Batch,
    ChangeRow,
    CheckpointResult,
    FetchedOffset,
    GroupWrite,
    Identity,
    Incarnation,
    LeaseRow,
    MirrorPosition,
    OtherGroup,
    RecordedChange,
    Renewal,
    SealedMinute,
    ShardCheckpoint,
    ShardLog,
    StoredGroup,
    StoredSettings,
    TopicRow,
    UnreadableGroup,
    Versions,
    WriteResult,
)
from coordinator_core.state_store.runs import (
    CandidateRow,
    RunRow,
    RunStatus,
    decided,
    expiry_reason,
    has_candidate_count,
)
from coordinator_core.state_store.schema_revision import SchemaRevision
from tests.support.memory_store.groups import Groups, History, Refused
from tests.support.memory_store.leases import Leases
from tests.support.memory_store.log_ends import LogEnds
from tests.support.memory_store.maintenance import Maintenance
from tests.support.memory_store.offset_log import OffsetLog
from tests.support.memory_store.partitions import Partitions
from tests.support.memory_store.settings_and_topics import SettingsAndTopics


def wall_clock_ms() -> int:
    """Return the machine's wall time."""
    return time.time_ns() // 1_000_000


class Known(NamedTuple):
    """What a node remembers of the server since its last renewal."""

    starts: int
    incarnation: Incarnation
    renewals: int


class MemoryStore:
    """Stores everything in memory."""

    def __init__(self, clock_ms: Callable[[], int] = wall_clock_ms, shards: int = 50) -> None:
        """Start empty.

        Args:
            clock_ms: takes the place of the database's clock.
            shards: the number of shards.
        """
        self._lock = RLock()
        self._clock_ms = clock_ms
        self._leases = Leases(shards, clock_ms)
        self._groups = Groups()
        self._partitions = Partitions()
        self._maintenance = Maintenance()
        self._incarnation = Incarnation(1, clock_ms(), None)
        self.identity = Identity(system_identifier=1, timeline=1, database_oid=1, table_oid=1)
        """The actual identity."""
        self.server_starts = 0
        """How often the server has started with contents of before (`Backup`)."""
        self._known: dict[str, Known] = {}
        """Node → the server as it remembers it."""
        self._log_ends = LogEnds()
        self._offset_log = OffsetLog(shards)
        self._mirrored_cluster: str | None = None
        self._mirror_source: str | None = None
        self._mirror_positions: dict[int, MirrorPosition] = {}
        self._other_groups: dict[int, list[OtherGroup]] = {}
        self._settings_and_topics = SettingsAndTopics(self._groups, self._maintenance, self._log_ends, self._offset_log)

    def close(self) -> None:
        """Do nothing."""

    @property
    def history(self) -> History:
        """All history rows."""
        return self._groups.history

    def committed_offsets(self, group_id: str) -> list[CommittedOffset]:
        """Return the rows of a group in `offsets`, by topic and partition."""
        with self._lock:
            return [record for _, record in self._groups.committed_offsets(group_id)]

    def propose(self, run: RunRow, candidates: Iterable[CandidateRow]) -> None:
        """Store a proposal, as a Spark job does; the candidates' change ids are ignored."""
        with self._lock:
            self._maintenance.propose(run, candidates, self._clock_ms())

    def edit_group(self, group_id: str, **columns: Any) -> None:  # noqa: ANN401 - what people write may have any type
        """Change a group's row without checks, as SQL by hand can."""
        with self._lock:
            self._groups.edit(group_id, columns)

    # -- writes -------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> WriteResult:
        """Store a batch; return the shards and groups that were not stored."""
        with self._lock:
            shards = {group_write.shard_id for group_write in batch.writes}
            held = self._leases.held(batch.node_id, {shard: batch.epochs[shard] for shard in shards})
            if not self._is_known_to(batch.node_id):
                held = frozenset()
            by_group: dict[str, list[GroupWrite]] = {}
            for group_write in batch.writes:
                if group_write.shard_id in held:
                    by_group.setdefault(group_write.group_id, []).append(group_write)
            refused = self._write_groups(by_group)
            kept = [write for write in batch.writes if write.shard_id in held and write.group_id not in refused]
            for stored in kept:
                if stored.mirror_position is not None:
                    self._mirror_positions[stored.shard_id] = stored.mirror_position
            return WriteResult(frozenset(shards - held), refused, self._append(kept))

    def _append(self, writes: Sequence[GroupWrite]) -> int:
        logged = [write.logged.commits for write in writes if write.logged is not None]
        if not logged:
            return 0
        seq = self._groups.draw_commit_version()
        self._offset_log.append(seq, logged)
        return seq

    def checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        """Store the dirty offsets of shards in the table."""
        with self._lock:
            held = self._leases.held(node_id, {shard_id: shard.epoch for shard_id, shard in shards.items()})
            if not self._is_known_to(node_id):
                held = frozenset()
            for shard_id in sorted(held):
                self._partitions.take(self._groups.checkpoint(shards[shard_id].dirty))
                self._offset_log.checkpoint(shard_id, shards[shard_id].position)
            return CheckpointResult(frozenset(shards) - held)

    def load_offset_log(self, shard_ids: Iterable[int]) -> dict[int, ShardLog]:
        """Return the commits of each shard that no checkpoint has passed."""
        with self._lock:
            return self._offset_log.load(shard_ids)

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

    # -- mirrored clusters --------------------------------------------------------------------------------

    def mirror_of(self, cluster_id: str, source: str = "topic") -> str | None:
        """Make the database a mirror of a cluster, if it is empty."""
        with self._lock:
            has_groups = bool(self._groups.load(frozenset(range(self.shard_count()))))
            if self._mirrored_cluster is None and not has_groups and not len(self._offset_log):
                self._mirrored_cluster, self._mirror_source = cluster_id, source
            return self._mirrored_cluster

    def mirror_source(self) -> str | None:
        """Return the source of the mirror."""
        return self._mirror_source

    def mirrored_cluster(self) -> str | None:
        """Return the id of the mirrored cluster."""
        return self._mirrored_cluster

    def observe_topics(self, partitions: Mapping[str, int]) -> None:
        """Take the numbers of partitions into the topic metadata."""
        with self._lock:
            self._settings_and_topics.observe_topics(partitions)

    def forget_topics(self, deleted: Sequence[str]) -> None:
        """Delete topics that a mirrored cluster no longer has."""
        with self._lock:
            self._settings_and_topics.forget_topics(deleted)

    def forget_log_ends(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Delete log ends of a mirrored cluster."""
        with self._lock:
            self._settings_and_topics.forget_log_ends(partitions)

    def committed_topics(self, shard_id: int) -> list[str]:
        """Return the topics of a shard's committed offsets."""
        with self._lock:
            return sorted({one.topic for _, shard, one in self._groups.all_stored() if shard == shard_id})

    def store_other_groups(self, shard_id: int, epoch: int, groups: Sequence[OtherGroup]) -> None:
        """Replace a shard's share and streams groups."""
        with self._lock:
            if self._leases.shards[shard_id].epoch == epoch:
                self._other_groups[shard_id] = sorted(groups)

    def other_groups(self) -> list[OtherGroup]:
        """Return all share and streams groups."""
        with self._lock:
            return sorted(each for groups in self._other_groups.values() for each in groups)

    def mirror_position(self, shard_id: int) -> MirrorPosition | None:
        """Return the stored position of a shard, with its checkpoint."""
        with self._lock:
            stored = self._mirror_positions.get(shard_id)
            checkpoint = self._offset_log.load([shard_id])[shard_id].position
            return stored and stored._replace(offsets_seq=max(stored.offsets_seq, checkpoint))

    # -- ownership ----------------------------------------------------------------------------------------

    def renew(
        self,
        node_id: str,
        listeners: Mapping[str, str],
        version: str,
        epochs: Mapping[int, int],
        ttl_ms: int,
        last: Renewal | None = None,
        cluster_configs: int = 0,
    ) -> Renewal:
        """Renew the node and all its leases at once."""
        with self._lock:
            self._verify_identity(node_id)
            renewals = (self._leases.renewals_of(node_id) or (0 if last is None else last.renewals)) + 1
            rows, versions = self._leases.rows(), self._settings_and_topics.versions
            before = Renewal(frozenset(), rows, (), versions, self._incarnation, renewals)
            if last is not None and is_rolled_back(before, last):
                raise RolledBack(self._incarnation.number)
            self._leases.renew_node(node_id, listeners, version, ttl_ms, renewals, cluster_configs)
            held = self._leases.renew(node_id, epochs, ttl_ms)
            self._known[node_id] = Known(self.server_starts, self._incarnation, renewals)
            return replace(before, held=held, leases=self._leases.rows(), live_nodes=self._leases.live_nodes())

    def start_incarnation(self, known: int, actor: str, reason: str) -> Incarnation:
        """Start a new incarnation, unless the stored one is no longer the known one."""
        with self._lock:
            if self._incarnation.number == known:
                self._start_incarnation(actor, reason)
            return self._incarnation

    def incarnation(self) -> Incarnation:
        """Return the current incarnation."""
        return self._incarnation

    def _is_known_to(self, node_id: str) -> bool:
        """Return whether the server is the one that a node remembers, and was not rolled back."""
        if self._incarnation.identity != self.identity:
            return False
        known = self._known.get(node_id)
        return known is None or known.starts == self.server_starts or not self._is_before(node_id, known)

    def _is_before(self, node_id: str, known: Known) -> bool:
        renewals = self._leases.renewals_of(node_id) or 0
        return self._incarnation != known.incarnation or renewals < known.renewals

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
        if self._mirrored_cluster is None:
            self._groups.jump(jump)
        self._settings_and_topics.jump(jump.versions)
        self._incarnation = Incarnation(before.number + 1, max(now_ms, before.started_at_ms + 1), self.identity)
        self._groups.record_change(change_of(before, self._incarnation, jump, actor, reason))

    def acquire_leases(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Acquire the leases of these shards that are free, expired or already ours; return shard → new epoch."""
        with self._lock:
            self._verify_identity(node_id)
            known = self._known.get(node_id)
            if known is not None and self._incarnation == known.incarnation and self._is_before(node_id, known):
                raise RolledBack(self._incarnation.number)
            return self._leases.acquire_leases(node_id, shard_ids, ttl_ms)

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Release the leases of these shards that are still ours."""
        with self._lock:
            self._leases.release(node_id, epochs)

    def delete_node(self, node_id: str) -> None:
        """Delete the node's own row."""
        with self._lock:
            self._leases.delete_node(node_id)

    def delete_lost_nodes(self, lost_for_ms: int) -> None:
        """Delete nodes that expired at least so long ago."""
        with self._lock:
            self._leases.delete_lost_nodes(lost_for_ms)

    def leases(self) -> tuple[LeaseRow, ...]:
        """Return every lease, by shard."""
        with self._lock:
            return self._leases.rows()

    def shard_count(self) -> int:
        """Return the number of shards."""
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

    def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[str] | None = None,
        after: tuple[str, int] | None = None,
        limit: int | None = None,
    ) -> list[FetchedOffset]:
        """Return committed offsets by topic and partition.

        Args:
            group_id: the group.
            topics: only those of these topics; None: of all.
            after: only those after this topic and partition; None: from the first.
            limit: at most so many; None: all.
        """
        with self._lock:
            found = self._groups.fetch(group_id, None if topics is None else frozenset(topics))
        return [one for one in found if after is None or (one.topic, one.partition) > after][:limit]

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        """Return offsets in the form that a decision needs; None: of all partitions."""
        with self._lock:
            return self._groups.stored(group_id, None if partitions is None else frozenset(partitions))

    def has_offsets(self, group_id: str) -> bool:
        """Return whether the group has any offset."""
        return bool(self.fetch_offsets(group_id))

    def count_offsets(self, group_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of offsets of each group that has any."""
        return {group_id: count for group_id in group_ids if (count := len(self.fetch_offsets(group_id)))}

    def schema(self) -> SchemaRevision | None:
        """Return a schema that every node can use."""
        return SchemaRevision("9999", "0000")

    def lacks_history_partitions(self) -> bool:
        """Return whether the partition of today or tomorrow is missing, or a default partition has rows."""
        with self._lock:
            return self._partitions.are_missing(self._clock_ms())

    def create_history_partitions(self, days_ahead: int) -> None:
        """Create the missing partitions of today and the days ahead."""
        with self._lock:
            self._partitions.create(self._clock_ms(), days_ahead)

    # -- changes and archived offsets ---------------------------------------------------------------------

    def change(self, change_id: str) -> RecordedChange | None:
        """Return one change, or None if it does not exist."""
        with self._lock:
            return self._groups.change(change_id)

    def undone_changes(self, group_id: str) -> list[RecordedChange]:
        """Return the changes of a group that were undone."""
        with self._lock:
            return self._groups.undone_changes(group_id)

    def archived_offsets(
        self, change_id: str, group_id: str, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[ArchivedOffset]:
        """Return a group's offsets that a change archived, by topic and partition."""
        with self._lock:
            return self._groups.archived(change_id, group_id, None if partitions is None else frozenset(partitions))

    # -- log ends -----------------------------------------------------------------------------------------

    def report_log_ends(self, reports: Sequence[LogEndReport], deletions: int) -> bool:
        """Store log ends from trusted reporters, unless log ends were deleted since; a log end never decreases."""
        with self._lock:
            if self._settings_and_topics.versions.log_end_deletions != deletions:
                return False
            self._partitions.take_log_ends(self._log_ends.report(reports))
            return True

    def delete_log_ends(self, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
        """Delete the log end of a partition, or of all partitions of a topic."""
        with self._lock:
            return self._settings_and_topics.delete_log_ends(topic, partition, change)

    def log_ends(self, topics: Sequence[str]) -> dict[tuple[str, int], LogEnd]:
        """Return the highest reported log end by topic and partition, with the time of its last report."""
        with self._lock:
            return self._log_ends.present(topics)

    # -- settings and topic metadata ---------------------------------------------------------------------------

    def versions(self) -> Versions:
        """Return how often each table of settings and topic metadata was changed."""
        return self._settings_and_topics.versions

    def unconfirmed_nodes(self, cluster_configs: int) -> list[str]:
        """Return the nodes that have not confirmed a version of the cluster's settings, sorted."""
        with self._lock:
            return self._leases.unconfirmed_nodes(cluster_configs)

    def topics(self) -> list[TopicRow]:
        """Return the topic metadata, by topic."""
        with self._lock:
            return self._settings_and_topics.topics()

    def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow) -> TopicRow:
        """Add a topic, or raise its number of partitions; ValueError if it has more."""
        with self._lock:
            return self._settings_and_topics.put_topic(topic, partitions, log_start_offset, change)

    def delete_topic(self, topic: str, change: ChangeRow) -> ChangeRow | None:
        """Delete a topic, and start a run that archives its offsets."""
        with self._lock:
            return self._settings_and_topics.delete_topic(topic, change)

    def settings(self) -> StoredSettings:
        """Return every stored setting."""
        with self._lock:
            return self._settings_and_topics.settings()

    def put_settings(
        self,
        group_id: str | None,
        values: Mapping[str, str | None],
        change: ChangeRow,
        checked: Versions | None = None,
    ) -> bool:
        """Set or (None) unset settings of a group, or of the cluster; return whether they are stored."""
        with self._lock:
            return self._settings_and_topics.put_settings(group_id, values, change, checked)

    def restorable_settings(self, undone: ChangeRow) -> dict[str, str | None]:
        """Return the values that an undo of a change of settings would restore."""
        with self._lock:
            return self._settings_and_topics.restorable_settings(undone)

    def undo_settings(self, change_id: str, change: ChangeRow, checked: Versions | None = None) -> ChangeRow | None:
        """Undo a change of settings, for the keys that were not set again since."""
        with self._lock:
            return self._settings_and_topics.undo_settings(change_id, change, checked)

    def begin_undo(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Start a run that restores what a change archived."""
        with self._lock:
            return self._settings_and_topics.begin_undo(change_id, change)

    # -- maintenance --------------------------------------------------------------------------------------

    def run(self, run_id: str) -> RunRow:
        """Return one run, with its counts by outcome; RunNotFound if it does not exist."""
        with self._lock:
            return self._maintenance.find(run_id)

    def begin_apply(self, run_id: str, change: ChangeRow, candidates: int | None = None) -> RunRow:
        """Mark a proposed run as applying, and record the change, unless its number of candidates has changed."""
        with self._lock:
            run = self._maintenance.find(run_id)
            if run.status == RunStatus.PROPOSED and not has_candidate_count(run.counts, candidates):
                return run
            return self._decide(run_id, change, RunStatus.APPLYING)

    def reject(self, run_id: str, change: ChangeRow) -> RunRow:
        """Mark a proposed run as rejected, and record the change."""
        return self._decide(run_id, change, RunStatus.REJECTED)

    def _decide(self, run_id: str, change: ChangeRow, status: RunStatus) -> RunRow:
        with self._lock:
            run = self._maintenance.find(run_id)
            was = run.status
            now = decided(was, status)
            if now is not None and not self._groups.change_exists(change.change_id):
                if was == RunStatus.PROPOSED:
                    self._maintenance.set_status(run_id, status, change)
                before, after = ({"run_id": run_id, "kind": run.kind, "status": each} for each in (was, now))
                self._groups.record_change(replace(change, before=before, after=after))
            return self._maintenance.find(run_id)

    def next_candidates(
        self,
        shard_ids: Iterable[int],
        limit: int,
        without_groups: Sequence[str] = (),
        without_runs: Sequence[str] = (),
    ) -> list[CandidateRow]:
        """Return at most `limit` undecided candidates of applying runs in these shards, by run and group."""
        with self._lock:
            return self._maintenance.next_candidates(
                frozenset(shard_ids), limit, frozenset(without_groups), frozenset(without_runs)
            )

    def expire_proposals(self, ttl_hours: int, actor: str) -> list[str]:
        """Reject runs that were proposed longer ago than this, and record the changes; return their ids, sorted."""
        with self._lock:
            now_ms = self._clock_ms()
            expired = self._maintenance.proposed_before(now_ms - ttl_hours * 3_600_000)
            for run_id in expired:
                change_id, reason = str(uuid5(UUID(run_id), actor)), expiry_reason(ttl_hours)
                change_row = ChangeRow(change_id, now_ms, actor, ChangeAction.EXPIRE_RUN, None, None, None, reason)
                self._decide(run_id, change_row, RunStatus.REJECTED)
            return expired

    def seal_changes(self) -> SealedMinute | None:
        """Return None: this store seals no changes."""
        return None

    def finish_runs(self) -> list[str]:
        """Mark every applying run without undecided candidates as applied; return their ids."""
        with self._lock:
            return self._maintenance.finish()

    def drop_archived(self, has_copy: HasCopy) -> DroppedDay | None:
        """Return None: this store drops no history."""
        return None
