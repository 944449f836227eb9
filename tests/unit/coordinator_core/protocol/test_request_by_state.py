"""Every cell of the table "request by state": what is asked, where the group stands, and all that follows.

A line reads: state and generation after; who is told what; records; timers. `off` stops a timer.

Source: protocol.md section 12.
"""

import pytest

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import (
    DeleteGroup,
    DeleteOffsets,
    ExpiryCandidate,
    OffsetToRestore,
    PartitionToReset,
    RemoveTopicOffsets,
    Request,
    ResetOffsets,
    ResetTo,
    RestoreOffsets,
)
from tests.unit.coordinator_core.protocol.groups import (
    HELD,
    TOKEN,
    ask,
    commit,
    completing,
    dead,
    empty,
    heartbeat,
    join,
    leave,
    nobody_saw,
    offers,
    preparing,
    stable,
    stored_offset,
    sync,
    tell,
)

GROUPS: dict[str, Group] = {
    "NF": nobody_saw(),
    "Empty": empty(pending=["h"]),
    "Preparing": preparing(pending=["h"]),
    "Completing": completing(synced=["b"], pending=["h"]),
    "Stable": stable(pending=["h"]),
    "Dead": dead(),
}
CHANGED = offers("range", topics=("orders", "sales"))
NO_GROUP = "Dead 0; UNKNOWN_MEMBER_ID; nothing; no timer"
NOT_FOUND = "Dead 0; GROUP_ID_NOT_FOUND; nothing; no timer"
STRANGER = "Empty 7; UNKNOWN_MEMBER_ID; nothing; no timer"
GONE = "Dead 7; COORDINATOR_NOT_AVAILABLE; nothing; no timer"
REJOINED = "MemberUpdated JoinParked RebalanceStarted"
"""What a member's own join starts a phase with."""

