"""What a decision stores, as rows; and a group again from its rows.

`project` and `load_group` are each other's inverse, but for what a node forgets on purpose (protocol.md section 13):
handshake ids, parked requests, timers, and a join phase under way.
"""

from collections.abc import Iterable, Sequence

from coordinator_core.protocol.consumer_protocol import CONSUMER, partitions_of, topics_of
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    MemberRemoved,
    MemberReplaced,
    OffsetRemoved,
    OffsetsCommitted,
    RebalanceStarted,
    Record,
    Trigger,
    VolatileRecord,
)
from coordinator_core.protocol.states import EMPTY, PREPARING, GroupState
from coordinator_core.store.awaited import AwaitedMembers, awaited_members
from coordinator_core.store.ledger import Ledger, spans_from_json, spans_to_json, stay_of
from coordinator_core.store.row_checks import check_rows
from coordinator_core.store.rows import NOTHING_BESIDE, Beside, GroupRow, GroupWrite, Json, MemberRow, StoredGroup

# -- a decision becomes rows ---------------------------------------------------------------------------


def project(
    group: Group, records: Sequence[Record], ledger: Ledger, beside: Beside = NOTHING_BESIDE
) -> GroupWrite | None:
    """Return what a decision stores, and let the ledger take note of it.

    Args:
        group: the group after the decision.
        records: the decision's records.
        ledger: the group's; it moves on.
        beside: what else is to be stored in the same transaction.

    Returns:
        The write, or None if the decision stores nothing.
    """
    committed = tuple([record for record in records if isinstance(record, OffsetsCommitted)])
    stored = committed if len(committed) == len(records) else [record for record in records if record.is_stored]
    if not stored:
        for record in records:
            ledger.observe(record)
        if beside == NOTHING_BESIDE:
            return None
    removed = tuple([record for record in stored if isinstance(record, OffsetRemoved)])
    if len(committed) + len(removed) == len(stored):
        return GroupWrite(
            group.group_id,
            ledger.shard_id,
            committed=committed,
            removed=removed,
            outcomes=beside.outcomes,
            changes=beside.changes,
            undone=beside.undone,
        )
    return _whole(group, records, ledger, stored, committed, removed, beside)


def _whole(
    group: Group,
    records: Sequence[Record],
    ledger: Ledger,
    stored: Sequence[Record],
    committed: tuple[OffsetsCommitted, ...],
    removed: tuple[OffsetRemoved, ...],
    beside: Beside,
) -> GroupWrite:
    """Return what is stored where more than offsets changed."""
    ledger.is_consumer = group.protocol_type == CONSUMER
    for record in records:
        ledger.observe(record)
    if ledger.awaited is not None:
        ledger.awaited = awaited_members(group)
    history = ledger.take_rows()
    is_gone = isinstance(stored[-1], GroupDied)
    return GroupWrite(
        group_id=group.group_id,
        shard_id=ledger.shard_id,
        group=None if is_gone else group_row(group, ledger),
        is_group_gone=is_gone,
        members={} if is_gone else _member_rows(group, stored, ledger),
        committed=committed,
        removed=removed,
        transitions=tuple(history.transitions),
        rebalances=tuple(history.rebalances),
        ownerships=tuple(history.ownerships),
        rebalance_members=tuple(history.rebalance_members),
        sessions=tuple(history.sessions),
        **beside._asdict(),
    )


def group_row(group: Group, ledger: Ledger) -> GroupRow:
    """Return the row of `groups` that says how the group stands."""
    under_way = ledger.under_way
    topics = group.subscribed_topics
    return GroupRow(
        group_id=group.group_id,
        shard_id=ledger.shard_id,
        state=group.state,
        state_since_ms=group.state_since_ms,
        settled_state=group.settled_state,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        member_count=len(group.members),
        subscribed_topics=None if topics is None else tuple(sorted(topics)),
        topics_version=group.topics_version,
        must_rebalance=group.must_rebalance,
        rebalance_started_at_ms=None if under_way is None else under_way.started_at_ms,
        rebalance_trigger=_trigger_of(group, ledger),
        rebalance=ledger.snapshot(),
        created_at_ms=ledger.created_at_ms,
        awaited_members=None if ledger.awaited is None else ledger.awaited.to_json(),
    )


