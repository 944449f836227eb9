"""The laws, by name; each checks one step and returns what is wrong with it."""

from collections.abc import Callable

from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.errors import GroupMaxSizeReached, MemberIdRequired
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupEmptied,
    MemberRemoved,
    OffsetRemoved,
    OffsetsCommitted,
    RebalanceStarted,
    RemovalReason,
)
from coordinator_core.protocol.requests import (
    CommitOffsets,
    Deadline,
    DeadlineKind,
    ExpireDeadline,
    ResetOffsets,
    RestoreOffsets,
    SyncGroup,
)
from coordinator_core.protocol.responses import JoinGroupResponse, SyncGroupResponse
from coordinator_core.protocol.states import COMPLETING, EMPTY, PREPARING, STABLE, is_legal
from tests.unit.coordinator_core.protocol.laws.cells import BESIDE_THE_TABLE, CELLS, outcome, row_of, state_of
from tests.unit.coordinator_core.protocol.laws.steps import (
    UNKNOWN_ID,
    Step,
    is_disjoint,
    limit_ms_of,
    partitions_in,
    picture,
)

Law = Callable[[Step], None]


# -- decisions ------------------------------------------------------------------------------------------------


def state_is_the_fold_of_records(step: Step) -> None:
    """What the decision leaves is what its records make of what was there."""
    folded = step.path[-1][2] if step.path else step.before
    for name in Group.FIELDS:
        assert getattr(folded, name) == getattr(step.after, name), f"{name} is not the fold of the records"


def errors_change_nothing(step: Step) -> None:
    """Not a record, and the very same group.

    Except for MEMBER_ID_REQUIRED, which issues an id, and a full group, which removes the refused member.
    """
    if step.refusal is not None and not isinstance(step.refusal, GroupMaxSizeReached | MemberIdRequired):
        assert step.after is step.before, "a refused request made another group"
        assert not step.decision.records, "a refused request has records"


def decisions_do_not_mutate_the_group(step: Step) -> None:
    """A decision does not change its input."""
    assert picture(step.before) == step.picture


def no_records_means_no_change(step: Step) -> None:
    """Without records the decision has the same group object."""
    assert bool(step.records) == (step.after is not step.before), "a new group without a record"


def every_token_is_answered_once_or_parked(step: Step) -> None:
    """Every request is answered now, or parked and answered later; none is lost or answered twice."""
    reported = [reply.token for reply in step.decision.replies]
    asked = getattr(step.request, "token", None)
    known = {*step.memory.waiting, *([] if asked is None else [asked])}
    assert len(reported) == len(set(reported)), "a token is answered twice"
    assert known.issuperset(reported), "an unknown token is answered"
    parked = {*step.after.parked_joins.values(), *step.after.parked_syncs.values()}
    assert known.difference(reported) == parked, "waiting and parked requests differ"


def responses_match_the_request_table(step: Step) -> None:
    """Every request is answered as its cell of the table says, unless it is refused before the state matters."""
    row = row_of(step.before, step.request) if step.row is None else step.row
    word = outcome(step.request, step.decision)
    if row is not None and word not in BESIDE_THE_TABLE:
        cell = row, state_of(step.before)
        assert word in CELLS[cell], f"{cell} was answered {word}"


# -- states and generations -------------------------------------------------------------------------------------


def transitions_are_legal(step: Step) -> None:
    """Every record that changes the state is a legal transition; the first makes the group Empty."""
    for before, record, after in step.path:
        if isinstance(record, GroupCreated):
            assert not before.exists
            assert after.state is EMPTY
        elif before.state is not after.state:
            assert is_legal(before.state, after.state), f"{before.state} → {after.state}"


def state_and_time_move_together(step: Step) -> None:
    """`state_since` changes when the state does, and is then now."""
    for before, _, after in step.path:
        if before.state is after.state:
            assert before.state_since_ms == after.state_since_ms, "the time moved without the state"
        else:
            assert after.state_since_ms == step.now.wall_ms, "the state moved without the time"


def generations_only_grow(step: Step) -> None:
    """By one, when a join phase ends; no number is used twice in one lifetime, even if nodes are lost."""
    used = set(step.memory.generations)
    for before, record, after in step.path:
        if isinstance(record, GenerationStarted | GroupEmptied):
            assert before.state is PREPARING
            assert after.generation == before.generation + 1, "a generation was skipped or went back"
            assert after.generation not in used, "a generation was used twice"
            used.add(after.generation)
        else:
            assert after.generation == before.generation, "the generation moved outside of a phase's end"


def join_phase_ends_early_only_without_awaited_members(step: Step) -> None:
    """The initial rebalance delay never does; an ordinary phase if no member is missing or pending."""
    if step.request == ExpireDeadline(Deadline(DeadlineKind.JOIN)):
        return
    is_allowed_no_time = False
    for before, record, after in step.path:
        if isinstance(record, RebalanceStarted):
            is_allowed_no_time = (
                limit_ms_of(after, step.context) == 0
                if record.initial_delay_ms is None
                else not record.initial_delay_ms
            )
        elif isinstance(record, GenerationStarted | GroupEmptied) and not is_allowed_no_time:
            assert before.initial_delay_ms is None, "an initial rebalance delay ended early"
            assert before.members.keys() == before.parked_joins.keys(), "a member was missing"
            assert not before.pending_member_ids, "a pending member id was awaited"


