"""Every cell of the table "Request by state": the request, the group's state, and all consequences.

A line reads: state and generation after; replies; records; timers. `off` stops a timer.

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
    commit,
    completing,
    dead,
    decided,
    empty,
    heartbeat,
    join,
    leave,
    offers,
    preparing,
    stable,
    stored_offset,
    summary_of,
    sync,
    unknown_group,
)

GROUPS: dict[str, Group] = {
    "NF": unknown_group(),
    "Empty": empty(pending=["h"]),
    "Preparing": preparing(pending=["h"]),
    "Completing": completing(synced=["b"], pending=["h"]),
    "Stable": stable(pending=["h"]),
    "Dead": dead(),
}
CHANGED = offers("range", topics=("orders", "sales"))
NO_GROUP = "Dead 0; UNKNOWN_MEMBER_ID; nothing; no timer"
NOT_FOUND = "Dead 0; GROUP_ID_NOT_FOUND; nothing; no timer"
UNKNOWN_MEMBER = "Empty 7; UNKNOWN_MEMBER_ID; nothing; no timer"
GONE = "Dead 7; COORDINATOR_NOT_AVAILABLE; nothing; no timer"
REJOINED = "MemberUpdated JoinParked RebalanceStarted"
"""What a member's own join starts a phase with."""

