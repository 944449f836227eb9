"""The ledger: derives the history rows of a group from its records.

The ledger knows the rebalance in progress and which member owns which partitions since when. It emits a row when what
the row describes is over; the row is stored in the transaction of the record that ended it (tables.md).

* A *rebalance* lasts from its first join phase until the group is Stable or Empty, or until a failover abandons it. A
  return to the join phase before that is part of the same rebalance, counted in `restarts`.
* A time of *ownership* ends when the partition gets another owner or its owner leaves. Partitions that stay with their
  member continue the same ownership.
* A *member session* (member_sessions.py) starts with the first join or a failover, and ends with the membership. The
  *rebalance members* (rebalance_members.py) are the members' parts in the rebalance in progress.

Volatile records change the ledger too, but emit no rows: this state is lost with the node.
"""

import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, NamedTuple

from msgspec import Struct

from coordinator_core.protocol.consumer_protocol import partitions_of
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    GroupFound,
    InitialDelayExtended,
    JoinParked,
    MemberJoined,
    MemberMoved,
    MemberRemoved,
    MemberReplaced,
    MemberUpdated,
    OffsetRecord,
    PendingMemberAdded,
    PendingMemberRemoved,
    PhaseTimeoutReset,
    RebalanceStarted,
    Record,
    RemovalReason,
    StateObserved,
    SyncParked,
    SyncReceived,
    Trigger,
    TriggerInferred,
    VolatileRecord,
)
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState
from coordinator_core.state_store.awaited import AwaitedMembers
from coordinator_core.state_store.column_types import Count, InstantMs, UuidText
from coordinator_core.state_store.member_sessions import INTERVAL_MS, NEXT_HEARTBEAT, NEXT_TIMER_START, MemberSession
from coordinator_core.state_store.rebalance_members import Outcome, RebalanceMembers
from coordinator_core.state_store.row_checks import read_json
from coordinator_core.state_store.rows import (
    Json,
    MemberRow,
    MemberSessionRow,
    PartitionOwnershipRow,
    RebalanceMemberRow,
    RebalanceRow,
    TransitionRow,
)

ONGOING: Final = "hour"
"""The `end_reason` of a row whose session continues."""
REPLACED: Final = "replaced"
"""The `end_reason` of a static member whose instance id another process uses now."""

_OUTCOMES: Final[dict[RemovalReason, Outcome]] = {
    RemovalReason.LEFT: "left",
    RemovalReason.LEFT_OR_EXPIRED: "left_or_expired",
}
Unrecorded = PendingMemberAdded | PendingMemberRemoved | InitialDelayExtended | PhaseTimeoutReset | OffsetRecord
"""Records without effect on history; offsets have a history of their own."""
Partitions = dict[str, set[int]]
"""Topic → partitions of it."""


class OpenOwnership(NamedTuple):
    """Partitions of one topic that a member owns, and since when."""

    topic: str
    partitions: tuple[int, ...]
    since_ms: int
    generation: int
    rebalance_id: str


@dataclass(frozen=True, slots=True)
class OpenRebalance:
    """A rebalance in progress."""

    rebalance_id: UuidText
    trigger: Trigger
    trigger_member_id: str | None
    client_reason: str | None
    started_at_ms: InstantMs
    member_count_before: Count
    joined_at_ms: InstantMs | None = None
    restarts: Count = 0
    is_start_inferred: bool = False


class RebalanceSnapshotJson(Struct):
    """The column `groups.rebalance`, without the rebalance members."""

    in_progress: OpenRebalance | None
    last_owners: list[tuple[str, int, str]]


class OpenOwnershipJson(Struct):
    """One element of the column `members.ownership`."""

    topic: str
    partitions: list[int]
    since_ms: InstantMs
    generation: Count
    rebalance_id: UuidText


