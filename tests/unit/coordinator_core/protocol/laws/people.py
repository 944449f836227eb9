"""Random members: their requests, correct or not, and how a group of correct members becomes stable."""

from collections.abc import Callable
from dataclasses import dataclass

from coordinator_core.protocol.consumer_protocol import Subscription, write_subscription
from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    CommitOffsets,
    Deadline,
    DeadlineKind,
    DeleteGroup,
    DeleteOffsets,
    ExpireDeadline,
    ExpireOffsets,
    ExpiryCandidate,
    ForceRebalance,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    OffsetToRestore,
    PartitionToReset,
    Reevaluate,
    RemoveMember,
    RemoveTopicOffsets,
    Request,
    ResetOffsets,
    ResetTo,
    RestoreOffsets,
    Resume,
    RetireGroup,
    SupportedProtocol,
    SyncGroup,
)
from coordinator_core.protocol.states import COMPLETING, EMPTY, PREPARING, STABLE
from tests.unit.coordinator_core.protocol.laws.cells import NF, is_settled, state_of
from tests.unit.coordinator_core.protocol.laws.world import SETTINGS, World

ORDERS = write_subscription(Subscription(("orders",)))
SALES = write_subscription(Subscription(("orders", "sales")))
LISTS: tuple[tuple[SupportedProtocol, ...], ...] = (
    (SupportedProtocol("range", ORDERS),),
    (SupportedProtocol("range", SALES),),
    (SupportedProtocol("range", ORDERS), SupportedProtocol("cooperative-sticky", ORDERS)),
    (SupportedProtocol("cooperative-sticky", ORDERS), SupportedProtocol("range", ORDERS)),
    (SupportedProtocol("cooperative-sticky", SALES),),
    (SupportedProtocol("range", b"not readable"),),
    (),
)
"""Protocols of members; some have none in common, and one member has none."""

PATIENCE_MS = 200_000
"""Longer than any phase may last here."""
FOR_GOOD_MS = 3_600_000
"""Longer than any session timeout here."""


@dataclass(frozen=True, slots=True)
class Person:
    """What a process joins with."""

    instance_id: str | None = None
    protocols: tuple[SupportedProtocol, ...] = LISTS[0]
    session_ms: int = 10_000
    rebalance_ms: int = 20_000
    protocol_type: str = "consumer"
    is_old: bool = False
    can_skip: bool = True


def join(world: World, person: Person, member_id: str = NO_MEMBER_ID) -> JoinGroup:
    """Return a person's join."""
    return JoinGroup(
        token=world.token(),
        member_id=member_id,
        group_instance_id=person.instance_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=person.session_ms,
        rebalance_timeout_ms=person.rebalance_ms,
        protocol_type=person.protocol_type,
        protocols=person.protocols,
        new_member_id=world.fresh_id(person.instance_id or "m"),
        require_known_member_id=not person.is_old,
        supports_skip_assignment=person.can_skip,
    )