def join_phase_without_awaited_members_ends(step: Step) -> None:
    """An ordinary phase ends with the last one awaited, pending member ids included."""
    group = step.after
    if group.state is PREPARING and group.initial_delay_ms is None:
        assert group.members.keys() != group.parked_joins.keys() or group.pending_member_ids, "no member is missing"


def leader_joined_and_protocol_is_supported_by_all(step: Step) -> None:
    """Absent dynamic members are removed; every member supports the chosen protocol."""
    for before, record, after in step.path:
        if isinstance(record, GenerationStarted):
            assert record.leader_id in before.parked_joins, "the leader has not joined"
            absent = [member for member in before.members.values() if member.member_id not in before.parked_joins]
            assert all(member.is_static for member in absent), "a dynamic member that has not joined is still there"
            assert all(member.supports(after.protocol_name) for member in after.members.values())


def topics_change_when_a_join_phase_ends(step: Step) -> None:
    """What members read together is found at the end of a join phase, and at no other time."""
    for before, record, after in step.path:
        if not isinstance(record, GenerationStarted | GroupEmptied):
            assert before.subscribed_topics == after.subscribed_topics, "the topics moved"


# -- members ------------------------------------------------------------------------------------------------------


def non_empty_groups_are_led_by_a_member(step: Step) -> None:
    """A group without members has no leader."""
    group = step.after
    if group.members:
        assert group.leader_id in group.members, "the leader is no member"
    else:
        assert group.leader_id is None, "an empty group has a leader"


def static_member_map_is_a_bijection(step: Step) -> None:
    """Every instance has one member and every static member one instance, which are each other's."""
    instances = {m.group_instance_id: m.member_id for m in step.after.members.values() if m.is_static}
    assert instances == step.after.static_members
    assert len(instances) == sum(member.is_static for member in step.after.members.values())


def parked_requests_match_the_state(step: Step) -> None:
    """Requests are parked in no other state, and only for members."""
    group = step.after
    assert group.state is PREPARING or not group.parked_joins, "a join waits outside of a join phase"
    assert group.state is COMPLETING or not group.parked_syncs, "a sync waits when no assignment is awaited"
    assert group.state in {COMPLETING, STABLE} or not group.pending_syncs, "a sync is awaited of a generation past"
    assert group.members.keys() >= {*group.parked_joins, *group.parked_syncs, *group.pending_syncs}


def pending_members_are_not_members(step: Step) -> None:
    """An id is one or the other, and a removed id is not used again."""
    group = step.after
    assert not group.pending_member_ids & group.members.keys()
    assert not step.memory.gone_ids & group.members.keys(), "a removed member id is a member again"


def new_members_exist_only_in_a_join_phase(step: Step) -> None:
    """From the first generation on, a member is part of it."""
    group = step.after
    if group.state in {COMPLETING, STABLE}:
        assert all(member.in_generation and not member.is_new for member in group.members.values())


def nothing_is_owned_while_assigning(step: Step) -> None:
    """A generation begins without assignments."""
    if step.after.state is COMPLETING:
        assert not any(member.assignment for member in step.after.members.values())


def supported_protocols_are_counted(step: Step) -> None:
    """The tally of protocols is what members offer, and there is one that all do."""
    group = step.after
    names = [{name for name, _ in member.protocols} for member in group.members.values()]
    tally = {name: sum(name in one for one in names) for name in set[str]().union(*names)}
    assert group.supported_protocols == tally, "the tally of protocols is wrong"
    assert group.candidate_protocols() or not group.members, "no protocol is supported_protocols by all"


def groups_without_members_are_empty(step: Step) -> None:
    """Empty has no members, and Completing and Stable have some."""
    group = step.after
    assert not (group.state is EMPTY and group.members)
    assert group.members or group.state not in {COMPLETING, STABLE}


def members_with_parked_requests_do_not_expire(step: Step) -> None:
    """A member whose request is parked does not expire, unless it is new and has waited for too long."""
    for before, record, _ in step.path:
        if not isinstance(record, MemberRemoved):
            continue
        is_waiting = record.member_id in {*before.parked_joins, *before.parked_syncs}
        if record.removal_reason is RemovalReason.SESSION_EXPIRED:
            assert not is_waiting, "a waiting member expired"
        elif record.removal_reason is RemovalReason.NEW_MEMBER_TIMEOUT:
            assert is_waiting
            assert before.members[record.member_id].is_new


# -- responses ----------------------------------------------------------------------------------------------------


def all_members_get_the_same_generation(step: Step) -> None:
    """Only the leader's response has the members, unless it must not assign."""
    for reply in step.decision.replies:
        if isinstance(reply.answer, JoinGroupResponse):
            answer, group = reply.answer, step.after
            assert (answer.generation, answer.protocol_name) == (group.generation, group.protocol_name)
            assert answer.member_id in group.members
            if answer.members:
                assert answer.member_id == group.leader_id == answer.leader_id
                assert [one.member_id for one in answer.members] == list(group.members)


