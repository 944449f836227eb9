"""Builders of groups in every state, short request functions, and summaries of decisions.

The usual group has three members in generation 7: a leads, b follows, s is static (its instance is S). A handshake
id, h, may be pending. The token of a parked request identifies its member.
"""

from collections.abc import Iterable, Mapping

from coordinator_core.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    write_assignment,
    write_subscription,
)
from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    GroupRecord,
    JoinParked,
    MemberJoined,
    MemberRemoved,
    PendingMemberAdded,
    RebalanceStarted,
    RemovalReason,
    SyncParked,
    SyncReceived,
    Trigger,
)
from coordinator_core.protocol.requests import (
    CommitOffsets,
    Deadline,
    DeadlineKind,
    ExpireDeadline,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    Request,
    StoredOffset,
    SupportedProtocol,
    SyncGroup,
    Token,
)
from coordinator_core.protocol.responses import Answer, Reply
from coordinator_core.protocol.settings import Context, GroupSettings, Now

GROUP_ID = "g"
GENERATION = 7
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
BORN_MS = 1_600_000_000_000
"""Wall time of everything in a group's past."""
NOW = Now(node_ms=5_000_000, wall_ms=1_700_000_000_000)
PHASE_START_NODE_MS = NOW.node_ms - 1_000
"""When the phase that a group is in began: a second ago."""

TOKEN = 1
"""The token of the request under test."""
_JOINS = {"a": 11, "b": 12, "s": 13, "n": 14}
_SYNCS = {"a": 21, "b": 22, "s": 23}
_NAMES = {token: f"{who}.join" for who, token in _JOINS.items()} | {t: f"{who}.sync" for who, t in _SYNCS.items()}

# -- members ----------------------------------------------------------------------------------------------


def offers(*names: str, topics: tuple[str, ...] = ("orders",)) -> tuple[SupportedProtocol, ...]:
    """Return protocols of these names, each with the same subscription."""
    metadata = write_subscription(Subscription(topics))
    return tuple(SupportedProtocol(name, metadata) for name in names or ("range",))


def member(
    member_id: str,
    instance_id: str | None = None,
    protocols: tuple[SupportedProtocol, ...] | None = None,
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
) -> Member:
    """Return a new member."""
    return Member(
        member_id,
        instance_id,
        f"client-{member_id}",
        "/127.0.0.1",
        session_ms,
        rebalance_ms,
        offers() if protocols is None else protocols,
        BORN_MS,
    )


A, B, S = member("a"), member("b"), member("s", "S")
USUAL = (A, B, S)


def assigned(*partitions: int, topic: str = "orders") -> bytes:
    """Return the bytes of an assignment of one topic's partitions."""
    return write_assignment(Assignment((TopicPartitions(topic, partitions),)))


HELD = {"a": assigned(0), "b": assigned(1), "s": assigned(2)}

# -- groups in every state --------------------------------------------------------------------------------


def unknown_group() -> Group:
    """Return a group that does not exist."""
    return Group(GROUP_ID)


def fresh(pending: Iterable[str] = ()) -> Group:
    """Return a group without members."""
    return unknown_group().fold([GroupCreated(BORN_MS), *map(PendingMemberAdded, pending)])


def delayed(
    *members: Member, initial_delay_ms: int = DELAY_MS, remaining_delay_ms: int = 0, pending: Iterable[str] = ()
) -> Group:
    """Return a group in its initial rebalance delay, which the first member started."""
    first, *others = members
    records: list[GroupRecord] = [
        MemberJoined(first, "consumer"),
        _parked_join(first.member_id),
        _started(Trigger.MEMBER_JOINED, initial_delay_ms=initial_delay_ms, remaining_delay_ms=remaining_delay_ms),
    ]
    for other in others:
        records += [MemberJoined(other, "consumer"), _parked_join(other.member_id)]
    return fresh().fold([*records, *map(PendingMemberAdded, pending)])


