"""SyncGroup: the leader's assignment, and the answers to followers.

Source: protocol.md sections 6, 9.4 and 18.
"""

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import AssignmentAccepted, RebalanceStarted, Trigger
from coordinator_core.protocol.requests import Request
from coordinator_core.protocol.responses import SyncGroupResponse
from coordinator_core.protocol.settings import Context, GroupSettings, TopicMetadata
from tests.unit.coordinator_core.protocol.groups import (
    HELD,
    NOW,
    A,
    B,
    answer,
    completing,
    decided,
    empty,
    join,
    leave,
    recorded,
    replies_of,
    stable,
    summary_of,
    sync,
    timed,
)


def part(decision: Decision, token: int = 1) -> bytes:
    """Return the assignment in the answer to a token."""
    found = answer(decision, token)
    assert isinstance(found, SyncGroupResponse)
    return found.assignment


def test_leader_sync_answers_every_parked_sync_with_its_own_assignment() -> None:
    decision = decided(completing(synced=["b", "s"]), sync("a", *HELD.items()))
    assert (part(decision), part(decision, 22), part(decision, 23)) == (HELD["a"], HELD["b"], HELD["s"])


def test_sessions_of_answered_members_restart() -> None:
    decision = decided(completing(synced=["b"]), sync("a"), GroupSettings(session_timeout_ms=7_000))
    assert timed(decision) == {"session:b": 7_000, "session:a": 7_000}


def test_sync_response_has_protocol_type_and_name() -> None:
    found = answer(decided(stable(), sync("b", protocol_type="consumer", protocol_name="range")))
    assert found == SyncGroupResponse("consumer", "range", HELD["b"])


def test_assignment_of_a_member_is_limited() -> None:
    limited = GroupSettings(member_assignment_max_bytes=10)
    group = completing(synced=["b"])
    refused = decided(group, sync("a", ("b", b"x" * 11)), limited)
    assert (replies_of(refused), refused.group) == (["INVALID_REQUEST"], group)
    assert recorded(decided(group, sync("s", ("b", b"x" * 11)), limited)) == ["SyncParked"]
    assert decided(group, sync("a", ("b", b"x" * 10)), limited).group.members["b"].assignment == b"x" * 10


def test_a_follower_s_map_is_ignored() -> None:
    decision = decided(completing(), sync("b", *HELD.items()))
    assert recorded(decision) == ["SyncParked"]
    assert decided(decision.group, sync("a")).group.members["b"].assignment == b""


def test_a_map_in_stable_is_ignored() -> None:
    decision = decided(stable(), sync("a", ("a", b"all")))
    assert part(decision) == HELD["a"]
    assert not decision.records


def test_omitted_members_own_nothing_and_non_members_are_dropped() -> None:
    decision = decided(completing(synced=["b"]), sync("a", ("a", HELD["a"]), ("x", b"?")))
    assert part(decision, 22) == b""
    assert {one.member_id: one.assignment for one in decision.group.members.values()} == {
        "a": HELD["a"],
        "b": b"",
        "s": b"",
    }
    accepted = decision.records[0]
    assert isinstance(accepted, AssignmentAccepted)
    assert (accepted.generation, accepted.omitted_members) == (decision.group.generation, ("b", "s"))


def test_member_with_an_empty_assignment_is_not_omitted() -> None:
    accepted = decided(completing(), sync("a", ("a", HELD["a"]), ("b", b""), ("s", b""))).records[0]
    assert isinstance(accepted, AssignmentAccepted)
    assert accepted.omitted_members == ()


def test_repeated_sync_replaces_the_parked_one() -> None:
    decision = decided(completing(synced=["b"]), sync("b"))
    assert replies_of(decision) == ["b.sync REBALANCE_IN_PROGRESS"]
    assert dict(decision.group.parked_syncs) == {"b": 1}


def test_sync_timer_stops_when_the_last_member_has_synced() -> None:
    group = completing(A, B, synced=["b"])
    assert timed(decided(group, sync("a")))["sync"] is None
    assert "sync" not in timed(decided(completing(A, B), sync("a")))
    late = stable(late=["b"])
    assert summary_of(decided(late, sync("b"))) == "Stable 7; SyncGroupResponse; SyncReceived; session:b=10000 sync=off"


def test_assignment_is_given_to_members_of_the_generation_only() -> None:
    """A new member's rebalance precedes the leader's sync: the assignment is void."""
    group = decided(completing(pending=["h"]), join("h")).group
    assert replies_of(decided(group, sync("a", *HELD.items()))) == ["REBALANCE_IN_PROGRESS"]


def test_parked_sync_of_a_leaving_member_is_answered() -> None:
    """The sane variant of LV-17."""
    assert replies_of(decided(completing(synced=["b", "s"]), leave("b"))) == [
        "b.sync UNKNOWN_MEMBER_ID",
        "s.sync REBALANCE_IN_PROGRESS",
        "LeaveGroupResponse",
    ]


def test_a_named_protocol_must_be_the_group_s_unless_it_has_none() -> None:
    assert replies_of(decided(stable(), sync("b", protocol_name="sticky"))) == ["INCONSISTENT_GROUP_PROTOCOL"]
    assert replies_of(decided(empty(), sync("b", protocol_name="sticky"))) == ["UNKNOWN_MEMBER_ID"]


# -- partitions that changed while the leader assigned ---------------------------------------------------------


def decided_with_orders_at(version: int, group: Group, request: Request) -> Decision:
    """Decide with topic metadata in which "orders" last changed at this version; the group is at 1."""
    context = Context(GroupSettings(), {"orders": TopicMetadata(12, version)}, topics_version=version)
    return decide(group, request, NOW, context)


def test_assignment_of_changed_partitions_is_delivered_and_a_rebalance_follows() -> None:
    decision = decided_with_orders_at(2, completing(synced=["b"]), sync("a", *HELD.items()))
    assert replies_of(decision) == ["SyncGroupResponse", "b.sync SyncGroupResponse"]
    (started,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    assert started.trigger is Trigger.PARTITIONS_CHANGED
    assert decision.group.must_rebalance


def test_assignment_of_unchanged_partitions_causes_no_rebalance() -> None:
    decision = decided_with_orders_at(1, completing(synced=["b"]), sync("a", *HELD.items()))
    assert recorded(decision) == ["AssignmentAccepted", "SyncReceived"]
