"""`PostgresStore`, the `Store` on a Postgres database: assigns each call to a connection pool."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.state_store.log_ends import LogEndReport
from coordinator_core.state_store.partition_drop import DroppedDay, HasCopy
from coordinator_core.state_store.postgres import (
    archive,
    changes,
    incarnations,
    leases,
    loading,
    log_ends,
    maintenance,
    mirrors,
    offset_log,
    partitions,
    reads,
    rejections,
    revision,
    seals,
    settings_and_topics,
    writes,
)
from coordinator_core.state_store.postgres.autocommit import AutocommitConnection
from coordinator_core.state_store.postgres.connections import ConnectionPool, Limits
from coordinator_core.state_store.postgres.fence import Fence
from coordinator_core.state_store.postgres.identity import read_incarnation
from coordinator_core.state_store.postgres.known_server import KnownServer
from coordinator_core.state_store.rows import (
    LEASE_TTL_MS,
    ArchivedOffset,
    Batch,
    ChangeRow,
    CheckpointResult,
    FetchedOffset,
    Incarnation,
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
from coordinator_core.state_store.runs import CandidateRow, RunRow
from coordinator_core.state_store.schema_revision import SchemaRevision

KEY_LOOKUPS_ONLY = {"enable_hashjoin": "off", "enable_mergejoin": "off"}
"""The writer finds every row by its key; outdated statistics must not make the planner read whole tables."""


CHANGES_AT_ONCE = 2
"""The maximum number of concurrent changes of settings, topics and runs; those of one kind are serialized anyway."""


class PostgresStore:
    """Stores everything in one Postgres database, which has the schema of this version.

    It has two connections for the writer, one each for checkpoints and leases, and small pools for administrative
    changes and for reads.
    """

    def __init__(
        self,
        url: str,
        *,
        lease_ttl_ms: int = LEASE_TTL_MS,
        read_timeout_ms: int = 10_000,
        connect_timeout_s: int = 2,
        readers: int = 4,
    ) -> None:
        """Do not connect before the first call.

        Args:
            url: `postgresql+psycopg2://user:password@host:port/database`.
            lease_ttl_ms: how long a lease lasts. The timeouts of transactions are below half of it.
            read_timeout_ms: the timeout of one read.
            connect_timeout_s: how long connecting may take.
            readers: the maximum number of concurrent reads.
        """
        bounded = Limits(
            statement_timeout_ms=lease_ttl_ms * 4 // 10,
            lock_timeout_ms=lease_ttl_ms * 3 // 10,
            idle_in_transaction_timeout_ms=lease_ttl_ms * 4 // 10,
            connect_timeout_s=connect_timeout_s,
        )
        patient = replace(bounded, statement_timeout_ms=read_timeout_ms)
        self._writer = ConnectionPool(url, "writer", 1, bounded, KEY_LOOKUPS_ONLY)
        self._commits = AutocommitConnection(url, "writer", bounded, KEY_LOOKUPS_ONLY)
        self._checkpoints = ConnectionPool(url, "checkpoints", 1, bounded, KEY_LOOKUPS_ONLY)
        self._log_start = 0
        """Where the next deletion of checkpointed rows of the offset log begins."""
        self._server = KnownServer()
        self._fence = Fence()
        self._leases = ConnectionPool(url, "leases", 1, bounded)
        self._changes = ConnectionPool(url, "changes", CHANGES_AT_ONCE, patient)
        self._readers = ConnectionPool(url, "reader", readers, patient, is_autocommit=True)

    def close(self) -> None:
        """Close every connection."""
        for pool in (self._writer, self._commits, self._checkpoints, self._leases, self._changes, self._readers):
            pool.close()

    # -- writes -------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> WriteResult:
        """Store a batch in one transaction, or say which shards and groups of it are not stored."""
        return writes.write(self._writer, self._commits, self._server, self._fence, batch)

    # -- the offset log -----------------------------------------------------------------------------------

    def checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        """Store the dirty offsets of shards in the table, and delete the rows of the log that are checkpointed."""
        result = writes.checkpoint(self._checkpoints, self._server, self._fence, node_id, shards)
        self._log_start = self._checkpoints.transact(partial(offset_log.trim, from_seq=self._log_start))
        return result

    def load_offset_log(self, shard_ids: Iterable[int]) -> dict[int, ShardLog]:
        """Return the commits of each shard that no checkpoint has passed."""
        return self._changes.transact(partial(offset_log.load_dirty_offsets, shard_ids=list(shard_ids)))

    # -- ownership ----------------------------------------------------------------------------------------

    def renew(
        self,
        node_id: str,
        listeners: Mapping[str, str],
        version: str,
        epochs: Mapping[int, int],
        ttl_ms: int,
        renewals: int = 0,
        cluster_configs: int = 0,
    ) -> Renewal:
        """Renew the node's row and all its leases at once."""
        node = {"node_id": node_id, "listeners": listeners, "version": version, "renewals": renewals}
        node["cluster_configs"] = cluster_configs
        renew = partial(leases.renew, server=self._server, node=node, epochs=epochs, ttl_ms=ttl_ms)
        return self._leases.transact(renew)

    def mirror_of(self, cluster_id: str, source: str = "topic") -> str | None:
        """Make an empty database a mirror of a cluster; return the cluster that it mirrors."""
        return self._leases.transact(partial(mirrors.mirror_of, cluster_id=cluster_id, source=source))

    def mirror_source(self) -> str | None:
        """Return the source that the database was made with."""
        return self._readers.read(mirrors.read_source)

    def mirrored_cluster(self) -> str | None:
        """Return the id of the Kafka cluster that the database mirrors."""
        return self._readers.read(mirrors.read_mirrored_cluster)

    def observe_topics(self, partitions: Mapping[str, int]) -> None:
        """Take the numbers of partitions of a mirrored cluster's topics into the topic metadata."""
        self._changes.transact(partial(mirrors.observe_topics, partitions=partitions))

    def committed_topics(self, shard_id: int) -> list[str]:
        """Return the topics in which the groups of a shard have committed offsets, sorted."""
        return self._readers.read(partial(mirrors.read_committed_topics, shard_id=shard_id))

    def store_other_groups(self, shard_id: int, epoch: int, groups: Sequence[OtherGroup]) -> None:
        """Replace a shard's share and streams groups."""
        self._changes.transact(partial(mirrors.store_other_groups, shard_id=shard_id, epoch=epoch, groups=groups))

    def mirror_position(self, shard_id: int) -> MirrorPosition | None:
        """Return how far a shard has read its log, with its last checkpoint."""
        return self._readers.read(partial(mirrors.read_position, shard_id=shard_id))

    def start_incarnation(self, known: int, actor: str, reason: str) -> Incarnation:
        """Start an incarnation in place of the known one; do nothing where that is over already."""
        return self._leases.transact(partial(incarnations.start, known=known, actor=actor, reason=reason))

    def incarnation(self) -> Incarnation:
        """Return the current incarnation."""
        return self._readers.read(read_incarnation)

    def acquire_leases(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Take every one of these shards that is free, expired or already ours; return shard → new epoch."""
        wanted = sorted(shard_ids)
        acquire = partial(leases.acquire_leases, server=self._server, fence=self._fence, node_id=node_id)
        return self._leases.transact(partial(acquire, shard_ids=wanted, ttl_ms=ttl_ms))

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Give these shards up, where they are still ours."""
        self._fence.forget(epochs)
        self._leases.transact(partial(leases.release, node_id=node_id, epochs=epochs))

    def delete_node(self, node_id: str) -> None:
        """Take the node's own row away."""
        self._leases.transact(partial(leases.delete_node, node_id=node_id))

    def delete_lost_nodes(self, lost_for_ms: int) -> None:
        """Take the rows of nodes away that were lost so long ago."""
        self._leases.transact(partial(leases.delete_lost_nodes, lost_for_ms=lost_for_ms))

    def shard_count(self) -> int:
        """Return the number of shards of the database."""
        return self._readers.read(leases.read_shard_count)

    # -- reads --------------------------------------------------------------------------------------------

    def load_shards(self, shard_ids: Iterable[int]) -> list[StoredGroup | UnreadableGroup]:
        """Return every group of these shards with its members."""
        return self._readers.read(partial(loading.load_shards, shard_ids=list(shard_ids)))

    def load_group(self, group_id: str) -> StoredGroup | UnreadableGroup | None:
        """Return one group with its members, or None if it has no rows."""
        return self._readers.read(partial(loading.load_group, group_id=group_id))

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
        return self._readers.read(
            partial(reads.fetch_offsets, group_id=group_id, topics=topics, after=after, limit=limit)
        )

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        """Return offsets in the form that a decision needs; None: of all partitions."""
        return self._readers.read(partial(reads.stored_offsets, group_id=group_id, partitions=partitions))

    def has_offsets(self, group_id: str) -> bool:
        """Return whether the group has any offset."""
        return self._readers.read(partial(reads.has_offsets, group_id=group_id))

    def count_offsets(self, group_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of offsets of each group that has any."""
        return self._readers.read(partial(reads.count_offsets, group_ids=group_ids))

    def schema(self) -> SchemaRevision | None:
        """Return the revision of the database's schema."""
        return self._readers.read(revision.read_schema)

    def lacks_history_partitions(self) -> bool:
        """Return whether the partition of today or tomorrow is missing, or a default partition has rows."""
        return partitions.are_missing(self._changes)

    def create_history_partitions(self, days_ahead: int) -> None:
        """Create the missing partitions of today and the days ahead."""
        partitions.create_ahead(self._changes, days_ahead)

    # -- changes and archived offsets ---------------------------------------------------------------------

    def change(self, change_id: str) -> RecordedChange | None:
        """Return one change, or None if it does not exist."""
        return self._readers.read(partial(changes.find_change, change_id=change_id))

    def archived_offsets(
        self, change_id: str, group_id: str, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[ArchivedOffset]:
        """Return a group's offsets that a change archived, by topic and partition."""
        find = partial(changes.archived_offsets, change_id=change_id, group_id=group_id, partitions=partitions)
        return self._readers.read(find)

    # -- log ends -----------------------------------------------------------------------------------------

    def report_log_ends(self, reports: Sequence[LogEndReport], deletions: int) -> bool:
        """Store log ends from trusted reporters; a log end never decreases."""
        return self._changes.transact(partial(log_ends.report_log_ends, reports=reports, deletions=deletions))

    def delete_log_ends(self, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
        """Delete the log end of a partition, or of all partitions of a topic."""
        return self._changes.transact(
            partial(settings_and_topics.delete_log_ends, topic=topic, partition=partition, change=change)
        )

    def log_ends(self, topics: Sequence[str]) -> dict[tuple[str, int], LogEnd]:
        """Return the highest reported log end by topic and partition, with the time of its last report."""
        return self._readers.read(partial(log_ends.read_log_ends, topics=topics))

    # -- settings and topic metadata ---------------------------------------------------------------------------

    def versions(self) -> Versions:
        """Return how often each table of settings and topic metadata was changed."""
        return self._readers.read(leases.read_versions)

    def unconfirmed_nodes(self, cluster_configs: int) -> list[str]:
        """Return the nodes that have not confirmed a version of the cluster's settings, sorted."""
        return self._readers.read(partial(leases.read_unconfirmed_nodes, cluster_configs=cluster_configs))

    def topics(self) -> list[TopicRow]:
        """Return the topic metadata, by topic."""
        return self._readers.read(settings_and_topics.read_topics)

    def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow) -> TopicRow:
        """Add a topic, or raise its number of partitions; ValueError if it has more."""
        put = partial(
            settings_and_topics.put_topic,
            topic=topic,
            partitions=partitions,
            log_start_offset=log_start_offset,
            change=change,
        )
        return self._changes.transact(put)

    def delete_topic(self, topic: str, change: ChangeRow) -> ChangeRow | None:
        """Delete a topic, and start a run that archives its offsets."""
        return self._changes.transact(partial(settings_and_topics.delete_topic, topic=topic, change=change))

    def settings(self) -> StoredSettings:
        """Return every stored setting."""
        return self._readers.read(settings_and_topics.read_settings)

    def put_settings(self, group_id: str | None, values: Mapping[str, str | None], change: ChangeRow) -> None:
        """Set or (None) unset settings of a group, or of the cluster."""
        put = partial(settings_and_topics.put_settings, group_id=group_id, values=values, change=change)
        self._changes.transact(put)

    def undo_settings(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Undo a change of settings, for the keys that were not set again since."""
        return self._changes.transact(partial(settings_and_topics.undo_settings, change_id=change_id, change=change))

    # -- maintenance --------------------------------------------------------------------------------------

    def begin_undo(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Start a run that restores what a change archived."""
        return self._changes.transact(partial(settings_and_topics.begin_undo, change_id=change_id, change=change))

    def begin_apply(self, run_id: str, change: ChangeRow, candidates: int | None = None) -> RunRow:
        """Mark a proposed run as applying, and record the change, unless its number of candidates has changed."""
        begin = partial(maintenance.begin_apply, run_id=run_id, change=change, candidates=candidates)
        return self._changes.transact(begin)

    def reject(self, run_id: str, change: ChangeRow) -> RunRow:
        """Mark a proposed run as rejected, and record the change."""
        return self._changes.transact(partial(maintenance.reject, run_id=run_id, change=change))

    def next_candidates(
        self,
        shard_ids: Iterable[int],
        limit: int,
        without_groups: Sequence[str] = (),
        without_runs: Sequence[str] = (),
    ) -> list[CandidateRow]:
        """Return at most `limit` undecided candidates of applying runs in these shards, by run and group."""
        wanted = list(shard_ids)
        read = partial(
            maintenance.next_candidates,
            shard_ids=wanted,
            limit=limit,
            without_groups=without_groups,
            without_runs=without_runs,
        )
        return self._readers.read(read)

    def expire_proposals(self, ttl_hours: int, actor: str) -> list[str]:
        """Reject runs that were proposed longer ago than this, and record the changes; return their ids."""
        return self._changes.transact(partial(rejections.expire_proposals, ttl_hours=ttl_hours, actor=actor))

    def seal_changes(self) -> SealedMinute | None:
        """Seal the changes that are not sealed; None if there are none, or this minute has its seal."""
        return self._changes.transact(seals.seal_changes)

    def finish_runs(self) -> list[str]:
        """Mark every applying run without undecided candidates as applied; return their ids."""
        return self._changes.transact(maintenance.finish_runs)

    def drop_archived(self, has_copy: HasCopy) -> DroppedDay | None:
        """Decide about one day of history of an applying run; None if none is undecided."""
        return self._changes.transact(partial(archive.drop_next, has_copy=has_copy))
