"""A store is where decisions become durable; every implementation passes `tests/integration/postgres/store`.

Rules that every store keeps:

* A write proves the lease first: shards whose (node, epoch) do not match leave the batch, the others go on.
* It proves the database's identity as well (incarnations.py): of another database no shard matches.
* A `GroupWrite` is stored whole or not at all, and in the order decided.
* The store is synchronous. The runtime calls it on its writer, lease and reader threads, never on the loop; every
  method may be called from any thread.
* Its clock is the database's; callers never compare it with their own.

Errors: `StoreUnavailable` when nothing was stored and the same call may work later; `OutcomeUnknown` when the
connection was lost while committing, and nobody can tell.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

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


class StoreError(Exception):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError):
    """Nothing was stored; the same call may work later."""


class OutcomeUnknown(StoreError):
    """The connection was lost while committing. Never repeat the write: load the shard again under a new epoch."""


class RunNotFound(StoreError):
    """There is no maintenance run with this id."""


class NotUndoable(StoreError):
    """The change cannot be taken back, and the text says why."""


class Store(Protocol):
    """Everything the runtime needs of a database."""

    # -- writes ---------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> Written:
        """Store a batch in one transaction, or say which shards and groups of it are not stored.

        A deadlock or serialization failure is repeated inside; a data error makes the batch be repeated group by
        group, so that only the failing group is refused.
        """
        ...

    def prepare(self, batch: Batch) -> Callable[[], Written]:
        """Do what of a write needs no database, and return the rest of it: `prepare(batch)()` is `write(batch)`.

        It may run while another batch is written. The rest rests on nothing that such a write may change.
        """
        ...

    # -- ownership ------------------------------------------------------------------------------------

    def renew(
        self, node_id: str, url: str, version: str, epochs: Mapping[int, int], ttl_ms: int, renewals: int = 0
    ) -> Renewal:
        """Renew the node's row and all its leases at once, by the database's clock, matching the epochs.

        Where the database is not the one that the stored identity names, a new incarnation is started first.

        Args:
            node_id: the node.
            url: where it is reached.
            version: of its program.
            epochs: shard → the epoch of its lease.
            ttl_ms: how long the leases run.
            renewals: how many the node remembers; where its row is missing the count goes on from there.
        """
        ...

    def start_incarnation(self, known: int, actor: str, reason: str) -> Incarnation:
        """Start an incarnation in place of the known one; do nothing where that is over already.

        Every lease ends, epochs, commit versions and the generations of all groups jump, and every group with members
        is to rebalance. A row of `changes` records it.

        Returns:
            The incarnation that there is now.
        """
        ...

    def incarnation(self) -> Incarnation:
        """Return the incarnation that is stored."""
        ...

    def take_over(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Take every one of these shards that is free, expired or already ours; wait for writes under way.

        Where the database is not the one that the stored identity names, a new incarnation is started first.

        Returns:
            Shard → its new epoch, for those that were taken.
        """
        ...

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Give these shards up, where they are still ours, so that anybody can take them at once."""
        ...

    def retire_node(self, node_id: str) -> None:
        """Take the node's own row away: it stops."""
        ...

    def forget_nodes(self, gone_for_ms: int) -> None:
        """Take the rows of nodes away that were lost so long ago: nobody retired them."""
        ...

    def leases(self) -> tuple[LeaseRow, ...]:
        """Return every lease, by shard."""
        ...

    def shard_count(self) -> int:
        """Return how many shards the database was made for."""
        ...

    # -- reads ----------------------------------------------------------------------------------------

    def load_shards(self, shard_ids: Iterable[int]) -> list[StoredGroup | UnreadableGroup]:
        """Return every group of these shards with its members. Offsets stay where they are.

        Rows that cannot be read make their own group unreadable and no other.
        """
        ...

    def load_group(self, group_id: str) -> StoredGroup | UnreadableGroup | None:
        """Return one group with its members, or None if it has no rows."""
        ...

    def fetch_offsets(self, group_id: str, topics: Sequence[str] | None = None) -> list[FetchedOffset]:
        """Return committed offsets by topic and partition; of all topics where none is named."""
        ...

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        """Return offsets as a decision needs them; all of the group's where no partition is named."""
        ...

    def has_offsets(self, group_id: str) -> bool:
        """Tell whether the group has any offset left."""
        ...

    def list_groups(self, which: GroupFilter) -> list[ListedGroup]:
        """Return at most `limit` groups by id, after `after`. Dead ones, from history, only if asked for."""
        ...

    def overview(self, which: OverviewFilter) -> Overview:
        """Return at most `limit` groups that live in the order asked for, and how many there are in each state."""
        ...

    def was_seen(self, group_id: str) -> bool:
        """Tell whether history knows the group."""
        ...

    def schema(self) -> str | None:
        """Return the revision of the database's schema, as the migrations number it; None where it has none."""
        ...

    def lacks_history_partitions(self) -> bool:
        """Tell whether a day ahead has no partition of its own, or rows have fallen into a default partition."""
        ...

    def create_history_partitions(self, days_ahead: int) -> None:
        """Create the partitions of today and the days ahead, where they are missing."""
        ...

    # -- changes, and what they took ----------------------------------------------------------------------

    def change(self, change_id: str) -> RecordedChange | None:
        """Return one change, or None if there is none."""
        ...

    def changes(self, which: ChangeFilter) -> list[RecordedChange]:
        """Return at most `limit` changes, the newest first; of one instant, the one with the greater id first."""
        ...

    def archived_offsets(
        self, change_id: str, group_id: str, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[ArchivedOffset]:
        """Return what a change took from a group, by topic and partition; from all where no partition is named."""
        ...

    # -- ends of logs -------------------------------------------------------------------------------------

    def report_log_ends(self, reports: Sequence[LogEndReport], deletions: int) -> bool:
        """Store ends that trusted reporters named, no partition twice; an end never falls.

        A report of the stored end, or of a further one, renews the instant of the last report. What an earlier minute
        ended with goes to history.

        Args:
            reports: the ends.
            deletions: `Versions.log_end_deletions` as it was known before the first of them was reported.

        Returns:
            Whether they were stored; False: ends were deleted since, so some of these may be of deleted logs.
        """
        ...

    def delete_log_ends(self, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
        """Delete what is known of the end of a partition's log, or of all of a topic's, and their history with it.

        Returns:
            The change as it was recorded, its `before` listing the deleted ends.
        """
        ...

    def log_ends(self, topics: Sequence[str]) -> dict[tuple[str, int], LogEnd]:
        """Return the furthest end that trusted reporters named, by topic and partition, and when one did so last."""
        ...

    def past_log_ends(self, stretch: Stretch, limit: int) -> list[PastLogEnd]:
        """Return at most `limit` such ends of the logs that a group has committed, by topic, partition and time.

        The present end of a log is among them if it was reported before the stretch ends.
        """
        ...

    # -- history ------------------------------------------------------------------------------------------

    def knows(self, group_id: str) -> bool:
        """Tell whether there is, or ever was, such a group."""
        ...

    def rebalances(self, group_id: str, after: RebalancePlace | None, limit: int) -> list[ListedRebalance]:
        """Return at most `limit` rebalances after a place, the newest first and the one under way before it."""
        ...

    def rebalance_members(self, group_id: str, rebalance_id: str) -> list[RebalanceMemberRow]:
        """Return everybody's part in a rebalance that is over; who was waited for longest comes first, then by id."""
        ...

    def rebalance_waits(self, question: WaitQuestion, limit: int) -> list[RebalanceWait]:
        """Return at most `limit` waits, the longest first, then by rebalance and member."""
        ...

    def stays(self, which: StayFilter, after: StayPlace | None, limit: int) -> list[ListedStay]:
        """Return at most `limit` stays after a place, the newest first, then by member id backwards."""
        ...

    def transitions(self, group_id: str, after: TransitionPlace | None, limit: int) -> list[TransitionRow]:
        """Return at most `limit` changes of the group's state after a place, the newest first."""
        ...

    def tuning(self, question: TuningQuestion) -> TuningPast:
        """Return what a group's past tells of its timeouts, and the newest advice that a job has written down."""
        ...

    def ownership(self, moment: Moment) -> list[OwnedSpan]:
        """Return who held which partitions at a moment, by topic, first partition and member."""
        ...

    def group_positions(
        self, shard_ids: Iterable[int], fresh_since_ms: int, *, by_partition: bool
    ) -> list[GroupPosition]:
        """Return what the groups of these shards have committed, added up by topic or partition, in order.

        An end of a log that was last reported before `fresh_since_ms` is stale.
        """
        ...

    def expiring(self, shard_ids: Iterable[int]) -> ExpiryForecast | None:
        """Return what will expire of the groups of these shards; None where no run has ever looked."""
        ...

    def reports(self, which: ReportFilter) -> list[Report]:
        """Return at most `limit` reports by group, after `after`: the newest of each group, with its parts."""
        ...

    def positions(self, moment: Moment) -> list[PositionThen]:
        """Return what was committed as of a moment, by topic and partition.

        History keeps a position a minute and partition, so of several commits within a past minute it knows the last.
        """
        ...

    def held_positions(self, group_id: str, since_ms: int) -> GroupPositions:
        """Return where a group stands, partition by partition; ends reported before `since_ms` are not looked at."""
        ...

    def lagging_positions(self, shard_ids: Iterable[int], since_ms: int) -> list[LaggingPosition]:
        """Return which offsets of these shards' groups are behind, in order; older ends are not looked at."""
        ...

    def past_positions(self, stretch: Stretch, limit: int) -> list[PastPosition]:
        """Return at most `limit` of a group's positions over time, by topic, partition and time.

        Where the stretch begins, the position of a partition that still has one is told even if it is older.
        """
        ...

    # -- settings and catalogue ---------------------------------------------------------------------------

    def versions(self) -> Versions:
        """Return how often each small table was changed."""
        ...

    def topics(self) -> list[TopicRow]:
        """Return the catalogue, by topic."""
        ...

    def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow) -> TopicRow:
        """Put a topic into the catalogue, or raise its count. `log_start_offset` None leaves it (0 when new).

        The change's `before` and `after` are filled in by the store. A version is drawn only if the count changed.

        Raises:
            ValueError: the count would fall; nothing is stored.
        """
        ...

    def delete_topic(self, topic: str, change: ChangeRow) -> ChangeRow | None:
        """Take a topic out of the catalogue, and begin a run, under the change's id, that archives its offsets.

        What is known of the ends of its logs is deleted.

        Returns:
            The change as it was noted, its `after` naming the run; None if the catalogue has no such topic.
        """
        ...

    def settings(self) -> StoredSettings:
        """Return every stored setting."""
        ...

    def setting_origins(self, group_id: str) -> dict[str, SettingOrigin]:
        """Return by whom and when each setting was set that the group or, less narrowly, the cluster has stored."""
        ...

    def put_settings(self, group_id: str | None, values: Mapping[str, str | None], change: ChangeRow) -> None:
        """Set or (None) unset settings of a group, or of the cluster; the store fills in before and after."""
        ...

    def undo_settings(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Take a change of settings back, key by key, where what it set still stands; return the undo as noted.

        Raises:
            NotUndoable: it was undone already.
        """
        ...

    # -- maintenance --------------------------------------------------------------------------------------

    def begin_undo(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Begin a run, under the undo's id, that takes back what a change archived; a deleted topic returns at once.

        Returns:
            The undo as it was noted, its `after` naming the run.

        Raises:
            NotUndoable: it was undone already, or is still under way.
        """
        ...

    def runs(self, limit: int = 100) -> list[RunRow]:
        """Return the newest runs first."""
        ...

    def run(self, run_id: str) -> RunRow:
        """Return one run, its counts by outcome included.

        Raises:
            RunNotFound: there is none.
        """
        ...

    def run_candidates(self, run_id: str, after: CandidatePlace | None, limit: int) -> list[ListedCandidate]:
        """Return at most `limit` candidates of a run after a place, by group, topic and partition.

        Raises:
            RunNotFound: there is none.
        """
        ...

    def run_days(self, run_id: str) -> list[ListedDay]:
        """Return the days of history that a run names, the oldest first.

        Raises:
            RunNotFound: there is no such run.
        """
        ...

    def begin_apply(self, run_id: str, change: ChangeRow, candidates: int | None = None) -> RunRow:
        """Mark a proposed run as applying, and note the change; a run that is further already stays as it is.

        Whoever has it applied once more is noted too, but not who comes too late because it was rejected. The first
        change's id becomes the run's: whatever the run takes is archived under it.

        Args:
            run_id: which.
            change: who has it applied, and why.
            candidates: as many as whoever asks has seen; where the run's `counts` say otherwise, because it was
                proposed anew since, it stays proposed and nothing is noted. None: however many there are.

        Raises:
            RunNotFound: there is none.
        """
        ...

    def reject(self, run_id: str, change: ChangeRow) -> RunRow:
        """Mark a proposed run as rejected, and note the change, as above; one that is further stays as it is.

        Raises:
            RunNotFound: there is none.
        """
        ...

    def newest_runs(self) -> dict[str, int]:
        """Return as of when each job last ran, in milliseconds by the job's name; one that never did is missing."""
        ...

    def next_candidates(self, shard_ids: Iterable[int], limit: int, without: Sequence[str] = ()) -> list[CandidateRow]:
        """Return at most `limit` undecided candidates of applying runs in these shards, by run and group.

        Candidates of the groups in `without` are left out.
        """
        ...

    def finish_runs(self) -> list[str]:
        """Mark every applying run that has no undecided candidate as applied, and return their ids."""
        ...

    def drop_archived(self, has_copy: HasCopy) -> DroppedDay | None:
        """Decide about one day of history that an applying run names, and drop it if it is what was copied.

        Args:
            has_copy: Returns whether the copy that the run names is there; a day without one stays.

        Returns:
            The day and its outcome; None if no day is left that nobody else decides about just now.
        """
        ...

    def close(self) -> None:
        """Close every connection."""
        ...
