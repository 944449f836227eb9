"""The interface of stores; every implementation passes the tests in `tests/integration/postgres/state_store`.

`RuntimeStore` is what the runtime needs. Operations of operators and mirrors, which run on a node, need more; questions
are in `queries`.

Rules for every store:

* A write checks the leases first. Writes to shards whose (node, epoch) do not match are dropped, the others are stored.
* A write also checks the identity of the database (incarnations.py). In another database no shard matches.
* A `GroupWrite` is stored whole or not at all. Writes are stored in the order of the decisions.
* The store is synchronous and thread-safe. The runtime calls it on its writer, lease and reader threads, never on the
  event loop.
* Leases expire by the clock of the database. Callers never compare it with their own clock.

Errors: `StoreUnavailable` if nothing was stored and the same call may succeed later; `OutcomeUnknown` if the connection
was lost during COMMIT.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.state_store.log_ends import LogEndReport
from coordinator_core.state_store.partition_drop import DroppedDay, HasCopy
from coordinator_core.state_store.rows import (
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


class StoreError(Exception):
    """A call of the store failed; the text is the database's, for the log. Clients get the `summary`."""

    summary: ClassVar[str] = "the database refused it"


class StoreUnavailable(StoreError):
    """Nothing was stored; the same call may succeed later."""

    summary = "the database cannot be reached, or did not answer in time"


class OutcomeUnknown(StoreError):
    """The outcome of COMMIT is unknown. Do not repeat the write: load the shard again under a new epoch."""

    summary = "the connection to the database was lost"


class RolledBack(StoreUnavailable):
    """The database holds less than the node remembers, without a new incarnation."""

    summary = "the database was rolled back"

    def __init__(self, incarnation: int) -> None:
        super().__init__(f"{self.summary}, to incarnation {incarnation}")
        self.incarnation = incarnation
        """The number of the incarnation that is to be replaced."""


class RunNotFound(StoreError):
    """There is no maintenance run with this id."""


class NotUndoable(StoreError):
    """The change cannot be undone; the text is the reason."""


