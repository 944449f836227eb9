"""Heartbeats and leaves.

Source: protocol.md sections 7 and 8.
"""

import pytest

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.records import MemberRemoved, RebalanceStarted, RemovalReason, Trigger
from coordinator_core.protocol.requests import LeavingMember
from coordinator_core.protocol.responses import HeartbeatResponse, LeaveGroupResponse
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    GENERATION,
    A,
    B,
    answer,
    completing,
    decided,
    delayed,
    heartbeat,
    join,
    leave,
    member,
    preparing,
    recorded,
    replies_of,
    reply,
    stable,
    summary_of,
    timed,
)


def results(decision: Decision) -> list[str]:
    """Return the entries' results, in the order of the request."""
    found = answer(decision)
    assert isinstance(found, LeaveGroupResponse)
    return ["NONE" if one.error is None else one.error.code for one in found.members]


# -- heartbeats -------------------------------------------------------------------------------------------


def test_heartbeat_restarts_the_session_only() -> None:
    group = stable()
    decision = decided(group, heartbeat("b"))
    assert decision.group is group
    assert timed(decision) == {"session:b": 10_000}


def test_changed_session_timeout_is_effective_from_the_next_heartbeat() -> None:
    decision = decided(stable(), heartbeat("b"), GroupSettings(session_timeout_ms=20_000, heartbeat_interval_ms=700))
    assert answer(decision) == HeartbeatResponse(20_000, 700)
    assert timed(decision) == {"session:b": 20_000}


def test_heartbeat_interval_is_a_third_of_the_session_but_at_most_three_seconds() -> None:
    assert answer(decided(stable(), heartbeat("b"))) == HeartbeatResponse(10_000, 3_000)
    short = stable(member("a", session_ms=6_000))
    assert answer(decided(short, heartbeat("a"))) == HeartbeatResponse(6_000, 2_000)


@pytest.mark.parametrize(("interval_ms", "returned_ms"), [(9_999, 9_999), (10_000, 3_000), (25_000, 3_000)])
def test_interval_longer_than_the_session_allows_is_not_returned(interval_ms: int, returned_ms: int) -> None:
    settings = GroupSettings(heartbeat_interval_ms=interval_ms)
    assert answer(decided(stable(), heartbeat("b"), settings)) == HeartbeatResponse(10_000, returned_ms)


def test_heartbeat_of_a_new_member_shortens_its_timeout() -> None:
    """A quirk that is kept: HB-19."""
    decision = decided(preparing(new_members=[member("n")]), heartbeat("n"))
    assert summary_of(decision) == "PreparingRebalance 7; REBALANCE_IN_PROGRESS; nothing; session:n=10000"


# -- leaves -----------------------------------------------------------------------------------------------


def test_a_batch_has_one_result_an_entry_and_one_rebalance() -> None:
    decision = decided(stable(pending=["h"]), leave("b", "x", "h", LeavingMember("s", "X"), LeavingMember("s", "S")))
    assert results(decision) == ["NONE", "UNKNOWN_MEMBER_ID", "NONE", "UNKNOWN_MEMBER_ID", "NONE"]
    assert recorded(decision) == ["MemberRemoved", "PendingMemberRemoved", "MemberRemoved", "RebalanceStarted"]


def test_repeated_leave_entry_is_unknown_the_second_time() -> None:
    assert results(decided(stable(), leave("b", "b"))) == ["NONE", "UNKNOWN_MEMBER_ID"]


def test_fenced_member_cannot_remove_its_successor() -> None:
    assert results(decided(stable(), leave(LeavingMember("x", "S")))) == ["FENCED_INSTANCE_ID"]


def test_instance_id_alone_selects_its_current_member() -> None:
    decision = decided(stable(), leave(LeavingMember("", "S"), LeavingMember("", "X"), LeavingMember("")))
    assert results(decision) == ["NONE", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"]
    assert list(decision.group.members) == ["a", "b"]


def test_leave_of_unknown_members_changes_nothing() -> None:
    group = stable()
    assert decided(group, leave("x", LeavingMember("x", "S"))).group is group


def test_rebalance_names_the_first_leaving_member_and_its_reason() -> None:
    decision = decided(stable(), leave(LeavingMember("b", None, "deploy"), LeavingMember("s", None, "late")))
    (started,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    assert (started.trigger, started.member_id, started.client_reason) == (Trigger.MEMBER_LEFT, "b", "deploy")
    removed = [record for record in decision.records if isinstance(record, MemberRemoved)]
    assert {record.removal_reason for record in removed} == {RemovalReason.LEFT}


def test_leave_of_the_last_member_empties_the_group_at_once() -> None:
    decision = decided(stable(A), leave("a"))
    assert recorded(decision) == ["MemberRemoved", "RebalanceStarted", "GroupEmptied"]
    assert (decision.group.state, decision.group.generation) == ("Empty", GENERATION + 1)
    assert timed(decision)["join"] is None


def test_leave_of_the_last_member_empties_the_group_despite_a_pending_member() -> None:
    assert decided(stable(A, pending=["h"]), leave("a")).group.state == "Empty"


def test_leave_of_the_last_awaited_member_ends_the_join_phase() -> None:
    assert replies_of(decided(preparing(joined=["a", "s"]), leave("b"))) == [
        "a.join JoinGroupResponse",
        "s.join JoinGroupResponse",
        "LeaveGroupResponse",
    ]


def test_pending_member_id_that_leaves_may_end_the_join_phase() -> None:
    decision = decided(preparing(A, B, joined=["a", "b"], pending=["h"]), leave("h"))
    assert replies_of(decision) == ["a.join JoinGroupResponse", "b.join JoinGroupResponse", "LeaveGroupResponse"]


def test_parked_join_of_a_leaving_member_is_answered_without_id() -> None:
    decision = decided(preparing(joined=["b"]), leave("b"))
    assert replies_of(decision) == ["b.join UNKNOWN_MEMBER_ID", "LeaveGroupResponse"]
    assert reply(decision, 12).member_id == ""


def test_oldest_member_leads_when_the_leader_is_removed() -> None:
    assert decided(stable(), leave("a")).group.leader_id == "b"
    assert decided(completing(), leave("a")).group.leader_id == "b"


def test_initial_delay_does_not_end_when_members_leave() -> None:
    """As in Kafka: DJ-07."""
    group = decided(delayed(A, B), leave("b")).group
    assert group.state == "PreparingRebalance"
    assert decided(group, leave("a")).group.state == "PreparingRebalance"


def test_member_joining_an_abandoned_initial_delay_leads() -> None:
    group = decided(delayed(A, pending=["h"]), leave("a")).group
    assert decided(group, join("h")).group.leader_id == "h"


def test_removal_requires_a_rebalance_unless_the_member_is_new() -> None:
    """The removed member's partitions have no owner; a new member had none."""
    assert decided(preparing(), leave("b")).group.must_rebalance
    assert not decided(preparing(new_members=[member("n")]), leave("n")).group.must_rebalance
