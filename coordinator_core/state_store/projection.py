"""Projection of decisions to rows, and loading of groups from their rows.

`load_group` is the inverse of `project`, except for state that is not stored (protocol.md section 13): pending member
ids, parked requests, timers, and a join phase in progress.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from coordinator_core.protocol.consumer_protocol import CONSUMER, partitions_of, topics_of
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    GroupFound,
    MemberMoved,
    MemberRemoved,
    MemberReplaced,
    OffsetRemoved,
    OffsetsCommitted,
    RebalanceStarted,
    Record,
    StateObserved,
    Trigger,
    TriggerInferred,
    VolatileRecord,
)
from coordinator_core.protocol.requests import metadata_bytes
from coordinator_core.protocol.states import EMPTY, PREPARING, GroupState
from coordinator_core.state_store.awaited import AwaitedMembers, awaited_members
from coordinator_core.state_store.ledger import Ledger, ownership_from_json, ownership_to_json, session_of
from coordinator_core.state_store.offset_log import LoggedCommits, encode
from coordinator_core.state_store.row_checks import check_rows
from coordinator_core.state_store.rows import (
    NO_EXTRA_ROWS,
    ExtraRows,
    GroupRow,
    GroupWrite,
    Json,
    MemberRow,
    StoredGroup,
)

# -- decisions to rows ---------------------------------------------------------------------------------


def project(
    group: Group, records: Sequence[Record], ledger: Ledger, extra_rows: ExtraRows = NO_EXTRA_ROWS
) -> GroupWrite | None:
    """Return what a decision stores, and apply its records to the ledger.

    Args:
        group: the group after the decision.
        records: the decision's records.
        ledger: the group's ledger; it is changed.
        extra_rows: other rows for the same transaction.

    Returns:
        The write, or None if the decision stores nothing.

    Raises:
        InvalidCommit: an offset cannot be stored; the ledger is unchanged.
    """
    group_id, shard_id = group.group_id, ledger.shard_id
    if len(records) == 1 and isinstance(records[0], OffsetsCommitted) and extra_rows is NO_EXTRA_ROWS:
        logged = encode(LoggedCommits(shard_id, group_id, (records[0],)))
        return GroupWrite(group_id, shard_id, logged=logged, is_only_logged=True)  # nearly every commit
    commits = tuple([record for record in records if isinstance(record, OffsetsCommitted)])
    is_logged = commits and not extra_rows.changes and not extra_rows.outcomes
    stored = [record for record in records if record.is_stored]
    if not stored:
        for record in records:
            ledger.observe(record)
        if extra_rows == NO_EXTRA_ROWS:
            return None
    removed = tuple([record for record in stored if isinstance(record, OffsetRemoved)])
    write = GroupWrite(
        group_id,
        shard_id,
        logged=encode(LoggedCommits(shard_id, group_id, commits)) if is_logged else None,
        committed=() if is_logged else commits,
        removed=removed,
        **extra_rows._asdict(),
    )
    is_of_offsets = len(commits) + len(removed) == len(stored)
    return write if is_of_offsets else _with_group(write, group, records, stored, ledger)


def _with_group(
    write: GroupWrite, group: Group, records: Sequence[Record], stored: Sequence[Record], ledger: Ledger
) -> GroupWrite:
    """Return the write of a decision that changes more than offsets."""
    ledger.is_consumer = group.protocol_type == CONSUMER
    for record in records:
        ledger.observe(record)
    if ledger.awaited is not None:
        ledger.awaited = awaited_members(group)
    history = ledger.take_rows()
    is_deleted = isinstance(stored[-1], GroupDied)
    members = MemberRows(group, () if is_deleted else _changed_members(group, stored), ledger)
    return replace(
        write,
        group=None if is_deleted else group_row(group, ledger),
        is_group_deleted=is_deleted,
        members=members,
        members_size=members.size_bytes(),
        transitions=tuple(history.transitions),
        rebalances=tuple(history.rebalances),
        ownerships=tuple(history.ownerships),
        rebalance_members=history.rebalance_members,
        sessions=tuple(history.sessions),
    )


def group_row(group: Group, ledger: Ledger) -> GroupRow:
    """Return the row of `groups` with the group's current state."""
    in_progress = ledger.in_progress
    topics = group.subscribed_topics
    return GroupRow(
        group_id=group.group_id,
        shard_id=ledger.shard_id,
        state=group.state,
        state_since_ms=group.state_since_ms,
        state_before_join_phase=group.state_before_join_phase,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        member_count=len(group.members),
        subscribed_topics=None if topics is None else tuple(sorted(topics)),
        topics_version=group.topics_version,
        must_rebalance=group.must_rebalance,
        rebalance_started_at_ms=None if in_progress is None else in_progress.started_at_ms,
        rebalance_trigger=_trigger_of(group, ledger),
        rebalance=ledger.snapshot(),
        created_at_ms=ledger.created_at_ms,
        awaited_members=None if ledger.awaited is None else ledger.awaited.to_json(),
    )