def members_get_only_their_own_assignment(step: Step) -> None:
    """A sync is answered the member's own part, as the group had it when it was Stable."""
    stable = next((after for _, _, after in step.path if after.state is STABLE), step.before)
    whose = dict(step.memory.waiting)
    if isinstance(step.request, SyncGroup):
        whose[step.request.token] = step.request.member_id
    for reply in step.decision.replies:
        if isinstance(reply.answer, SyncGroupResponse):
            assert reply.answer.assignment == stable.members[whose[reply.token]].assignment


def partitions_have_one_owner(step: Step) -> None:
    """If the leader assigned well, no partition of a generation has two owners."""
    accepted = any(isinstance(record, AssignmentAccepted) for record in step.records)
    is_well = is_disjoint(step.request) if accepted else step.memory.is_assigned_well
    if step.after.state is STABLE and is_well:
        held = [partition for member in step.after.members.values() for partition in partitions_in(member.assignment)]
        assert len(held) == len(set(held)), "a partition has two owners"


def partitions_keep_their_owner_while_stable(step: Step) -> None:
    """While a group is Stable, members keep all partitions that the leader assigned, even if nodes are lost."""
    given = set(step.memory.given)
    for _, record, _ in step.path:
        if isinstance(record, AssignmentAccepted):
            assert isinstance(step.request, SyncGroup)
            reported = dict(step.request.assignments)
            given = {
                one for who, assignment in reported.items() if who != UNKNOWN_ID for one in partitions_in(assignment)
            }
    if step.after.state is STABLE:
        held = {one for member in step.after.members.values() for one in partitions_in(member.assignment)}
        assert held == given, "a partition has no owner"


def fenced_and_stale_commits_are_rejected(step: Step) -> None:
    """Only a member of this generation commits, or a non-member while the group is Empty."""
    if not isinstance(step.request, CommitOffsets):
        return
    if not any(isinstance(record, OffsetsCommitted) for record in step.decision.records):
        return
    before, request = step.before, step.request
    if request.generation < 0:
        assert not before.exists or before.state is EMPTY, "a simple commit into a live group"
        return
    assert request.member_id in before.members
    assert request.member_id not in step.memory.gone_ids, "a removed member has committed"
    assert request.generation == before.generation, "another generation has committed"
    assert before.state in {STABLE, PREPARING}
    if request.group_instance_id is not None:
        assert before.static_members[request.group_instance_id] == request.member_id, "the fenced have committed"


def offsets_of_live_groups_are_not_reset(step: Step) -> None:
    """An operator changes no offset that a member reads."""
    if isinstance(step.request, ResetOffsets | RestoreOffsets):
        group = step.before
        for record in step.decision.records:
            if isinstance(record, OffsetsCommitted) and group.members:
                assert group.protocol_type == CONSUMER, "the subscription is unknown"
                topics = {one.topic for one in record.offsets}
                assert not topics & (group.subscribed_topics or topics), "a member reads it, or will"


def undo_keeps_newer_values(step: Step) -> None:
    """Only offsets of the change are removed; restored ones have their own expiry if there is a retention."""
    if not isinstance(step.request, RestoreOffsets):
        return
    stood = {(one.topic, one.partition): (one.offset, one.committed_at_ms) for one in step.request.stored}
    left = {(one.topic, one.partition): (one.offset_after_change, one.changed_at_ms) for one in step.request.offsets}
    for record in step.decision.records:
        if isinstance(record, OffsetsCommitted):
            for one in record.offsets:
                key = (one.topic, one.partition)
                assert stood.get(key, (None, None)) == left[key], "something newer stood there"
            assert record.expires_at_ms == record.at_ms + step.context.settings.retention_ms
        elif isinstance(record, OffsetRemoved):
            key = (record.offset.topic, record.offset.partition)
            assert stood[key] == left[key], "something newer stood there"


LAWS: tuple[Law, ...] = (
    state_is_the_fold_of_records,
    errors_change_nothing,
    decisions_do_not_mutate_the_group,
    no_records_means_no_change,
    every_token_is_answered_once_or_parked,
    responses_match_the_request_table,
    transitions_are_legal,
    state_and_time_move_together,
    generations_only_grow,
    join_phase_ends_early_only_without_awaited_members,
    join_phase_without_awaited_members_ends,
    leader_joined_and_protocol_is_supported_by_all,
    topics_change_when_a_join_phase_ends,
    non_empty_groups_are_led_by_a_member,
    static_member_map_is_a_bijection,
    parked_requests_match_the_state,
    pending_members_are_not_members,
    new_members_exist_only_in_a_join_phase,
    nothing_is_owned_while_assigning,
    supported_protocols_are_counted,
    groups_without_members_are_empty,
    members_with_parked_requests_do_not_expire,
    all_members_get_the_same_generation,
    members_get_only_their_own_assignment,
    partitions_have_one_owner,
    partitions_keep_their_owner_while_stable,
    fenced_and_stale_commits_are_rejected,
    offsets_of_live_groups_are_not_reset,
    undo_keeps_newer_values,
)