JOINS: list[tuple[str, Request, dict[str, str]]] = [
    (
        "join, anonymous and dynamic",
        join(),
        {
            "NF": "Empty 0; MEMBER_ID_REQUIRED; GroupCreated MemberIdIssued; handshake:n=10000",
            "Empty": "Empty 7; MEMBER_ID_REQUIRED; MemberIdIssued; handshake:n=10000",
            "Preparing": "PreparingRebalance 7; MEMBER_ID_REQUIRED; MemberIdIssued; handshake:n=10000",
            "Completing": "CompletingRebalance 7; MEMBER_ID_REQUIRED; MemberIdIssued; handshake:n=10000",
            "Stable": "Stable 7; MEMBER_ID_REQUIRED; MemberIdIssued; handshake:n=10000",
            "Dead": GONE,
        },
    ),
    (
        "join with a handshake id",
        join("h"),
        {
            "NF": NO_GROUP,
            "Empty": "PreparingRebalance 7; nobody; MemberIdDropped MemberJoined JoinParked RebalanceStarted; "
            "handshake:h=off member:h=300000 sync=off join=3000",
            "Preparing": "PreparingRebalance 7; nobody; MemberIdDropped MemberJoined JoinParked; "
            "handshake:h=off member:h=300000",
            "Completing": "PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; "
            "MemberIdDropped MemberJoined JoinParked RebalanceStarted; "
            "handshake:h=off member:h=300000 member:b=10000 sync=off join=60000",
            "Stable": "PreparingRebalance 7; nobody; MemberIdDropped MemberJoined JoinParked RebalanceStarted; "
            "handshake:h=off member:h=300000 sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "join, anonymous and static, of an instance that is new",
        join(instance_id="N"),
        {
            "NF": "PreparingRebalance 0; nobody; GroupCreated MemberJoined JoinParked RebalanceStarted; "
            "member:n=300000 sync=off join=3000",
            "Empty": "PreparingRebalance 7; nobody; MemberJoined JoinParked RebalanceStarted; "
            "member:n=300000 sync=off join=3000",
            "Preparing": "PreparingRebalance 7; nobody; MemberJoined JoinParked; member:n=300000",
            "Completing": "PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; "
            "MemberJoined JoinParked RebalanceStarted; member:n=300000 member:b=10000 sync=off join=60000",
            "Stable": "PreparingRebalance 7; nobody; MemberJoined JoinParked RebalanceStarted; "
            "member:n=300000 sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "join, anonymous and static, of an instance that is known",
        join(instance_id="S"),
        {
            "Preparing": "PreparingRebalance 7; nobody; MemberReplaced JoinParked; member:s=off member:n=10000",
            "Completing": "PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; "
            "MemberReplaced JoinParked RebalanceStarted; "
            "member:s=off member:n=10000 member:b=10000 sync=off join=60000",
            "Stable": "Stable 7; Joined; MemberReplaced; member:s=off member:n=10000",
            "Dead": GONE,
        },
    ),
    (
        "join of a follower that offers what it did",
        join("b"),
        {
            "NF": NO_GROUP,
            "Empty": STRANGER,
            "Preparing": "PreparingRebalance 7; nobody; MemberUpdated JoinParked; no timer",
            "Completing": "CompletingRebalance 7; Joined; nothing; no timer",
            "Stable": "Stable 7; Joined; nothing; no timer",
            "Dead": GONE,
        },
    ),
    (
        "join of the leader that offers what it did",
        join("a"),
        {
            "NF": NO_GROUP,
            "Empty": STRANGER,
            "Preparing": "PreparingRebalance 7; nobody; MemberUpdated JoinParked; no timer",
            "Completing": "CompletingRebalance 7; Joined; nothing; no timer",
            "Stable": f"PreparingRebalance 7; nobody; {REJOINED}; sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "join of a follower that offers something else",
        join("b", protocols=CHANGED),
        {
            "NF": NO_GROUP,
            "Empty": STRANGER,
            "Preparing": "PreparingRebalance 7; nobody; MemberUpdated JoinParked; no timer",
            "Completing": f"PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; {REJOINED}; "
            "member:b=10000 sync=off join=60000",
            "Stable": f"PreparingRebalance 7; nobody; {REJOINED}; sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "join of the leader that offers something else",
        join("a", protocols=CHANGED),
        {
            "NF": NO_GROUP,
            "Empty": STRANGER,
            "Preparing": "PreparingRebalance 7; nobody; MemberUpdated JoinParked; no timer",
            "Completing": f"PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; {REJOINED}; "
            "member:b=10000 sync=off join=60000",
            "Stable": f"PreparingRebalance 7; nobody; {REJOINED}; sync=off join=60000",
            "Dead": GONE,
        },
    ),
]

IN_THE_GROUP: list[tuple[str, Request, dict[str, str]]] = [
    (
        "sync of the leader",
        sync("a", *HELD.items()),
        {
            "NF": NO_GROUP,
            "Empty": STRANGER,
            "Preparing": "PreparingRebalance 7; REBALANCE_IN_PROGRESS; nothing; no timer",
            "Completing": "Stable 7; b.sync Synced, Synced; AssignmentAccepted SyncReceived; "
            "member:b=10000 member:a=10000",
            "Stable": "Stable 7; Synced; nothing; member:a=10000",
            "Dead": GONE,
        },
    ),
    (
        "sync of a follower",
        sync("s"),
        {
            "NF": NO_GROUP,
            "Empty": STRANGER,
            "Preparing": "PreparingRebalance 7; REBALANCE_IN_PROGRESS; nothing; no timer",
            "Completing": "CompletingRebalance 7; nobody; SyncParked; no timer",
            "Stable": "Stable 7; Synced; nothing; member:s=10000",
            "Dead": GONE,
        },
    ),
    (
        "heartbeat",
        heartbeat("b"),
        {
            "NF": NO_GROUP,
            "Empty": STRANGER,
            "Preparing": "PreparingRebalance 7; REBALANCE_IN_PROGRESS; nothing; member:b=10000",
            "Completing": "CompletingRebalance 7; Beaten; nothing; member:b=10000",
            "Stable": "Stable 7; Beaten; nothing; member:b=10000",
            "Dead": GONE,
        },
    ),
    (
        "leave of a member",
        leave("b"),
        {
            "NF": "Dead 0; Left; nothing; no timer",
            "Empty": "Empty 7; Left; nothing; no timer",
            "Preparing": "PreparingRebalance 7; Left; MemberRemoved; member:b=off",
            "Completing": "PreparingRebalance 7; b.sync UNKNOWN_MEMBER_ID, Left; MemberRemoved RebalanceStarted; "
            "member:b=off sync=off join=60000",
            "Stable": "PreparingRebalance 7; Left; MemberRemoved RebalanceStarted; member:b=off sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "leave of a handshake id",
        leave("h"),
        {
            "NF": "Dead 0; Left; nothing; no timer",
            "Empty": "Empty 7; Left; MemberIdDropped; handshake:h=off",
            "Preparing": "PreparingRebalance 7; Left; MemberIdDropped; handshake:h=off",
            "Completing": "CompletingRebalance 7; Left; MemberIdDropped; handshake:h=off",
            "Stable": "Stable 7; Left; MemberIdDropped; handshake:h=off",
            "Dead": GONE,
        },
    ),
]

OFFSETS: list[tuple[str, Request, dict[str, str]]] = [
    (
        "commit of a member",
        commit("b"),
        {
            "NF": NOT_FOUND,
            "Empty": STRANGER,
            "Preparing": "PreparingRebalance 7; Committed; OffsetsCommitted; member:b=10000",
            "Completing": "CompletingRebalance 7; REBALANCE_IN_PROGRESS; nothing; no timer",
            "Stable": "Stable 7; Committed; OffsetsCommitted; member:b=10000",
            "Dead": GONE,
        },
    ),
    (
        "simple commit",
        commit("", -1),
        {
            "NF": "Empty 0; Committed; GroupCreated OffsetsCommitted; no timer",
            "Empty": "Empty 7; Committed; OffsetsCommitted; no timer",
            "Preparing": "PreparingRebalance 7; UNKNOWN_MEMBER_ID; nothing; no timer",
            "Completing": "CompletingRebalance 7; UNKNOWN_MEMBER_ID; nothing; no timer",
            "Stable": "Stable 7; UNKNOWN_MEMBER_ID; nothing; no timer",
            "Dead": GONE,
        },
    ),
    (
        "commit with generation -1 and a member id",
        commit("b", -1),
        {
            "NF": "Empty 0; Committed; GroupCreated OffsetsCommitted; no timer",
            "Empty": "Empty 7; Committed; OffsetsCommitted; no timer",
            "Preparing": "PreparingRebalance 7; ILLEGAL_GENERATION; nothing; no timer",
            "Completing": "CompletingRebalance 7; ILLEGAL_GENERATION; nothing; no timer",
            "Stable": "Stable 7; ILLEGAL_GENERATION; nothing; no timer",
            "Dead": GONE,
        },
    ),
    (
        "deletion of offsets, one of a topic that members read",
        DeleteOffsets(TOKEN, (("orders", 0), ("sales", 0)), (stored_offset(), stored_offset("sales")), "change"),
        {
            "NF": "Empty 0; OffsetsDeleted; GroupCreated OffsetRemoved OffsetRemoved; no timer",
            "Empty": "Empty 7; OffsetsDeleted; OffsetRemoved OffsetRemoved; no timer",
            "Preparing": "PreparingRebalance 7; OffsetsDeleted; OffsetRemoved; no timer",
            "Completing": "CompletingRebalance 7; OffsetsDeleted; OffsetRemoved; no timer",
            "Stable": "Stable 7; OffsetsDeleted; OffsetRemoved; no timer",
            "Dead": "Dead 7; GROUP_ID_NOT_FOUND; nothing; no timer",
        },
    ),
    (
        "deletion of the group",
        DeleteGroup(TOKEN, (stored_offset(),), "change"),
        {
            "NF": "Dead 0; Done; GroupCreated OffsetRemoved GroupDied; no timer",
            "Empty": "Dead 7; Done; OffsetRemoved GroupDied; handshake:h=off",
            "Preparing": "PreparingRebalance 7; NON_EMPTY_GROUP; nothing; no timer",
            "Completing": "CompletingRebalance 7; NON_EMPTY_GROUP; nothing; no timer",
            "Stable": "Stable 7; NON_EMPTY_GROUP; nothing; no timer",
            "Dead": "Dead 7; GROUP_ID_NOT_FOUND; nothing; no timer",
        },
    ),
]

RESTORED = OffsetToRestore("orders", 0, 5)
ALL_REMOVED = (ExpiryCandidate("orders", 0, 1),)
OURS: list[tuple[str, Request, dict[str, str]]] = [
    (
        "deletion of offsets that are not there",
        DeleteOffsets(TOKEN, (("sales", 0),), (), "change"),
        {
            "NF": NOT_FOUND,
            "Empty": "Empty 7; OffsetsDeleted; nothing; no timer",
            "Preparing": "PreparingRebalance 7; OffsetsDeleted; nothing; no timer",
            "Completing": "CompletingRebalance 7; OffsetsDeleted; nothing; no timer",
            "Stable": "Stable 7; OffsetsDeleted; nothing; no timer",
            "Dead": "Dead 7; GROUP_ID_NOT_FOUND; nothing; no timer",
        },
    ),
    (
        "reset",
        ResetOffsets(TOKEN, ResetTo.EARLIEST, 0, (PartitionToReset("orders", 0),), (), (stored_offset(),), "change"),
        {
            "NF": "Empty 0; OffsetsReset; GroupCreated OffsetRemoved OffsetsCommitted; no timer",
            "Empty": "Empty 7; OffsetsReset; OffsetRemoved OffsetsCommitted; no timer",
            "Preparing": "PreparingRebalance 7; NON_EMPTY_GROUP; nothing; no timer",
            "Completing": "CompletingRebalance 7; NON_EMPTY_GROUP; nothing; no timer",
            "Stable": "Stable 7; NON_EMPTY_GROUP; nothing; no timer",
            "Dead": GONE,
        },
    ),
    (
        "undo of a deletion",
        RestoreOffsets(TOKEN, (RESTORED,), (), "undo"),
        {
            "NF": "Empty 0; OffsetsRestored; GroupCreated OffsetsCommitted; no timer",
            "Empty": "Empty 7; OffsetsRestored; OffsetsCommitted; no timer",
            "Preparing": "PreparingRebalance 7; NON_EMPTY_GROUP; nothing; no timer",
            "Completing": "CompletingRebalance 7; NON_EMPTY_GROUP; nothing; no timer",
            "Stable": "Stable 7; NON_EMPTY_GROUP; nothing; no timer",
            "Dead": GONE,
        },
    ),
    (
        "undo by a run",
        RestoreOffsets(TOKEN, (RESTORED,), (), "undo", is_of_run=True),
        {
            "NF": "Empty 0; OffsetsRestored; GroupCreated OffsetsCommitted; no timer",
            "Empty": "Empty 7; OffsetsRestored; OffsetsCommitted; no timer",
            "Preparing": "PreparingRebalance 7; OffsetsRestored; nothing; no timer",
            "Completing": "CompletingRebalance 7; OffsetsRestored; nothing; no timer",
            "Stable": "Stable 7; OffsetsRestored; nothing; no timer",
            "Dead": GONE,
        },
    ),
    (
        "deletion of a topic",
        RemoveTopicOffsets(TOKEN, ALL_REMOVED, (stored_offset(),), "change"),
        {
            "NF": "Dead 0; OffsetsExpired; OffsetRemoved; no timer",
            "Empty": "Empty 7; OffsetsExpired; OffsetRemoved; no timer",
            "Preparing": "PreparingRebalance 7; OffsetsExpired; OffsetRemoved; no timer",
            "Completing": "CompletingRebalance 7; OffsetsExpired; OffsetRemoved; no timer",
            "Stable": "Stable 7; OffsetsExpired; OffsetRemoved; no timer",
            "Dead": "Dead 7; OffsetsExpired; OffsetRemoved; no timer",
        },
    ),
]

CELLS = [
    pytest.param(request, state, follows, id=f"{state}: {row}")
    for row, request, cells in [*JOINS, *IN_THE_GROUP, *OFFSETS, *OURS]
    for state, follows in cells.items()
]


@pytest.mark.parametrize(("request_", "state", "follows"), CELLS)
def test_a_request_has_the_consequences_of_its_cell(request_: Request, state: str, follows: str) -> None:
    assert tell(ask(GROUPS[state], request_)) == follows


@pytest.mark.parametrize("state", ["Preparing", "Completing", "Stable"])
@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (heartbeat("x"), "UNKNOWN_MEMBER_ID"),
        (heartbeat("h"), "UNKNOWN_MEMBER_ID"),
        (heartbeat("s", instance_id="X"), "UNKNOWN_MEMBER_ID"),
        (heartbeat("x", instance_id="S"), "FENCED_INSTANCE_ID"),
        (heartbeat("x", 6, "S"), "FENCED_INSTANCE_ID"),
        (heartbeat("b", 6), "ILLEGAL_GENERATION"),
        (heartbeat("b", 8), "ILLEGAL_GENERATION"),
        (sync("x"), "UNKNOWN_MEMBER_ID"),
        (sync("x", instance_id="S"), "FENCED_INSTANCE_ID"),
        (sync("b", generation=6), "ILLEGAL_GENERATION"),
        (sync("b", generation=8), "ILLEGAL_GENERATION"),
        (sync("x", protocol_type="connect"), "UNKNOWN_MEMBER_ID"),
        (sync("b", generation=6, protocol_type="connect"), "ILLEGAL_GENERATION"),
        (sync("b", protocol_type="connect"), "INCONSISTENT_GROUP_PROTOCOL"),
        (sync("b", protocol_type="consumer", protocol_name="sticky"), "INCONSISTENT_GROUP_PROTOCOL"),
        (join("x"), "UNKNOWN_MEMBER_ID"),
        (join("s", "X"), "UNKNOWN_MEMBER_ID"),
        (join("x", "S"), "FENCED_INSTANCE_ID"),
        (join("x", protocols=offers("sticky")), "INCONSISTENT_GROUP_PROTOCOL"),
        (commit("x"), "UNKNOWN_MEMBER_ID"),
        (commit(""), "UNKNOWN_MEMBER_ID"),
        (commit("x", -1), "UNKNOWN_MEMBER_ID"),
        (commit("", -1, "S"), "FENCED_INSTANCE_ID"),
        (commit("x", 6, "S"), "FENCED_INSTANCE_ID"),
        (commit("b", 6), "ILLEGAL_GENERATION"),
        (commit("b", 8), "ILLEGAL_GENERATION"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_strangers_and_the_past_are_refused_in_every_state_with_members(
    request_: Request, code: str, state: str
) -> None:
    """The order counts: who asks, the generation, the protocol, the state. Source: protocol.md section 3."""
    group = GROUPS[state]
    decision = ask(group, request_)
    assert tell(decision) == f"{group.state} 7; {code}; nothing; no timer"
    assert decision.group is group


@pytest.mark.parametrize("request_", [heartbeat("s"), sync("s"), commit("s")])
def test_a_static_member_need_not_name_its_instance(request_: Request) -> None:
    """Kafka says so in ST-25."""
    assert "member:s=10000" in tell(ask(GROUPS["Stable"], request_))