def _trigger_of(group: Group, ledger: Ledger) -> str | None:
    """Return the trigger of the rebalance in progress, or of the one that must follow; None without either."""
    if ledger.in_progress is not None:
        return ledger.in_progress.trigger
    return group.trigger if group.must_rebalance else None


class MemberRows(Mapping[str, MemberRow | None]):
    """The rows of the members that a decision changed; only members of a stored generation have one.

    They are made when they are first read, by the thread that writes: thousands would hold up the event loop.
    """

    def __init__(self, group: Group, changed: Iterable[str], ledger: Ledger) -> None:
        """Keep what the rows show.

        Args:
            group: the group after the decision, which does not change any more.
            changed: the members.
            ledger: the group's ledger after the decision; it goes on to change.
        """
        self._group = group
        self._shard_id = ledger.shard_id
        self._ownership = {member_id: ledger.ownership.get(member_id, ()) for member_id in changed}

    def __len__(self) -> int:
        return len(self._ownership)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ownership)

    def __getitem__(self, member_id: str) -> MemberRow | None:
        return self._rows[member_id]

    def size_bytes(self) -> int:
        """Return the size of the metadata and assignments in the rows, without making them."""
        members = self._group.members
        changed = [members[member_id] for member_id in self._ownership if member_id in members]
        assignments = sum([len(member.assignment) for member in changed])
        if len(changed) == len(members):
            return assignments + self._group.metadata_bytes
        return assignments + sum([metadata_bytes(member.protocols) for member in changed])

    @cached_property
    def _rows(self) -> dict[str, MemberRow | None]:
        rows: dict[str, MemberRow | None] = dict.fromkeys(self._ownership)
        for join_order, member in enumerate(self._group.members.values()):
            if member.member_id in rows and member.in_generation:
                rows[member.member_id] = self._row(member, join_order)
        return rows

    def _row(self, member: Member, join_order: int) -> MemberRow:
        group, ownership = self._group, self._ownership[member.member_id]
        is_consumer = group.protocol_type == CONSUMER
        return MemberRow(
            group_id=group.group_id,
            shard_id=self._shard_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=member.protocols,
            assignment=member.assignment,
            subscription_json=_subscription_json(member.metadata_for(group.protocol_name)) if is_consumer else None,
            assignment_json=_assignment_json(member.assignment) if is_consumer else None,
            assigned_since_ms=max((owned.since_ms for owned in ownership), default=None),
            ownership=ownership_to_json(ownership),
            joined_at_ms=member.joined_at_ms,
            join_order=join_order,
        )


def _changed_members(group: Group, records: Iterable[Record]) -> Iterable[str]:
    """Return the members whose rows these records change, in a deterministic order."""
    touched: dict[str, None] = {}
    for record in records:
        match record:
            case GroupFound() | GenerationStarted() | AssignmentAccepted():
                touched |= dict.fromkeys(group.members)
            case MemberRemoved() | MemberMoved():
                touched[record.member_id] = None
            case MemberReplaced():
                touched |= {record.old_member_id: None, record.member.member_id: None}
                if group.must_rebalance and record.member.in_generation:
                    # Its protocols may be supported only by the others' newer metadata, so store all of it together.
                    touched |= {member.member_id: None for member in group.members.values() if member.in_generation}
            case (
                RebalanceStarted() | TriggerInferred() | StateObserved() | GroupCreated() | GroupEmptied() | GroupDied()
            ):
                pass  # Other records have the changes of members.
            case OffsetsCommitted() | OffsetRemoved():
                pass
            case _:
                _unstored: VolatileRecord = record  # mypy checks that no other record is left.
    return touched


