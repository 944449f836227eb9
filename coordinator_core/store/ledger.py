"""The ledger is what history keeps of a group: a fold over its records, beside the group's own.

It knows the rebalance under way and who has held which partitions since when. A row comes out when what it tells
of is over, and is stored in the transaction of the record that ended it (tables.md).

* A *rebalance* lasts from its first join phase until Stable, Empty, or abandoned at a take-over. A phase that
  falls back before it is Stable is the same rebalance, counted in `restarts`.
* A *span* of ownership ends when a partition changes hands or its holder goes; what stays with its member goes on.
* A *stay* (stays.py) begins with a member's first join, or at a take-over, and ends when the member goes; a *part*
  (parts.py) is a member's share in the rebalance under way.

Volatile records are taken note of as well, and bring no row: what they tell of is forgotten with the node.
"""

import hashlib
import uuid
from collections.abc import Iterable, Mapping
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
    JoinParked,
    MemberIdDropped,
    MemberIdIssued,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    MemberUpdated,
    OffsetRecord,
    PhaseRetimed,
    RebalanceStarted,
    Record,
    Removal,
    SyncParked,
    SyncReceived,
    Trigger,
    VolatileRecord,
    WindowExtended,
)
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState
from coordinator_core.store.awaited import AwaitedMembers
from coordinator_core.store.parts import Parts
from coordinator_core.store.row_checks import Count, InstantMs, UuidText, read_json
from coordinator_core.store.rows import (
    Json,
    MemberRow,
    MemberSessionRow,
    OwnershipRow,
    RebalanceMemberRow,
    RebalanceRow,
    TransitionRow,
)
from coordinator_core.store.stays import HOUR_MS, NOT_HEARD, NOT_YET, Stay

HOUR: Final = "hour"
"""The end of a row that is no end of its stay."""
REPLACED: Final = "replaced"
"""The end of a static member's stay whose place another process has taken."""

Untold = MemberIdIssued | MemberIdDropped | MemberUpdated | WindowExtended | PhaseRetimed | OffsetRecord
"""Records that leave no trace in history; offsets have a history of their own."""
Partitions = dict[str, set[int]]
"""Topic → partitions of it."""


class Span(NamedTuple):
    """Partitions of one topic that a member holds, and since when; still open."""

    topic: str
    partitions: tuple[int, ...]
    since_ms: int
    generation: int
    rebalance_id: str


@dataclass(frozen=True, slots=True)
class RebalanceUnderWay:
    """What is known of a rebalance that is not over."""

    rebalance_id: UuidText
    trigger: Trigger
    trigger_member_id: str | None
    client_reason: str | None
    started_at_ms: InstantMs
    member_count_before: Count
    joined_at_ms: InstantMs | None = None
    restarts: Count = 0


class SnapshotShape(Struct):
    """The column `groups.rebalance`, without the parts of members."""

    under_way: RebalanceUnderWay | None
    orphans: list[tuple[str, int, str]]


class SpanShape(Struct):
    """One element of the column `members.held`."""

    topic: str
    partitions: list[int]
    since_ms: InstantMs
    generation: Count
    rebalance_id: UuidText