@dataclass(slots=True)
class HistoryRows:
    """Rows that the ledger has emitted."""

    transitions: list[TransitionRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    ownerships: list[PartitionOwnershipRow] = field(default_factory=list)
    rebalance_members: Collection[RebalanceMemberRow] = ()
    sessions: list[MemberSessionRow] = field(default_factory=list)


class Ledger:
    """The history of one group in progress, and its rows that are not stored yet."""

    def __init__(self, group_id: str, shard_id: int, epoch: int = 0, *, is_mirrored: bool = False) -> None:
        """Start the ledger of a new group.

        Args:
            group_id: the group.
            shard_id: the group's shard.
            epoch: epoch of the shard's lease; no two nodes have the same.
            is_mirrored: whether the records are inferred from the log of a mirrored cluster, which has no heartbeats,
                joins and syncs: what is measured with them is None in the rows.
        """
        self.group_id = group_id
        self.shard_id = shard_id
        self._epoch = epoch
        self._started = 0
        """How many rebalances have started under this epoch."""
        self.is_mirrored = is_mirrored
        self.created_at_ms = 0
        self.state: GroupState | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.is_consumer = False
        """Whether assignments can be decoded; those of other protocol types are opaque."""
        self.member_count = 0
        """Members of the last generation that was assigned."""
        self.in_progress: OpenRebalance | None = None
        self.ownership: dict[str, tuple[OpenOwnership, ...]] = {}
        self.last_owners: dict[tuple[str, int], str] = {}
        """(topic, partition) → its last owner, if the partition has no new owner yet.

        The owner left since the last assignment, or that assignment took the partition from it: cooperative assignors
        do so a generation before they give it to another member.
        """
        self.sessions: dict[str, MemberSession] = {}
        """Member id → session, of all members, including new ones."""
        self.awaited: AwaitedMembers | None = None
        """The value of `groups.awaited_members`, after the writes in progress."""
        self._rebalance_members = RebalanceMembers()
        self._rows = HistoryRows()

    def observe(self, record: Record) -> None:
        """Apply a record; records of offsets have no effect."""
        match record:
            case GroupCreated():
                self.created_at_ms = record.at_ms
                self._enter(EMPTY, record.at_ms, "created", None)
            case GroupFound():
                self._group_found(record)
            case RebalanceStarted():
                self._rebalance_started(record)
            case TriggerInferred():
                self._trigger_inferred(record)
            case StateObserved():
                self._enter(record.state, record.at_ms, "seen by a poll of the mirrored cluster", None)
                if record.state in {EMPTY, STABLE}:
                    self._close_rebalance(record.at_ms, "abandoned", len(self.ownership))
            case GenerationStarted():
                self._generation_started(record)
            case AssignmentAccepted():
                self._assignment_accepted(record)
            case GroupEmptied():
                self.generation = record.generation
                self.member_count = 0
                self.last_owners.clear()
                self._enter(EMPTY, record.at_ms, "no member is left", None)
                self._close_rebalance(record.at_ms, "emptied", 0)
            case MemberRemoved():
                self._member_removed(record)
            case MemberReplaced():
                self._member_replaced(record)
            case MemberMoved():
                session = self.sessions[record.member_id]
                session.client_id, session.client_host = record.client_id, record.client_host
            case GroupDied():
                self._enter(DEAD, record.at_ms, record.cause, None)
            case _:
                self._observe_volatile(record)

    def _observe_volatile(self, record: VolatileRecord | OffsetRecord) -> None:
        match record:
            case MemberJoined(member=member):
                session = self.sessions[member.member_id] = session_of(member, member.joined_at_ms)
                self._rebalance_members.member_added(member.member_id, session)
            case MemberUpdated():
                if self.is_mirrored:  # Elsewhere the next timer of the session has its timeout.
                    self.sessions[record.member_id].session_timeout_ms = record.session_timeout_ms
            case JoinParked():
                self._discard_gap(record.member_id, until=NEXT_HEARTBEAT)
                self._rebalance_members.member_joined(record.member_id, record.at_ms)
            case SyncParked():
                self._discard_gap(record.member_id, until=NEXT_TIMER_START)
                self._rebalance_members.member_synced(record.member_id, record.at_ms)
            case SyncReceived():
                self._rebalance_members.member_synced(record.member_id, record.at_ms)
            case _:
                _unrecorded: Unrecorded = record  # mypy checks that no other record is left.

    def take_rows(self) -> HistoryRows:
        """Return the rows that were emitted since the last call."""
        rows, self._rows = self._rows, HistoryRows()
        return rows

    def resume(self, state: GroupState, at_ms: int) -> None:
        """Continue after a failover: a join phase in progress was lost, so its rebalance is abandoned."""
        if self.state is PREPARING:
            self._enter(state, at_ms, "the node was lost during a join phase, which is abandoned", None)
        if state is not COMPLETING:
            self._close_rebalance(at_ms, "abandoned", len(self.ownership))
        elif self.leader_id is not None:
            self._rebalance_members.await_leader(self.leader_id, at_ms)

    def _group_found(self, record: GroupFound) -> None:
        """Take the group as it is, without rows: how it came to be so is not known."""
        self.created_at_ms = record.at_ms
        self.state = STABLE if record.members else EMPTY
        self.generation, self.leader_id = record.generation, record.leader_id
        self.member_count = len(record.members)
        self.sessions = {member.member_id: session_of(member, member.joined_at_ms) for member in record.members}
        for member in record.members:
            self._hand_over(member.member_id, self._read(member.assignment), record.at_ms)

    # -- states and rebalances -----------------------------------------------------------------------

    def _enter(self, state: GroupState, at_ms: int, reason: str, member_id: str | None) -> None:
        self._rows.transitions.append(
            TransitionRow(
                self.group_id,
                self.shard_id,
                self.created_at_ms,
                at_ms,
                self.generation,
                self.state,
                state,
                reason,
                member_id,
            )
        )
        self.state = state
        self.awaited = None

    def _rebalance_started(self, record: RebalanceStarted) -> None:
        reason = record.trigger if record.client_reason is None else f"{record.trigger}: {record.client_reason}"
        self._enter(PREPARING, record.at_ms, reason, record.member_id)
        self._rebalance_members.phase_started(record.at_ms, self.sessions)
        if self.in_progress is not None:
            self.in_progress = replace(self.in_progress, restarts=self.in_progress.restarts + 1)
            return
        self._started += 1
        self.in_progress = OpenRebalance(
            rebalance_id=self._rebalance_id(record.at_ms),
            trigger=record.trigger,
            trigger_member_id=record.member_id,
            client_reason=record.client_reason,
            started_at_ms=record.at_ms,
            member_count_before=self.member_count,
            is_start_inferred=record.is_start_inferred,
        )

    def _trigger_inferred(self, record: TriggerInferred) -> None:
        known = self.in_progress
        if known is not None:
            self.in_progress = replace(
                known,
                trigger=record.trigger,
                trigger_member_id=record.member_id,
                started_at_ms=min(known.started_at_ms, record.at_ms),
                is_start_inferred=known.is_start_inferred or record.at_ms < known.started_at_ms,
            )

    def _generation_started(self, record: GenerationStarted) -> None:
        self.generation, self.leader_id = record.generation, record.leader_id
        if self.in_progress is not None:
            self.in_progress = replace(self.in_progress, joined_at_ms=max(record.at_ms, self.in_progress.started_at_ms))
        if self.state is not COMPLETING:
            reason = "all members have joined, or the join phase timed out"
            self._enter(COMPLETING, record.at_ms, reason, record.leader_id)
        self._rebalance_members.phase_ended(record.at_ms, record.leader_id)
        for session in self.sessions.values():
            session.join_phase_ended()

    def _rebalance_id(self, started_at_ms: int) -> str:
        """Return a unique id, derived from the group, its creation, the epoch, the number under it, and the time.

        Generations do not tell rebalances apart: a join phase that a failover abandons raises none, and a mirrored
        group may rebalance again in the generation that it has.
        """
        name = f"{self.group_id}\0{self.created_at_ms}\0{self._started}\0{self._epoch}\0{started_at_ms}"
        return str(uuid.UUID(bytes=hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()))

    def _close_rebalance(self, at_ms: int, outcome: str, member_count_after: int, moved: int = 0) -> None:
        in_progress, self.in_progress = self.in_progress, None
        if in_progress is None:
            return
        # After a failover the time is of another clock, which may be behind; no rebalance ends before it starts.
        latest_known_ms = in_progress.started_at_ms if in_progress.joined_at_ms is None else in_progress.joined_at_ms
        row = RebalanceRow(
            rebalance_id=in_progress.rebalance_id,
            group_id=self.group_id,
            shard_id=self.shard_id,
            group_created_at_ms=self.created_at_ms,
            generation=self.generation,
            trigger=in_progress.trigger,
            trigger_member_id=in_progress.trigger_member_id,
            client_reason=in_progress.client_reason,
            started_at_ms=in_progress.started_at_ms,
            joined_at_ms=in_progress.joined_at_ms,
            completed_at_ms=max(at_ms, latest_known_ms),
            outcome=outcome,
            restarts=in_progress.restarts,
            member_count_before=in_progress.member_count_before,
            member_count_after=member_count_after,
            partitions_moved=moved,
            is_trigger_inferred=self.is_mirrored,
            is_start_inferred=in_progress.is_start_inferred,
        )
        self._rows.rebalances.append(row)
        members = self._rebalance_members.close(row, is_mirrored=self.is_mirrored)
        before = self._rows.rebalance_members
        self._rows.rebalance_members = (*before, *members) if before else members

    # -- ownership ----------------------------------------------------------------------------------------

    def _assignment_accepted(self, record: AssignmentAccepted) -> None:
        given = {member_id: self._read(assignment) for member_id, assignment in record.assignments}
        # Thousands of members may keep what they have.
        changed = {
            member_id: partitions for member_id, partitions in given.items() if not self._has(member_id, partitions)
        }
        moved = self._count_moved(changed) if changed else 0
        self.last_owners = {}
        for member_id, partitions in changed.items():
            self.last_owners |= dict.fromkeys(self._hand_over(member_id, partitions, record.at_ms), member_id)
        if self.last_owners:
            for partitions in changed.values():
                for partition in _each(partitions):
                    self.last_owners.pop(partition, None)
        self.member_count = len(given)
        if self.leader_id is not None:
            self._rebalance_members.member_synced(self.leader_id, record.at_ms)
        self._enter(STABLE, record.at_ms, "the leader's assignment was accepted", None)
        self._close_rebalance(record.at_ms, "completed", len(given), moved)

    def _read(self, assignment: bytes) -> Partitions:
        """Return topic → partitions; empty if the assignment cannot be decoded."""
        read: Partitions = {}
        for topic, numbers in (partitions_of(assignment) or ()) if self.is_consumer else ():
            read.setdefault(topic, set()).update(numbers)
        return read

    def _has(self, member_id: str, partitions: Partitions) -> bool:
        """Return whether a member is known to own just these partitions."""
        held = self.ownership.get(member_id)
        return (
            held is not None
            and len(held) == len(partitions)
            and all(partitions.get(owned.topic) == set(owned.partitions) for owned in held)
        )

    def _count_moved(self, given: Mapping[str, Partitions]) -> int:
        """Count partitions that had an owner and now have another."""
        before = dict(self.last_owners)
        for member_id, ownerships in self.ownership.items():
            before |= dict.fromkeys(_each_of(ownerships), member_id)
        return sum(
            before.get(partition, member_id) != member_id
            for member_id, partitions in given.items()
            for partition in _each(partitions)
        )

    def _hand_over(self, member_id: str, partitions: Partitions, at_ms: int) -> list[tuple[str, int]]:
        """Close ownership of revoked partitions, continue that of retained ones, open that of new ones.

        Returns:
            The revoked partitions.
        """
        held = self.ownership.get(member_id, ())
        new = set(_each(partitions))
        kept: list[OpenOwnership] = []
        given_up: list[tuple[str, int]] = []
        for owned in held:
            retained = tuple(p for p in owned.partitions if (owned.topic, p) in new)
            revoked = tuple(p for p in owned.partitions if (owned.topic, p) not in new)
            self._close(member_id, (owned._replace(partitions=revoked),), at_ms)
            given_up += [(owned.topic, p) for p in revoked]
            kept += [owned._replace(partitions=retained)] if retained else []
        old = set(_each_of(kept))
        rebalance_id = self.in_progress.rebalance_id if self.in_progress else self._rebalance_id(at_ms)
        for topic, numbers in partitions.items():
            opened = tuple(sorted(p for p in numbers if (topic, p) not in old))
            kept += [OpenOwnership(topic, opened, at_ms, self.generation, rebalance_id)] if opened else []
        self.ownership[member_id] = tuple(kept)
        return given_up

    def _member_removed(self, record: MemberRemoved) -> None:
        ownerships = self.ownership.pop(record.member_id, ())
        self._close(record.member_id, ownerships, record.at_ms)
        self.last_owners |= dict.fromkeys(_each_of(ownerships), record.member_id)
        self._rebalance_members.member_removed(
            record.member_id, record.at_ms, _OUTCOMES.get(record.removal_reason, "evicted")
        )
        self._end_session(record.member_id, record.at_ms, record.removal_reason)

    def _member_replaced(self, record: MemberReplaced) -> None:
        """Close the ownerships of the old member id and open the same ones for the new id."""
        ownerships = self.ownership.pop(record.old_member_id, ())
        self._close(record.old_member_id, ownerships, record.at_ms)
        self.ownership[record.member.member_id] = tuple(owned._replace(since_ms=record.at_ms) for owned in ownerships)
        for partition, member_id in self.last_owners.items():
            if member_id == record.old_member_id:
                self.last_owners[partition] = record.member.member_id
        if self.leader_id == record.old_member_id:
            self.leader_id = record.member.member_id
        session = session_of(record.member, record.at_ms)
        session.discard_gap(until=NEXT_TIMER_START)
        self._rebalance_members.member_replaced(record.old_member_id, record.member.member_id, session)
        self._end_session(record.old_member_id, record.at_ms, REPLACED)
        self.sessions[record.member.member_id] = session

    def _close(self, member_id: str, ownerships: Iterable[OpenOwnership], at_ms: int) -> None:
        self._rows.ownerships += [
            PartitionOwnershipRow(
                group_id=self.group_id,
                shard_id=self.shard_id,
                group_created_at_ms=self.created_at_ms,
                rebalance_id=owned.rebalance_id,
                generation=owned.generation,
                member_id=member_id,
                topic=owned.topic,
                partitions=owned.partitions,
                valid_from_ms=owned.since_ms,
                valid_to_ms=max(at_ms, owned.since_ms),
            )
            for owned in ownerships
            if owned.partitions
        ]

    # -- member sessions --------------------------------------------------------------------------------------

    def _discard_gap(self, member_id: str, until: int) -> None:
        session = self.sessions.get(member_id)
        if session is not None:
            session.discard_gap(until)

    def _end_session(self, member_id: str, at_ms: int, end_reason: str) -> None:
        session = self.sessions.pop(member_id, None)
        if session is not None:
            self._rows.sessions.append(self._session_row(member_id, session, at_ms, end_reason))

    def due_session_intervals(self, at_ms: int, limit: int) -> tuple[MemberSessionRow, ...]:
        """Return at most `limit` rows of sessions without a row for an hour; the sessions continue.

        Those of a mirrored group have no measurements, and one row each.
        """
        if self.is_mirrored:
            return ()
        due = [
            (name, session)
            for name, session in self.sessions.items()
            if at_ms - session.interval_start_ms >= INTERVAL_MS
        ]
        return tuple(self._session_row(member_id, session, at_ms, ONGOING) for member_id, session in due[:limit])

    def _session_row(self, member_id: str, session: MemberSession, at_ms: int, end_reason: str) -> MemberSessionRow:
        row = session.close_interval(
            group_id=self.group_id,
            shard_id=self.shard_id,
            group_created_at_ms=self.created_at_ms,
            generation=self.generation,
            member_id=member_id,
            at_ms=at_ms,
            end_reason=end_reason,
        )
        return replace(row, heartbeat_count=None, heartbeat_gap_histogram=None) if self.is_mirrored else row

    # -- snapshots ------------------------------------------------------------------------------------------

    def snapshot(self) -> Json:
        """Return the JSON for `load_rebalance`; None without a rebalance in progress and last owners."""
        known = self.in_progress
        if known is None and not self.last_owners:
            return None
        parts = {} if known is None else self._rebalance_members.snapshot(has_generation=known.joined_at_ms is not None)
        return {
            "in_progress": None if known is None else asdict(known),
            "last_owners": [[*partition, member_id] for partition, member_id in self.last_owners.items()],
            **parts,
        }

    def load_rebalance(self, snapshot: Json) -> None:
        """Load the rebalance in progress from the snapshot of another node; `sessions` must be set already.

        Raises:
            UnreadableRow: the snapshot does not have the shape that `snapshot` returns.
        """
        if snapshot is None:
            return
        known = read_json("groups.rebalance", snapshot, RebalanceSnapshotJson)
        self.in_progress = known.in_progress
        self.last_owners = {(topic, partition): member_id for topic, partition, member_id in known.last_owners}
        if self.in_progress is not None:
            # The joins of a phase that led to no generation were not stored, so its rebalance members are unknown.
            is_known = self.in_progress.joined_at_ms is not None or self.is_mirrored
            self._rebalance_members.load(snapshot, self.sessions if is_known else {})


def session_of(member: Member | MemberRow, interval_start_ms: int) -> MemberSession:
    """Return a new session of a member, without measurements."""
    return MemberSession(
        client_id=member.client_id,
        client_host=member.client_host,
        group_instance_id=member.group_instance_id,
        session_timeout_ms=member.session_timeout_ms,
        joined_at_ms=member.joined_at_ms,
        interval_start_ms=interval_start_ms,
    )


def ownership_to_json(ownerships: Iterable[OpenOwnership]) -> Json:
    """Return open ownerships in the form of the column `members.ownership`."""
    return [owned._asdict() | {"partitions": list(owned.partitions)} for owned in ownerships]


def ownership_from_json(ownership: Json) -> tuple[OpenOwnership, ...]:
    """Return the open ownerships of a column `members.ownership`.

    Raises:
        UnreadableRow: the column does not have the shape that `ownership_to_json` returns.
    """
    ownerships = read_json("members.ownership", ownership, list[OpenOwnershipJson])
    return tuple(
        OpenOwnership(owned.topic, tuple(owned.partitions), owned.since_ms, owned.generation, owned.rebalance_id)
        for owned in ownerships
    )


def _each(partitions: Partitions) -> Iterable[tuple[str, int]]:
    return ((topic, number) for topic, numbers in partitions.items() for number in numbers)


def _each_of(ownerships: Iterable[OpenOwnership]) -> Iterable[tuple[str, int]]:
    return ((owned.topic, number) for owned in ownerships for number in owned.partitions)