def join_again(world: World, member_id: str) -> JoinGroup:
    """Return a member's join with what it offers already."""
    member = world.group.members[member_id]
    person = Person(member.group_instance_id, member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
    return join(world, person, member_id)


def sync(world: World, member_id: str, *, is_good: bool = True) -> SyncGroup:
    """Return a member's sync; the leader's has the assignments of all members."""
    given = world.assignments(is_good=is_good) if member_id == world.group.leader_id else ()
    return SyncGroup(world.token(), world.group.generation, member_id, assignments=given)


def heartbeat(world: World, member_id: str) -> Heartbeat:
    """Return a member's heartbeat."""
    return Heartbeat(world.token(), world.group.generation, member_id)


def leave(world: World, *member_ids: str) -> LeaveGroup:
    """Return a leave of several."""
    return LeaveGroup(world.token(), tuple(map(LeavingMember, member_ids)))


def commit(world: World, member_id: str, generation: int, instance_id: str | None = None) -> CommitOffsets:
    """Return a commit of one offset."""
    return CommitOffsets(world.token(), generation, member_id, instance_id, (OffsetToCommit("orders", 0, 1),))


def delete_offsets(world: World, topic: str = "orders") -> DeleteOffsets:
    """Return a deletion of a topic's first offset."""
    return DeleteOffsets(world.token(), ((topic, 0),), tuple(world.offsets.values()), "change")


def delete_group(world: World) -> DeleteGroup:
    """Return a deletion of the group."""
    return DeleteGroup(world.token(), tuple(world.offsets.values()), "change")


def reset_offsets(world: World, to: ResetTo = ResetTo.OFFSET) -> ResetOffsets:
    """Return a reset of a partition that may have a position."""
    known = PartitionToReset("orders", 0, log_end=LogEnd(1, 9), offset_at_datetime=3)
    return ResetOffsets(world.token(), to, 5, (known,), (), tuple(world.offsets.values()), "change")


def restore_offsets(world: World, topic: str = "orders", *, is_maintenance_run: bool = False) -> RestoreOffsets:
    """Return an undo of the change that stored the current offsets; before, the offset was 7."""
    standing = world.offsets.get((topic, 0))
    left = (None, None) if standing is None else (standing.offset, standing.committed_at_ms)
    offset = OffsetToRestore(topic, 0, 7, offset_after_change=left[0], changed_at_ms=left[1])
    return RestoreOffsets(world.token(), (offset,), tuple(world.offsets.values()), "undo", is_maintenance_run)


def remove_topic_offsets(world: World) -> RemoveTopicOffsets:
    """Return that a topic is deleted."""
    stored = tuple(world.offsets.values())
    candidates = tuple(ExpiryCandidate(one.topic, one.partition, one.commit_version) for one in stored)
    return RemoveTopicOffsets(world.token(), candidates, stored, "change")


def expire_offsets(world: World) -> ExpireOffsets:
    """Return the expiry of all stored offsets."""
    stored = tuple(world.offsets.values())
    candidates = tuple(ExpiryCandidate(one.topic, one.partition, one.commit_version) for one in stored)
    return ExpireOffsets(world.token(), candidates, stored, "change")


def retire(world: World) -> RetireGroup:
    """Return maintenance's wish to be rid of the group."""
    return RetireGroup(world.token(), has_offsets=bool(world.offsets))


def force_rebalance(world: World) -> ForceRebalance:
    """Return an operator's wish for a new generation."""
    return ForceRebalance(world.token(), "because")


def remove_member(world: World, member_id: str) -> RemoveMember:
    """Return an operator's wish that a member goes."""
    return RemoveMember(world.token(), member_id, "because")


# -- good members -----------------------------------------------------------------------------------------------


def settle(world: World) -> None:
    """Let every member follow the protocol until the group is Stable or has no members."""
    end_ms = world.now_ms + PATIENCE_MS
    while not (is_settled(world.group) or (world.group.state not in {PREPARING, COMPLETING} and _is_idle(world))):
        assert world.now_ms < end_ms, "good members do not settle"
        _take_a_turn(world)
        if world.group.state is PREPARING:
            world.advance_to_the_next_deadline()


def _is_idle(world: World) -> bool:
    return not world.group.members and not world.group.pending_member_ids


def _take_a_turn(world: World) -> None:
    for member_id in sorted(world.group.pending_member_ids):
        world.process(join(world, _like_the_others(world), member_id))
    for member_id in list(world.group.members):
        if member_id not in world.group.members or world.group.is_waiting(member_id):
            continue
        if world.group.state is PREPARING:
            world.process(join_again(world, member_id))
        elif world.group.state in {COMPLETING, STABLE}:
            world.process(sync(world, member_id))


def _like_the_others(world: World) -> Person:
    """Return a member that the group accepts."""
    first = next(iter(world.group.members.values()), None)
    if first is None:
        return Person(protocol_type=world.group.protocol_type or "consumer")
    names = world.group.candidate_protocols()
    offers = tuple(SupportedProtocol(name, ORDERS) for name in sorted(names))
    return Person(protocols=offers, protocol_type=world.group.protocol_type or "consumer")


def fall_silent(world: World) -> None:
    """Stop all requests: every member is evicted, and no request waits."""
    world.advance(FOR_GOOD_MS)
    group = world.group
    assert not group.exists or group.state is EMPTY, "the silent are still there"
    assert not group.members
    assert not group.pending_member_ids
    assert not world.memory.waiting, "a request still waits"


# -- a visit to a cell of the table --------------------------------------------------------------------------------


def visit(world: World, row: str, state: str) -> None:
    """Create a group in a state, with all members of the table, and send the request."""
    _clear(world)
    if state == "Dead":
        world.process_for_dead_group(REQUESTS[row](world), row)
        return
    if state != NF:
        reach_state(world, state)
    assert state_of(world.group) == state
    world.process(REQUESTS[row](world), row)


def reach_state(world: World, state: str) -> None:
    """Let three members, the last one static and the first one leading, and a pending member id be in a state."""
    world.process(commit(world, NO_MEMBER_ID, -1))
    if state != EMPTY:
        for person in (Person(is_old=True), Person(is_old=True), Person(instance_id="S")):
            world.process(join(world, person))
        settle(world)
    world.process(join(world, Person()))
    if state in {PREPARING, COMPLETING}:
        world.process(join_again(world, _leader(world)))
    if state == COMPLETING:
        world.process(leave(world, *world.group.pending_member_ids))
        for member_id in list(world.group.members)[1:]:
            world.process(join_again(world, member_id))
        world.process(join(world, Person()))


def _clear(world: World) -> None:
    world.change_settings(SETTINGS)
    fall_silent(world)
    if world.group.exists:
        world.process(delete_group(world))


def _leader(world: World) -> str:
    return world.group.leader_id or "no-member"


def _follower(world: World) -> str:
    return next((one for one in world.group.members if one != world.group.leader_id), "no-member")


def _pending_member(world: World) -> str:
    return next(iter(world.group.pending_member_ids), "no-member")


REQUESTS: dict[str, Callable[[World], Request]] = {
    "join new": lambda world: join(world, Person()),
    "join pending": lambda world: join(world, Person(), _pending_member(world)),
    "join new static": lambda world: join(world, Person(instance_id="N")),
    "join known static": lambda world: join(world, Person(instance_id="S")),
    "join follower same": lambda world: join(world, Person(), _follower(world)),
    "join leader same": lambda world: join(world, Person(), _leader(world)),
    "join changed": lambda world: join(world, Person(protocols=LISTS[1]), _follower(world)),
    "sync leader": lambda world: sync(world, _leader(world)),
    "sync follower": lambda world: sync(world, _follower(world)),
    "heartbeat": lambda world: heartbeat(world, _follower(world)),
    "leave member": lambda world: leave(world, _follower(world)),
    "leave pending": lambda world: leave(world, _pending_member(world)),
    "commit member": lambda world: commit(world, _follower(world), world.group.generation),
    "commit simple": lambda world: commit(world, NO_MEMBER_ID, -1),
    "commit -1 with ids": lambda world: commit(world, _follower(world), -1),
    "delete offsets": delete_offsets,
    "delete group": delete_group,
    "reset offsets": reset_offsets,
    "restore offsets": restore_offsets,
    "a run restores": lambda world: restore_offsets(world, is_maintenance_run=True),
    "topic deleted": remove_topic_offsets,
    "expire offsets": expire_offsets,
    "retire": retire,
    "force rebalance": force_rebalance,
    "remove member": lambda world: remove_member(world, _follower(world)),
    "join limit": lambda _: ExpireDeadline(Deadline(DeadlineKind.JOIN)),
    "sync limit": lambda _: ExpireDeadline(Deadline(DeadlineKind.SYNC)),
    "member's time": lambda world: ExpireDeadline(Deadline(DeadlineKind.SESSION, _follower(world))),
    "pending's time": lambda world: ExpireDeadline(Deadline(DeadlineKind.PENDING_MEMBER, _pending_member(world))),
    "settings changed": lambda _: Reevaluate(is_rebalance_timeout_changed=True),
    "loaded": lambda _: Resume(),
}
"""Row of the table → its request, from a present member (or "no-member")."""