@dataclass(slots=True)
class HistoryRows:
    """Rows that have come out of the ledger and are to be stored."""

    transitions: list[TransitionRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    ownerships: list[OwnershipRow] = field(default_factory=list)
    rebalance_members: list[RebalanceMemberRow] = field(default_factory=list)
    sessions: list[MemberSessionRow] = field(default_factory=list)


class Ledger:
    """What history knows of one group, and is still to write down."""

    def __init__(self, group_id: str, shard_id: int, epoch: int = 0) -> None:
        """Begin.

        Args:
            group_id: whose.
            shard_id: where the group belongs.
            epoch: of the lease under which it is kept; no two nodes have the same.
        """
        self.group_id = group_id
        self.shard_id = shard_id
        self._epoch = epoch
        self.created_at_ms = 0
        self.state: GroupState | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.is_consumer = False
        """Whether assignments can be looked into; those of other protocol types are the clients' own affair."""
        self.member_count = 0
        """Members of the last generation that was assigned."""
        self.under_way: RebalanceUnderWay | None = None
        self.held: dict[str, tuple[Span, ...]] = {}
        self.orphans: dict[tuple[str, int], str] = {}
        """(topic, partition) → the member that held it last, where that member has gone and none has followed."""
        self.stays: dict[str, Stay] = {}
        """Everybody who is in the group, newcomers included."""
        self.awaited: AwaitedMembers | None = None
        """The awaited members as the group's row has them, or will have with the writes under way."""
        self._parts = Parts()
        self._rows = HistoryRows()

    def observe(self, record: Record) -> None:
        """Take note of a record; offsets leave no trace here."""
        match record:
            case GroupCreated():
                self.created_at_ms = record.at_ms
                self._enter(EMPTY, record.at_ms, "created", None)
            case RebalanceStarted():
                self._rebalance_started(record)
            case GenerationStarted():
                self._generation_started(record)
            case AssignmentAccepted():
                self._assignment_accepted(record)
            case GroupEmptied():
                self.generation = record.generation
                self.member_count = 0
                self.orphans.clear()
                self._enter(EMPTY, record.at_ms, "no member is left", None)
                self._close_rebalance(record.at_ms, "emptied", 0)
            case MemberRemoved():
                self._member_removed(record)
            case MemberReplaced():
                self._member_replaced(record)
            case GroupDied():
                self._enter(DEAD, record.at_ms, record.cause, None)
            case _:
                self._observe_volatile(record)

    def _observe_volatile(self, record: VolatileRecord | OffsetRecord) -> None:
        match record:
            case MemberJoined(member=member):
                stay = self.stays[member.member_id] = stay_of(member, member.joined_at_ms)
                self._parts.came(member.member_id, stay)
            case JoinParked():
                self._forget_gap(record.member_id, until=NOT_HEARD)
                self._parts.joined(record.member_id, record.at_ms)
            case SyncParked():
                self._forget_gap(record.member_id, until=NOT_YET)
                self._parts.synced(record.member_id, record.at_ms)
            case SyncReceived():
                self._parts.synced(record.member_id, record.at_ms)
            case _:
                _untold: Untold = record  # Nothing else is left over, or mypy says so.

    def take_rows(self) -> HistoryRows:
        """Return the rows that have come out since the last call."""
        rows, self._rows = self._rows, HistoryRows()
        return rows

    def resume(self, state: GroupState, at_ms: int) -> None:
        """Go on after a take-over: a join phase under way was forgotten, so its rebalance was abandoned."""
        if self.state is PREPARING:
            self._enter(state, at_ms, "the node was lost; the join phase under way is forgotten", None)
        if state is not COMPLETING:
            self._close_rebalance(at_ms, "abandoned", len(self.held))
        elif self.leader_id is not None:
            self._parts.leader_awaited(self.leader_id, at_ms)

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
        self._parts.phase_started(record.at_ms, self.stays)
        if self.under_way is not None:
            self.under_way = replace(self.under_way, restarts=self.under_way.restarts + 1)
            return
        self.under_way = RebalanceUnderWay(
            rebalance_id=self._rebalance_id(record.at_ms),
            trigger=record.trigger,
            trigger_member_id=record.member_id,
            client_reason=record.client_reason,
            started_at_ms=record.at_ms,
            member_count_before=self.member_count,
        )

    def _generation_started(self, record: GenerationStarted) -> None:
        self.generation, self.leader_id = record.generation, record.leader_id
        if self.under_way is not None:
            self.under_way = replace(self.under_way, joined_at_ms=max(record.at_ms, self.under_way.started_at_ms))
        self._enter(COMPLETING, record.at_ms, "all have joined, or time was up", record.leader_id)
        self._parts.phase_ended(record.at_ms, record.leader_id)
        for stay in self.stays.values():
            stay.join_phase_over()

    def _rebalance_id(self, started_at_ms: int) -> str:
        """Return a name that no other rebalance has: a group's life, the generation before, the epoch, and the moment.

        Under one epoch a rebalance that is over has led to a generation. A join phase that is abandoned at a take-over
        has not, and the next one may begin at the very same moment of another node's clock.
        """
        name = f"{self.group_id}\0{self.created_at_ms}\0{self.generation}\0{self._epoch}\0{started_at_ms}"
        return str(uuid.UUID(bytes=hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()))

    def _close_rebalance(self, at_ms: int, outcome: str, member_count_after: int, moved: int = 0) -> None:
        under_way, self.under_way = self.under_way, None
        if under_way is None:
            return
        # After a take-over another node's clock tells, which may be behind; nothing ends before it began.
        latest_known_ms = under_way.started_at_ms if under_way.joined_at_ms is None else under_way.joined_at_ms
        row = RebalanceRow(
            rebalance_id=under_way.rebalance_id,
            group_id=self.group_id,
            shard_id=self.shard_id,
            group_created_at_ms=self.created_at_ms,
            generation=self.generation,
            trigger=under_way.trigger,
            trigger_member_id=under_way.trigger_member_id,
            client_reason=under_way.client_reason,
            started_at_ms=under_way.started_at_ms,
            joined_at_ms=under_way.joined_at_ms,
            completed_at_ms=max(at_ms, latest_known_ms),
            outcome=outcome,
            restarts=under_way.restarts,
            member_count_before=under_way.member_count_before,
            member_count_after=member_count_after,
            partitions_moved=moved,
        )
        self._rows.rebalances.append(row)
        self._rows.rebalance_members += self._parts.close(row)

    # -- who holds what -----------------------------------------------------------------------------------

    def assigned_since_ms(self, member_id: str) -> int | None:
        """Return when the member's assignment last changed; None while it holds nothing."""
        return max((span.since_ms for span in self.held.get(member_id, ())), default=None)

    def _assignment_accepted(self, record: AssignmentAccepted) -> None:
        given = {member_id: self._read(assignment) for member_id, assignment in record.assignments}
        moved = self._count_moved(given)
        for member_id, partitions in given.items():
            self._hand_over(member_id, partitions, record.at_ms)
        self.orphans.clear()
        self.member_count = len(given)
        if self.leader_id is not None:
            self._parts.synced(self.leader_id, record.at_ms)
        self._enter(STABLE, record.at_ms, "the leader's assignment was accepted", None)
        self._close_rebalance(record.at_ms, "completed", len(given), moved)

    def _read(self, assignment: bytes) -> Partitions:
        """Return topic → partitions; nothing where that is not known."""
        read: Partitions = {}
        for topic, numbers in (partitions_of(assignment) or ()) if self.is_consumer else ():
            read.setdefault(topic, set()).update(numbers)
        return read

    def _count_moved(self, given: Mapping[str, Partitions]) -> int:
        """Count partitions that had a holder and now have another."""
        before = dict(self.orphans)
        for member_id, spans in self.held.items():
            before |= dict.fromkeys(_each_of(spans), member_id)
        return sum(
            before.get(partition, member_id) != member_id
            for member_id, partitions in given.items()
            for partition in _each(partitions)
        )

    def _hand_over(self, member_id: str, partitions: Partitions, at_ms: int) -> None:
        """Close what the member no longer holds, go on with what it keeps, open what is new to it."""
        new = set(_each(partitions))
        kept: list[Span] = []
        for span in self.held.get(member_id, ()):
            stays = tuple(p for p in span.partitions if (span.topic, p) in new)
            goes = tuple(p for p in span.partitions if (span.topic, p) not in new)
            self._close(member_id, (span._replace(partitions=goes),), at_ms)
            kept += [span._replace(partitions=stays)] if stays else []
        old = set(_each_of(kept))
        rebalance_id = self.under_way.rebalance_id if self.under_way else self._rebalance_id(at_ms)
        for topic, numbers in partitions.items():
            opened = tuple(sorted(p for p in numbers if (topic, p) not in old))
            kept += [Span(topic, opened, at_ms, self.generation, rebalance_id)] if opened else []
        self.held[member_id] = tuple(kept)

    def _member_removed(self, record: MemberRemoved) -> None:
        spans = self.held.pop(record.member_id, ())
        self._close(record.member_id, spans, record.at_ms)
        self.orphans |= dict.fromkeys(_each_of(spans), record.member_id)
        self._parts.went(record.member_id, record.at_ms, "left" if record.removal is Removal.LEFT else "evicted")
        self._end_stay(record.member_id, record.at_ms, record.removal)

    def _member_replaced(self, record: MemberReplaced) -> None:
        """Close the old id's spans and open the same ones for the new id: the place stays, the process does not."""
        spans = self.held.pop(record.old_member_id, ())
        self._close(record.old_member_id, spans, record.at_ms)
        self.held[record.member.member_id] = tuple(span._replace(since_ms=record.at_ms) for span in spans)
        if self.leader_id == record.old_member_id:
            self.leader_id = record.member.member_id
        stay = stay_of(record.member, record.at_ms)
        stay.forget_gap(until=NOT_YET)
        self._parts.replaced(record.old_member_id, record.member.member_id, stay)
        self._end_stay(record.old_member_id, record.at_ms, REPLACED)
        self.stays[record.member.member_id] = stay

    def _close(self, member_id: str, spans: Iterable[Span], at_ms: int) -> None:
        self._rows.ownerships += [
            OwnershipRow(
                group_id=self.group_id,
                shard_id=self.shard_id,
                group_created_at_ms=self.created_at_ms,
                rebalance_id=span.rebalance_id,
                generation=span.generation,
                member_id=member_id,
                topic=span.topic,
                partitions=span.partitions,
                valid_from_ms=span.since_ms,
                valid_to_ms=max(at_ms, span.since_ms),
            )
            for span in spans
            if span.partitions
        ]

    # -- who stays, and how it keeps in touch -----------------------------------------------------------------

    def _forget_gap(self, member_id: str, until: int) -> None:
        stay = self.stays.get(member_id)
        if stay is not None:
            stay.forget_gap(until)

    def _end_stay(self, member_id: str, at_ms: int, end_reason: str) -> None:
        stay = self.stays.pop(member_id, None)
        if stay is not None:
            self._rows.sessions.append(self._told(member_id, stay, at_ms, end_reason))

    def tell_hours(self, at_ms: int, limit: int) -> tuple[MemberSessionRow, ...]:
        """Return rows of stays of which nothing was told for an hour, at most so many; they go on."""
        due = [(name, stay) for name, stay in self.stays.items() if at_ms - stay.told_until_ms >= HOUR_MS]
        return tuple(self._told(member_id, stay, at_ms, HOUR) for member_id, stay in due[:limit])

    def _told(self, member_id: str, stay: Stay, at_ms: int, end_reason: str) -> MemberSessionRow:
        return stay.told(
            group_id=self.group_id,
            shard_id=self.shard_id,
            group_created_at_ms=self.created_at_ms,
            generation=self.generation,
            member_id=member_id,
            at_ms=at_ms,
            end_reason=end_reason,
        )

    # -- kept between nodes ---------------------------------------------------------------------------------

    def snapshot(self) -> Json:
        """Return what `load_rebalance` needs, as JSON; None when nothing is under way."""
        known = self.under_way
        if known is None and not self.orphans:
            return None
        parts = {} if known is None else self._parts.snapshot(has_generation=known.joined_at_ms is not None)
        return {
            "under_way": None if known is None else asdict(known),
            "orphans": [[topic, partition, member_id] for (topic, partition), member_id in self.orphans.items()],
            **parts,
        }

    def load_rebalance(self, snapshot: Json) -> None:
        """Take up what another node knew of the rebalance under way, once it is known who stays.

        Raises:
            UnreadableRow: the snapshot has another shape than `snapshot` returns.
        """
        if snapshot is None:
            return
        known = read_json("groups.rebalance", snapshot, SnapshotShape)
        self.under_way = known.under_way
        self.orphans = {(topic, partition): member_id for topic, partition, member_id in known.orphans}
        if self.under_way is not None:
            # Who had joined a phase that led to no generation was not stored, so nobody's part in it is known.
            has_generation = self.under_way.joined_at_ms is not None
            self._parts.load(snapshot, self.stays if has_generation else {})


def stay_of(member: Member | MemberRow, told_until_ms: int) -> Stay:
    """Return the stay of a member of which nothing was measured yet."""
    return Stay(
        client_id=member.client_id,
        client_host=member.client_host,
        group_instance_id=member.group_instance_id,
        session_timeout_ms=member.session_timeout_ms,
        joined_at_ms=member.joined_at_ms,
        told_until_ms=told_until_ms,
    )


def spans_to_json(spans: Iterable[Span]) -> Json:
    """Return spans as the column `members.held` has them."""
    return [span._asdict() | {"partitions": list(span.partitions)} for span in spans]


def spans_from_json(held: Json) -> tuple[Span, ...]:
    """Return the spans of a column `members.held`.

    Raises:
        UnreadableRow: the column has another shape than `spans_to_json` returns.
    """
    spans = read_json("members.held", held, list[SpanShape])
    return tuple(
        Span(span.topic, tuple(span.partitions), span.since_ms, span.generation, span.rebalance_id) for span in spans
    )


def _each(partitions: Partitions) -> Iterable[tuple[str, int]]:
    return ((topic, number) for topic, numbers in partitions.items() for number in numbers)


def _each_of(spans: Iterable[Span]) -> Iterable[tuple[str, int]]:
    return ((span.topic, number) for span in spans for number in span.partitions)