def _subscription_json(metadata: bytes) -> Json:
    topics = topics_of(metadata)
    return None if topics is None else {"topics": sorted(topics)}


def _assignment_json(assignment: bytes) -> Json:
    partitions = partitions_of(assignment)
    if partitions is None:
        return None
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions]


# -- rows to groups ----------------------------------------------------------------------------------------


def load_group(
    stored: StoredGroup, at_ms: int, epoch: int = 0, *, is_mirrored: bool = False
) -> tuple[Group, Ledger, GroupWrite | None]:
    """Return the group of stored rows, and its ledger, after its shard was acquired.

    Args:
        stored: the rows.
        at_ms: wall time, which becomes the end of a rebalance that is abandoned.
        epoch: epoch of the shard's lease.
        is_mirrored: whether the group is of a mirrored cluster.

    Returns:
        The group outside of a join phase, its ledger, and the write for a join phase that was lost, if any. A mirrored
        group is as it was: its join phase is not this node's, and goes on.

    Raises:
        UnreadableRow: the rows cannot be loaded.
    """
    check_rows(stored, is_mirrored=is_mirrored)
    group = _group_of(stored)
    ledger = _ledger_of(stored, at_ms, Ledger(stored.group_id, stored.shard_id, epoch, is_mirrored=is_mirrored))
    if is_mirrored:
        group.state = GroupState(stored.group.state)
        group.state_before_join_phase = GroupState(stored.group.state_before_join_phase)
        return group, ledger, None
    ledger.resume(group.state, at_ms)
    history = ledger.take_rows()
    if not history.transitions and not history.rebalances:
        return group, ledger, None
    write = GroupWrite(
        group.group_id,
        ledger.shard_id,
        group=group_row(group, ledger),
        transitions=tuple(history.transitions),
        rebalances=tuple(history.rebalances),
        rebalance_members=history.rebalance_members,
    )
    return group, ledger, write


def _group_of(stored: StoredGroup) -> Group:
    row = stored.group
    state = GroupState(row.state)
    if state is PREPARING:
        state = GroupState(row.state_before_join_phase)
    is_untouched = state is EMPTY and row.generation == 0  # A first member that was joining is lost.
    return Group.loaded(
        row.group_id,
        created_at_ms=row.created_at_ms,
        state=state,
        state_since_ms=row.state_since_ms,
        generation=row.generation,
        protocol_type=None if is_untouched else row.protocol_type,
        protocol_name=row.protocol_name,
        leader_id=row.leader_id,
        subscribed_topics=None if row.subscribed_topics is None else frozenset(row.subscribed_topics),
        topics_version=row.topics_version,
        must_rebalance=row.must_rebalance,
        trigger=None if row.rebalance_trigger is None else Trigger(row.rebalance_trigger),
        members=[_member_of(member) for member in stored.members],
    )


def _member_of(row: MemberRow) -> Member:
    return Member(
        member_id=row.member_id,
        group_instance_id=row.group_instance_id,
        client_id=row.client_id,
        client_host=row.client_host,
        session_timeout_ms=row.session_timeout_ms,
        rebalance_timeout_ms=row.rebalance_timeout_ms,
        protocols=row.protocols,
        joined_at_ms=row.joined_at_ms,
        assignment=row.assignment,
        is_new=False,
        in_generation=True,
    )


def _ledger_of(stored: StoredGroup, at_ms: int, ledger: Ledger) -> Ledger:
    row = stored.group
    ledger.created_at_ms = row.created_at_ms
    ledger.state = GroupState(row.state)
    ledger.generation = row.generation
    ledger.leader_id = row.leader_id
    ledger.member_count = len(stored.members)
    ledger.ownership = {member.member_id: ownership_from_json(member.ownership) for member in stored.members}
    ledger.sessions = {
        member.member_id: session_of(member, member.joined_at_ms if ledger.is_mirrored else at_ms)
        for member in stored.members
    }
    ledger.load_rebalance(row.rebalance)
    ledger.awaited = None if row.awaited_members is None else AwaitedMembers.from_json(row.awaited_members)
    return ledger