def completing(
    *members: Member, synced: Iterable[str] = (), pending: Iterable[str] = (), protocol_type: str = "consumer"
) -> Group:
    """Return a group whose leader, its first member, is to assign; those in `synced` have a sync parked."""
    members = members or USUAL
    records: list[GroupRecord] = [MemberJoined(one, protocol_type) for one in members]
    records += [
        _started(Trigger.MEMBER_JOINED, initial_delay_ms=DELAY_MS),
        *(_parked_join(one.member_id) for one in members),
    ]
    records += [_generation(members), *map(_parked_sync, synced), *map(PendingMemberAdded, pending)]
    return fresh().fold(records)


def stable(
    *members: Member,
    held: Mapping[str, bytes] = HELD,
    late: Iterable[str] = (),
    pending: Iterable[str] = (),
    protocol_type: str = "consumer",
) -> Group:
    """Return a group that has its assignment; those in `late` have not synced yet."""
    members = members or USUAL
    accepted = AssignmentAccepted(BORN_MS, 1, tuple((one.member_id, held.get(one.member_id, b"")) for one in members))
    records: list[GroupRecord] = [accepted, *map(PendingMemberAdded, pending)]
    records += [SyncReceived(BORN_MS, one.member_id) for one in members if one.member_id not in late]
    return completing(*members, protocol_type=protocol_type).fold(records)


def preparing(
    *members: Member,
    joined: Iterable[str] = (),
    pending: Iterable[str] = (),
    new_members: Iterable[Member] = (),
    of: Group | None = None,
) -> Group:
    """Return a Stable group (or `of`) that rebalances; those in `joined` have rejoined, as have new members."""
    records: list[GroupRecord] = [
        _started(Trigger.LEADER_REJOINED),
        *map(_parked_join, joined),
        *map(PendingMemberAdded, pending),
    ]
    for one in new_members:
        records += [MemberJoined(one, "consumer"), _parked_join(one.member_id)]
    return (of or stable(*members)).fold(records)


def empty(pending: Iterable[str] = (), protocol_type: str = "consumer") -> Group:
    """Return a group whose members have left, at generation 7."""
    records: list[GroupRecord] = [
        MemberRemoved(BORN_MS, "a", RemovalReason.LEFT),
        _started(Trigger.MEMBER_LEFT),
        GroupEmptied(BORN_MS, GENERATION),
        *map(PendingMemberAdded, pending),
    ]
    return completing(A, protocol_type=protocol_type).fold(records)


def dead() -> Group:
    """Return a group that has just been removed."""
    return empty().fold([GroupDied(BORN_MS, "deleted")])


def _started(trigger: Trigger, initial_delay_ms: int | None = None, remaining_delay_ms: int = 0) -> RebalanceStarted:
    return RebalanceStarted(
        BORN_MS,
        PHASE_START_NODE_MS,
        trigger,
        None,
        None,
        None,
        initial_delay_ms=initial_delay_ms,
        remaining_delay_ms=remaining_delay_ms,
    )


def _generation(members: Iterable[Member]) -> GenerationStarted:
    first = next(iter(members))
    return GenerationStarted(
        at_ms=BORN_MS,
        node_ms=PHASE_START_NODE_MS,
        timeout_ms=None,
        generation=GENERATION,
        protocol_name=first.protocols[0].name,
        leader_id=first.member_id,
        subscribed_topics=frozenset({"orders"}),
        topics_version=1,
    )


def _parked_join(member_id: str) -> JoinParked:
    return JoinParked(BORN_MS, member_id, _JOINS[member_id])


def _parked_sync(member_id: str) -> SyncParked:
    return SyncParked(BORN_MS, member_id, _SYNCS[member_id])


# -- requests ---------------------------------------------------------------------------------------------