JOINS: list[tuple[str, Request, dict[str, str]]] = [
    (
        "join, anonymous and dynamic",
        join(),
        {
            "NF": "Empty 0; MEMBER_ID_REQUIRED; GroupCreated PendingMemberAdded; pending_member_id:n=10000",
            "Empty": "Empty 7; MEMBER_ID_REQUIRED; PendingMemberAdded; pending_member_id:n=10000",
            "Preparing": "PreparingRebalance 7; MEMBER_ID_REQUIRED; PendingMemberAdded; pending_member_id:n=10000",
            "Completing": "CompletingRebalance 7; MEMBER_ID_REQUIRED; PendingMemberAdded; pending_member_id:n=10000",
            "Stable": "Stable 7; MEMBER_ID_REQUIRED; PendingMemberAdded; pending_member_id:n=10000",
            "Dead": GONE,
        },
    ),
    (
        "join with a pending member id",
        join("h"),
        {
            "NF": NO_GROUP,
            "Empty": "PreparingRebalance 7; no reply; PendingMemberRemoved MemberJoined JoinParked RebalanceStarted; "
            "pending_member_id:h=off session:h=300000 sync=off join=3000",
            "Preparing": "PreparingRebalance 7; no reply; PendingMemberRemoved MemberJoined JoinParked; "
            "pending_member_id:h=off session:h=300000",
            "Completing": "PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; "
            "PendingMemberRemoved MemberJoined JoinParked RebalanceStarted; "
            "pending_member_id:h=off session:h=300000 session:b=10000 sync=off join=60000",
            "Stable": "PreparingRebalance 7; no reply; PendingMemberRemoved MemberJoined JoinParked RebalanceStarted; "
            "pending_member_id:h=off session:h=300000 sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "join, anonymous and static, of an instance that is new",
        join(instance_id="N"),
        {
            "NF": "PreparingRebalance 0; no reply; GroupCreated MemberJoined JoinParked RebalanceStarted; "
            "session:n=300000 sync=off join=3000",
            "Empty": "PreparingRebalance 7; no reply; MemberJoined JoinParked RebalanceStarted; "
            "session:n=300000 sync=off join=3000",
            "Preparing": "PreparingRebalance 7; no reply; MemberJoined JoinParked; session:n=300000",
            "Completing": "PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; "
            "MemberJoined JoinParked RebalanceStarted; session:n=300000 session:b=10000 sync=off join=60000",
            "Stable": "PreparingRebalance 7; no reply; MemberJoined JoinParked RebalanceStarted; "
            "session:n=300000 sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "join, anonymous and static, of an instance that is known",
        join(instance_id="S"),
        {
            "Preparing": "PreparingRebalance 7; no reply; MemberReplaced JoinParked; session:s=off session:n=10000",
            "Completing": "PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; "
            "MemberReplaced JoinParked RebalanceStarted; "
            "session:s=off session:n=10000 session:b=10000 sync=off join=60000",
            "Stable": "Stable 7; JoinGroupResponse; MemberReplaced; session:s=off session:n=10000",
            "Dead": GONE,
        },
    ),
    (
        "join of a follower that offers what it did",
        join("b"),
        {
            "NF": NO_GROUP,
            "Empty": UNKNOWN_MEMBER,
            "Preparing": "PreparingRebalance 7; no reply; MemberUpdated JoinParked; no timer",
            "Completing": "CompletingRebalance 7; JoinGroupResponse; nothing; no timer",
            "Stable": "Stable 7; JoinGroupResponse; nothing; no timer",
            "Dead": GONE,
        },
    ),
    (
        "join of the leader that offers what it did",
        join("a"),
        {
            "NF": NO_GROUP,
            "Empty": UNKNOWN_MEMBER,
            "Preparing": "PreparingRebalance 7; no reply; MemberUpdated JoinParked; no timer",
            "Completing": "CompletingRebalance 7; JoinGroupResponse; nothing; no timer",
            "Stable": f"PreparingRebalance 7; no reply; {REJOINED}; sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "join of a follower that offers something else",
        join("b", protocols=CHANGED),
        {
            "NF": NO_GROUP,
            "Empty": UNKNOWN_MEMBER,
            "Preparing": "PreparingRebalance 7; no reply; MemberUpdated JoinParked; no timer",
            "Completing": f"PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; {REJOINED}; "
            "session:b=10000 sync=off join=60000",
            "Stable": f"PreparingRebalance 7; no reply; {REJOINED}; sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "join of the leader that offers something else",
        join("a", protocols=CHANGED),
        {
            "NF": NO_GROUP,
            "Empty": UNKNOWN_MEMBER,
            "Preparing": "PreparingRebalance 7; no reply; MemberUpdated JoinParked; no timer",
            "Completing": f"PreparingRebalance 7; b.sync REBALANCE_IN_PROGRESS; {REJOINED}; "
            "session:b=10000 sync=off join=60000",
            "Stable": f"PreparingRebalance 7; no reply; {REJOINED}; sync=off join=60000",
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
            "Empty": UNKNOWN_MEMBER,
            "Preparing": "PreparingRebalance 7; REBALANCE_IN_PROGRESS; nothing; no timer",
            "Completing": "Stable 7; SyncGroupResponse, b.sync SyncGroupResponse; AssignmentAccepted SyncReceived; "
            "session:a=10000 session:b=10000",
            "Stable": "Stable 7; SyncGroupResponse; nothing; session:a=10000",
            "Dead": GONE,
        },
    ),
    (
        "sync of a follower",
        sync("s"),
        {
            "NF": NO_GROUP,
            "Empty": UNKNOWN_MEMBER,
            "Preparing": "PreparingRebalance 7; REBALANCE_IN_PROGRESS; nothing; no timer",
            "Completing": "CompletingRebalance 7; no reply; SyncParked; no timer",
            "Stable": "Stable 7; SyncGroupResponse; nothing; session:s=10000",
            "Dead": GONE,
        },
    ),
    (
        "heartbeat",
        heartbeat("b"),
        {
            "NF": NO_GROUP,
            "Empty": UNKNOWN_MEMBER,
            "Preparing": "PreparingRebalance 7; REBALANCE_IN_PROGRESS; nothing; session:b=10000",
            "Completing": "CompletingRebalance 7; HeartbeatResponse; nothing; session:b=10000",
            "Stable": "Stable 7; HeartbeatResponse; nothing; session:b=10000",
            "Dead": GONE,
        },
    ),
    (
        "leave of a member",
        leave("b"),
        {
            "NF": "Dead 0; LeaveGroupResponse; nothing; no timer",
            "Empty": "Empty 7; LeaveGroupResponse; nothing; no timer",
            "Preparing": "PreparingRebalance 7; LeaveGroupResponse; MemberRemoved; session:b=off",
            "Completing": "PreparingRebalance 7; b.sync UNKNOWN_MEMBER_ID, LeaveGroupResponse; "
            "MemberRemoved RebalanceStarted; "
            "session:b=off sync=off join=60000",
            "Stable": "PreparingRebalance 7; LeaveGroupResponse; "
            "MemberRemoved RebalanceStarted; session:b=off sync=off join=60000",
            "Dead": GONE,
        },
    ),
    (
        "leave of a pending member id",
        leave("h"),
        {
            "NF": "Dead 0; LeaveGroupResponse; nothing; no timer",
            "Empty": "Empty 7; LeaveGroupResponse; PendingMemberRemoved; pending_member_id:h=off",
            "Preparing": "PreparingRebalance 7; LeaveGroupResponse; PendingMemberRemoved; pending_member_id:h=off",
            "Completing": "CompletingRebalance 7; LeaveGroupResponse; PendingMemberRemoved; pending_member_id:h=off",
            "Stable": "Stable 7; LeaveGroupResponse; PendingMemberRemoved; pending_member_id:h=off",
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
            "Empty": UNKNOWN_MEMBER,
            "Preparing": "PreparingRebalance 7; CommitOffsetsResponse; OffsetsCommitted; session:b=10000",
            "Completing": "CompletingRebalance 7; REBALANCE_IN_PROGRESS; nothing; no timer",
            "Stable": "Stable 7; CommitOffsetsResponse; OffsetsCommitted; session:b=10000",
            "Dead": GONE,
        },
    ),
    (
        "simple commit",
        commit("", -1),
        {
            "NF": "Empty 0; CommitOffsetsResponse; GroupCreated OffsetsCommitted; no timer",
            "Empty": "Empty 7; CommitOffsetsResponse; OffsetsCommitted; no timer",
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
            "NF": "Empty 0; CommitOffsetsResponse; GroupCreated OffsetsCommitted; no timer",
            "Empty": "Empty 7; CommitOffsetsResponse; OffsetsCommitted; no timer",
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
            "NF": "Empty 0; DeleteOffsetsResponse; GroupCreated OffsetRemoved OffsetRemoved; no timer",
            "Empty": "Empty 7; DeleteOffsetsResponse; OffsetRemoved OffsetRemoved; no timer",
            "Preparing": "PreparingRebalance 7; DeleteOffsetsResponse; OffsetRemoved; no timer",
            "Completing": "CompletingRebalance 7; DeleteOffsetsResponse; OffsetRemoved; no timer",
            "Stable": "Stable 7; DeleteOffsetsResponse; OffsetRemoved; no timer",
            "Dead": "Dead 7; GROUP_ID_NOT_FOUND; nothing; no timer",
        },
    ),
    (
        "deletion of the group",
        DeleteGroup(TOKEN, (stored_offset(),), "change"),
        {
            "NF": "Dead 0; EmptyResponse; GroupCreated OffsetRemoved GroupDied; no timer",
            "Empty": "Dead 7; EmptyResponse; OffsetRemoved GroupDied; pending_member_id:h=off",
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
            "Empty": "Empty 7; DeleteOffsetsResponse; nothing; no timer",
            "Preparing": "PreparingRebalance 7; DeleteOffsetsResponse; nothing; no timer",
            "Completing": "CompletingRebalance 7; DeleteOffsetsResponse; nothing; no timer",
            "Stable": "Stable 7; DeleteOffsetsResponse; nothing; no timer",
            "Dead": "Dead 7; GROUP_ID_NOT_FOUND; nothing; no timer",
        },
    ),
    (
        "reset",
        ResetOffsets(TOKEN, ResetTo.EARLIEST, 0, (PartitionToReset("orders", 0),), (), (stored_offset(),), "change"),
        {
            "NF": "Empty 0; ResetOffsetsResponse; GroupCreated OffsetRemoved OffsetsCommitted; no timer",
            "Empty": "Empty 7; ResetOffsetsResponse; OffsetRemoved OffsetsCommitted; no timer",
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
            "NF": "Empty 0; RestoreOffsetsResponse; GroupCreated OffsetsCommitted; no timer",
            "Empty": "Empty 7; RestoreOffsetsResponse; OffsetsCommitted; no timer",
            "Preparing": "PreparingRebalance 7; NON_EMPTY_GROUP; nothing; no timer",
            "Completing": "CompletingRebalance 7; NON_EMPTY_GROUP; nothing; no timer",
            "Stable": "Stable 7; NON_EMPTY_GROUP; nothing; no timer",
            "Dead": GONE,
        },
    ),
    (
        "undo by a run",
        RestoreOffsets(TOKEN, (RESTORED,), (), "undo", is_maintenance_run=True),
        {
            "NF": "Empty 0; RestoreOffsetsResponse; GroupCreated OffsetsCommitted; no timer",
            "Empty": "Empty 7; RestoreOffsetsResponse; OffsetsCommitted; no timer",
            "Preparing": "PreparingRebalance 7; RestoreOffsetsResponse; nothing; no timer",
            "Completing": "CompletingRebalance 7; RestoreOffsetsResponse; nothing; no timer",
            "Stable": "Stable 7; RestoreOffsetsResponse; nothing; no timer",
            "Dead": GONE,
        },
    ),
    (
        "deletion of a topic",
        RemoveTopicOffsets(TOKEN, ALL_REMOVED, (stored_offset(),), "change"),
        {
            "NF": "Dead 0; ExpireOffsetsResponse; OffsetRemoved; no timer",
            "Empty": "Empty 7; ExpireOffsetsResponse; OffsetRemoved; no timer",
            "Preparing": "PreparingRebalance 7; ExpireOffsetsResponse; OffsetRemoved; no timer",
            "Completing": "CompletingRebalance 7; ExpireOffsetsResponse; OffsetRemoved; no timer",
            "Stable": "Stable 7; ExpireOffsetsResponse; OffsetRemoved; no timer",
            "Dead": "Dead 7; ExpireOffsetsResponse; OffsetRemoved; no timer",
        },
    ),
]

CELLS = [
    pytest.param(request, state, follows, id=f"{state}: {row}")
    for row, request, cells in [*JOINS, *IN_THE_GROUP, *OFFSETS, *OURS]
    for state, follows in cells.items()
]


@pytest.mark.parametrize(("request_", "state", "follows"), CELLS)
def test_request_has_the_result_of_its_table_cell(request_: Request, state: str, follows: str) -> None:
    assert summary_of(decided(GROUPS[state], request_)) == follows


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
def test_unknown_members_and_old_generations_are_rejected_in_every_state(
    request_: Request, code: str, state: str
) -> None:
    """Checks are made in the order member, generation, protocol, state. Source: protocol.md section 3."""
    group = GROUPS[state]
    decision = decided(group, request_)
    assert summary_of(decision) == f"{group.state} 7; {code}; nothing; no timer"
    assert decision.group is group


@pytest.mark.parametrize("request_", [heartbeat("s"), sync("s"), commit("s")])
def test_static_member_may_omit_its_instance_id(request_: Request) -> None:
    """As in Kafka: ST-25."""
    assert "session:s=10000" in summary_of(decided(GROUPS["Stable"], request_))