def _trigger_of(group: Group, ledger: Ledger) -> str | None:
    """Return why the rebalance under way began, or why the one that is owed will; None where there is none."""
    if ledger.under_way is not None:
        return ledger.under_way.trigger
    return group.trigger if group.must_rebalance else None


def _member_rows(group: Group, records: Iterable[Record], ledger: Ledger) -> dict[str, MemberRow | None]:
    """Return the rows of members that these records changed; only members of a stored generation have one."""
    # A dictionary, not a set: the same decision gives the same rows in the same order, always.
    touched: dict[str, None] = {}
    for record in records:
        match record:
            case GenerationStarted() | AssignmentAccepted():
                touched |= dict.fromkeys(group.members)
            case MemberRemoved():
                touched[record.member_id] = None
            case MemberReplaced():
                touched |= {record.old_member_id: None, record.member.member_id: None}
                if group.must_rebalance and record.member.in_generation:
                    # What it offers may fit only what the others have offered since; stored offers always fit.
                    touched |= {member.member_id: None for member in group.members.values() if member.in_generation}
            case RebalanceStarted() | GroupCreated() | GroupEmptied() | GroupDied():
                pass  # Of members nothing but what other records say.
            case OffsetsCommitted() | OffsetRemoved():
                pass
            case _:
                _unstored: VolatileRecord = record  # Nothing else is left over, or mypy says so.
    rows: dict[str, MemberRow | None] = {**touched}
    for position, member in enumerate(group.members.values()):
        if member.member_id in touched and member.in_generation:
            rows[member.member_id] = _member_row(group, member, position, ledger)
    return rows


def _member_row(group: Group, member: Member, position: int, ledger: Ledger) -> MemberRow:
    is_consumer = group.protocol_type == CONSUMER
    return MemberRow(
        group_id=group.group_id,
        shard_id=ledger.shard_id,
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
        assigned_since_ms=ledger.assigned_since_ms(member.member_id),
        held=spans_to_json(ledger.held.get(member.member_id, ())),
        joined_at_ms=member.joined_at_ms,
        position=position,
    )


def _subscription_json(metadata: bytes) -> Json:
    topics = topics_of(metadata)
    return None if topics is None else {"topics": sorted(topics)}


def _assignment_json(assignment: bytes) -> Json:
    partitions = partitions_of(assignment)
    if partitions is None:
        return None
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions]


# -- rows become a group again ---------------------------------------------------------------------------


def load_group(stored: StoredGroup, at_ms: int, epoch: int = 0) -> tuple[Group, Ledger, GroupWrite | None]:
    """Return a stored group and its ledger, as a node that takes it over finds them.

    Args:
        stored: its rows.
        at_ms: wall time; when a rebalance that is abandoned here counts as over.
        epoch: of the lease under which it takes over.

    Returns:
        The group in a settled state, its ledger, and what is to be stored of a phase that was forgotten.

    Raises:
        UnreadableRow: the rows cannot be loaded.
    """
    check_rows(stored)
    group = _group_of(stored)
    ledger = _ledger_of(stored, at_ms, epoch)
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
        rebalance_members=tuple(history.rebalance_members),
    )
    return group, ledger, write


def _group_of(stored: StoredGroup) -> Group:
    row = stored.group
    state = GroupState(row.state)
    if state is PREPARING:
        state = GroupState(row.settled_state)
    is_untouched = state is EMPTY and row.generation == 0  # whoever was to be its first member is forgotten
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


def _ledger_of(stored: StoredGroup, at_ms: int, epoch: int) -> Ledger:
    row = stored.group
    ledger = Ledger(row.group_id, row.shard_id, epoch)
    ledger.created_at_ms = row.created_at_ms
    ledger.state = GroupState(row.state)
    ledger.generation = row.generation
    ledger.leader_id = row.leader_id
    ledger.member_count = len(stored.members)
    ledger.held = {member.member_id: spans_from_json(member.held) for member in stored.members}
    ledger.stays = {member.member_id: stay_of(member, at_ms) for member in stored.members}
    ledger.load_rebalance(row.rebalance)
    ledger.awaited = None if row.awaited_members is None else AwaitedMembers.from_json(row.awaited_members)
    return ledger