class RuntimeStore(Protocol):
    """What the runtime needs of a database."""

    # -- writes, and the offset log ---------------------------------------------------------------------

    def write(self, batch: Batch) -> WriteResult:
        """Store a batch in one transaction; return the shards and groups that were not stored.

        Commits of members go to the offset log, and reach the table `offsets` with a checkpoint.

        The store itself repeats the transaction after a deadlock or serialization failure. After a data error it
        isolates the failing groups, and refuses only those.
        """
        ...

    def checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        """Store the dirty offsets of shards in the table `offsets`, in one transaction that checks the leases.

        A stored offset with the same or a greater commit version stays. Rows of the log that no shard needs any more
        are deleted.
        """
        ...

    def load_offset_log(self, shard_ids: Collection[int]) -> dict[int, ShardLog]:
        """Return the commits of each shard that no checkpoint has passed, after its lease was acquired."""
        ...

    # -- ownership --------------------------------------------------------------------------------------

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
        """Renew the node's row and its leases with matching epochs, by the clock of the database.

        Starts a new incarnation first if the database does not match the stored identity.

        Args:
            node_id: the node.
            listeners: the addresses of its listeners, by name.
            version: its version of Muster.
            epochs: shard → the epoch of its lease.
            ttl_ms: how long the leases last.
            last: the node's last renewal; the count of renewals starts from it if the node has no row.
            cluster_configs: `Versions.cluster_configs` that the node has applied.

        Raises:
            RolledBack: the database was rolled back since the last renewal. Nothing is stored, also no write of the
                node, until a new incarnation was started.
        """
        ...

    def start_incarnation(self, known: int, actor: str, reason: str) -> Incarnation:
        """Start a new incarnation, unless the stored one is no longer the known one.

        Ends every lease, raises epochs, commit versions and the generations of all groups, and makes every group with
        members rebalance. A row of `changes` records it.

        Args:
            known: number of the incarnation that is to be replaced.
            actor: the node or user that starts it.
            reason: for the audit log.

        Returns:
            The current incarnation.
        """
        ...

    def incarnation(self) -> Incarnation:
        """Return the current incarnation."""
        ...

    def acquire_leases(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Acquire the leases of these shards that are free, expired or already ours; wait for writes in progress.

        Starts a new incarnation first if the database does not match the stored identity.

        Returns:
            Shard → its new epoch, for the acquired ones.
        """
        ...

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Release the leases of these shards that are still ours."""
        ...

    def delete_node(self, node_id: str) -> None:
        """Delete the node's own row when it stops."""
        ...

    def delete_lost_nodes(self, lost_for_ms: int) -> None:
        """Delete the rows of nodes that expired at least so long ago."""
        ...

    def shard_count(self) -> int:
        """Return the number of shards of the database."""
        ...

    # -- groups and offsets -----------------------------------------------------------------------------

    def load_shards(self, shard_ids: Collection[int]) -> list[StoredGroup | UnreadableGroup]:
        """Return every group of these shards with its members, without offsets.

        A group with rows that cannot be loaded is returned as unreadable; other groups are not affected.
        """
        ...

    def load_group(self, group_id: str) -> StoredGroup | UnreadableGroup | None:
        """Return one group with its members, or None if it has no rows."""
        ...

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
        ...

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        """Return offsets in the form that a decision needs; None: of all partitions."""
        ...

    def has_offsets(self, group_id: str) -> bool:
        """Return whether the group has any offset."""
        ...

    def count_offsets(self, group_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of offsets of each group that has any."""
        ...

    def report_log_ends(self, reports: Sequence[LogEndReport], deletions: int) -> bool:
        """Store log ends from trusted reporters. A log end never decreases.

        A report of the stored log end, or of a higher one, updates the time of the last report. The last log end of an
        earlier minute is added to history.

        Args:
            reports: the log ends, at most one per partition.
            deletions: `Versions.log_end_deletions` from before the first report.

        Returns:
            Whether they were stored; False: log ends were deleted since, so some reports may be of deleted logs.
        """
        ...

    def log_ends(self, topics: Sequence[str]) -> dict[tuple[str, int], LogEnd]:
        """Return the highest reported log end by topic and partition, with the time of its last report."""
        ...

    # -- the schema and its partitions ------------------------------------------------------------------

    def schema(self) -> SchemaRevision | None:
        """Return the schema's revision; None if no migration was run."""
        ...

    def lacks_history_partitions(self) -> bool:
        """Return whether the partition of today or tomorrow is missing, or a default partition has rows."""
        ...

    def create_history_partitions(self, days_ahead: int) -> None:
        """Create the missing partitions of today and the days ahead."""
        ...

    # -- settings and topic metadata --------------------------------------------------------------------

    def versions(self) -> Versions:
        """Return how often each table of settings and topic metadata was changed."""
        ...

    def unconfirmed_nodes(self, cluster_configs: int) -> list[str]:
        """Return the nodes that have not confirmed a version of the cluster's settings, sorted.

        Expired nodes count while they are the last owner of a shard: they may renew and serve again.
        """
        ...

    def topics(self) -> list[TopicRow]:
        """Return the topic metadata, by topic."""
        ...

    def settings(self) -> StoredSettings:
        """Return every stored setting."""
        ...

    # -- maintenance ------------------------------------------------------------------------------------

    def next_candidates(
        self,
        shard_ids: Collection[int],
        limit: int,
        without_groups: Sequence[str] = (),
        without_runs: Sequence[str] = (),
    ) -> list[CandidateRow]:
        """Return at most `limit` undecided candidates of applying runs in these shards, by run and group.

        Candidates of the groups in `without_groups` and of the runs in `without_runs` are left out.
        """
        ...

    def archived_offsets(
        self, change_id: str, group_id: str, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[ArchivedOffset]:
        """Return a group's offsets that a change archived, by topic and partition; None: of all partitions."""
        ...

    def expire_proposals(self, ttl_hours: int, actor: str) -> list[str]:
        """Reject runs that were proposed longer ago than this, and record the changes; return their ids, sorted."""
        ...

    def finish_runs(self) -> list[str]:
        """Mark every applying run without undecided candidates as applied; return their ids."""
        ...

    def drop_archived(self, has_copy: HasCopy) -> DroppedDay | None:
        """Decide about one day of history of an applying run; drop it if its rows are those that were copied.

        Args:
            has_copy: returns whether the run's copy exists; a day without a copy is kept.

        Returns:
            The day and its outcome; None if no day is undecided, apart from those that other nodes are deciding.
        """
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


class AdminStore(Protocol):
    """What the operations of operators need beyond that, `coordinator_core/admin`."""

    def change(self, change_id: str) -> RecordedChange | None:
        """Return one change, or None if it does not exist."""
        ...

    def undone_changes(self, group_id: str) -> list[RecordedChange]:
        """Return the changes of a group that were undone."""
        ...

    def delete_log_ends(self, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
        """Delete the log end of a partition, or of all partitions of a topic (None), and its history.

        Returns:
            The recorded change; its `before` lists the deleted log ends.
        """
        ...

    def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow) -> TopicRow:
        """Add a topic to the topic metadata, or raise its number of partitions.

        The store fills in the change's `before` and `after`. The version is raised only if the number changed.

        Args:
            topic: the topic.
            partitions: its number of partitions.
            log_start_offset: its log start offset; None: unchanged, 0 for a new topic.
            change: for the audit log.

        Raises:
            ValueError: the topic has more partitions; nothing is stored.
        """
        ...

    def delete_topic(self, topic: str, change: ChangeRow) -> ChangeRow | None:
        """Delete a topic and its log ends, and start a run, under the change's id, that archives its offsets.

        Returns:
            The recorded change, whose `after` names the run; None if the topic does not exist.
        """
        ...

    def put_settings(
        self,
        group_id: str | None,
        values: Mapping[str, str | None],
        change: ChangeRow,
        checked: Versions | None = None,
    ) -> bool:
        """Set or (None) unset settings of a group, or of the cluster (None); the store fills in before and after.

        Args:
            group_id: the group.
            values: key → its value.
            change: for the audit log.
            checked: the versions of the settings with which the values were checked; None: they were not.

        Returns:
            Whether it is stored; not if there is a change of that id, or since `checked` the cluster's settings have
            changed, or, for a change of them, those of a group.
        """
        ...

    def restorable_settings(self, undone: ChangeRow) -> dict[str, str | None]:
        """Return the values that an undo of a change of settings would restore."""
        ...

    def undo_settings(self, change_id: str, change: ChangeRow, checked: Versions | None = None) -> ChangeRow | None:
        """Undo a change of settings, for the keys that were not set again since.

        Returns:
            The recorded undo; None: settings have changed since `checked`, of which `put_settings` says which.

        Raises:
            NotUndoable: it was undone already.
        """
        ...

    def begin_undo(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Start a run, under the undo's id, that restores what a change archived; restore a deleted topic immediately.

        Returns:
            The recorded undo, whose `after` names the run.

        Raises:
            NotUndoable: it was undone already, or is still in progress.
        """
        ...

    def begin_apply(self, run_id: str, change: ChangeRow, candidates: int | None = None) -> RunRow:
        """Mark a proposed run as applying, and record the change.

        A run that is applying or applied already keeps its status, and the change is recorded. A rejected run keeps its
        status, and nothing is recorded. The run archives offsets under the id of the first change.

        Args:
            run_id: the run.
            change: for the audit log.
            candidates: the number of candidates that the caller has seen. If the run has another number, because it
                was proposed again, it stays proposed and nothing is recorded. None: any number.

        Raises:
            RunNotFound: it does not exist.
        """
        ...

    def reject(self, run_id: str, change: ChangeRow) -> RunRow:
        """Mark a proposed run as rejected, and record the change; a run with another status keeps it.

        Raises:
            RunNotFound: it does not exist.
        """
        ...

    def seal_changes(self) -> SealedMinute | None:
        """Seal the changes that are not sealed; None if there are none, or this minute has its seal."""
        ...


class MirrorStore(Protocol):
    """What a mirror needs beyond that."""

    def mirror_of(self, cluster_id: str, source: str = "topic") -> str | None:
        """Make the database a mirror of a cluster, if it has neither groups nor members nor offsets yet.

        Args:
            cluster_id: the id of the cluster.
            source: `topic` or `poll`; it is kept, as positions in the log are not comparable with counted ones.

        Returns:
            The id of the cluster that it mirrors; None: nodes coordinate its groups.
        """
        ...

    def mirrored_cluster(self) -> str | None:
        """Return the id of the Kafka cluster that the database mirrors; None: nodes coordinate its groups."""
        ...

    def mirror_source(self) -> str | None:
        """Return the source that the database was made with; None: nodes coordinate its groups."""
        ...

    def observe_topics(self, partitions: Mapping[str, int]) -> None:
        """Take the numbers of partitions of a mirrored cluster's topics into the topic metadata, without changes rows.

        The version is raised only if a number is new.

        Args:
            partitions: topic → its number of partitions.
        """
        ...

    def forget_topics(self, deleted: Sequence[str]) -> None:
        """Delete the metadata and log ends of topics that a mirrored cluster no longer has, without changes rows.

        Versions are raised only if one of them has metadata.

        Args:
            deleted: the topics.
        """
        ...

    def forget_log_ends(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Delete log ends of a mirrored cluster that are too high, and raise `Versions.log_end_deletions`.

        Args:
            partitions: topics and partitions.
        """
        ...

    def committed_topics(self, shard_id: int) -> list[str]:
        """Return the topics in which the groups of a shard have committed offsets, sorted."""
        ...

    def store_other_groups(self, shard_id: int, epoch: int, groups: Sequence[OtherGroup]) -> None:
        """Replace a shard's share and streams groups; do nothing if its lease has another epoch.

        Args:
            shard_id: the shard.
            epoch: the epoch of its lease under which the groups were read.
            groups: all of them.
        """
        ...

    def mirror_position(self, shard_id: int) -> MirrorPosition | None:
        """Return how far a shard has read its log, with its last checkpoint; None: it has read nothing yet."""
        ...


class Store(RuntimeStore, AdminStore, MirrorStore, Protocol):
    """What a database stores."""