def join(
    member_id: str = "",
    instance_id: str | None = None,
    protocols: tuple[SupportedProtocol, ...] | None = None,
    *,
    fresh_id: str = "n",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
    protocol_type: str = "consumer",
    is_old_client: bool = False,
    can_skip: bool = True,
) -> JoinGroup:
    """Return a join; anonymous unless a member id is given."""
    return JoinGroup(
        token=TOKEN,
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="client-n",
        client_host="/127.0.0.1",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type=protocol_type,
        protocols=offers() if protocols is None else protocols,
        new_member_id=fresh_id,
        require_known_member_id=not is_old_client,
        supports_skip_assignment=can_skip,
    )


def sync(
    member_id: str,
    *given: tuple[str, bytes],
    generation: int = GENERATION,
    instance_id: str | None = None,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
) -> SyncGroup:
    """Return a sync; the leader's brings what each member is `given`."""
    return SyncGroup(TOKEN, generation, member_id, instance_id, protocol_type, protocol_name, given)


def heartbeat(member_id: str, generation: int = GENERATION, instance_id: str | None = None) -> Heartbeat:
    """Return a heartbeat."""
    return Heartbeat(TOKEN, generation, member_id, instance_id)


def leave(*leaving_members: LeavingMember | str) -> LeaveGroup:
    """Return a leave of some members."""
    return LeaveGroup(
        TOKEN, tuple(one if isinstance(one, LeavingMember) else LeavingMember(one) for one in leaving_members)
    )


def commit(
    member_id: str = "",
    generation: int = GENERATION,
    instance_id: str | None = None,
    *offsets: OffsetToCommit,
    retention_ms: int = -1,
) -> CommitOffsets:
    """Return a commit, of offset 5 of orders 0 unless offsets are given."""
    return CommitOffsets(
        TOKEN, generation, member_id, instance_id, offsets or (OffsetToCommit("orders", 0, 5),), retention_ms
    )


def expire(kind: DeadlineKind, subject: str = "") -> ExpireDeadline:
    """Return that a deadline has passed."""
    return ExpireDeadline(Deadline(kind, subject))


def stored_offset(
    topic: str = "orders", partition: int = 0, *, committed_at_ms: int = BORN_MS, version: int = 1
) -> StoredOffset:
    """Return an offset as it stands in the store."""
    return StoredOffset(topic, partition, 5, -1, "", None, committed_at_ms, None, version)


# -- decisions and their summaries -----------------------------------------------------------------------------


def decided(group: Group, request: Request, settings: GroupSettings | None = None, now: Now = NOW) -> Decision:
    """Decide a request with the default settings, or others."""
    return decide(group, request, now, Context(settings or GroupSettings()))


def reply(decision: Decision, token: Token = TOKEN) -> Reply:
    """Return the one reply to a token."""
    (found,) = [one for one in decision.replies if one.token == token]
    return found


def answer(decision: Decision, token: Token = TOKEN) -> Answer:
    """Return the one response to a token, which is not an error."""
    found = reply(decision, token).answer
    assert not isinstance(found, CoordinatorError), found.code
    return found


def replies_of(decision: Decision) -> list[str]:
    """Return the replies: to the request itself by the response, to parked requests with their names."""
    return [_reply_text(one) for one in decision.replies]


def recorded(decision: Decision) -> list[str]:
    """Return the names of the records."""
    return [type(record).__name__ for record in decision.records]


def timed(decision: Decision) -> dict[str, int | None]:
    """Return timer → delay in milliseconds, or None where it stops."""
    return {":".join(filter(None, (one.kind, one.subject))): delay_ms for one, delay_ms in decision.deadlines}


def summary_of(decision: Decision) -> str:
    """Return a decision in one line: state after it; replies; records; timers."""
    timers = " ".join(f"{name}={'off' if ms is None else ms}" for name, ms in timed(decision).items())
    return "; ".join(
        [
            f"{decision.group.state} {decision.group.generation}",
            ", ".join(replies_of(decision)) or "no reply",
            " ".join(recorded(decision)) or "nothing",
            timers or "no timer",
        ]
    )


def _reply_text(one: Reply) -> str:
    what = one.answer.code if isinstance(one.answer, CoordinatorError) else type(one.answer).__name__
    return what if one.token == TOKEN else f"{_NAMES[one.token]} {what}"
