"""Static members: rejoining without a member id, fencing, and replacement.

Source: protocol.md sections 5.2 and 18.
"""

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.records import RebalanceStarted, Trigger
from coordinator_core.protocol.requests import DeadlineKind
from coordinator_core.protocol.responses import JoinGroupResponse
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    GENERATION,
    HELD,
    A,
    B,
    S,
    answer,
    completing,
    decided,
    expire,
    join,
    member,
    offers,
    preparing,
    recorded,
    replies_of,
    stable,
    summary_of,
    sync,
    timed,
)

BOTH = offers("range", "sticky")


def back(decision: Decision) -> JoinGroupResponse:
    """Return the response to the returning member."""
    found = answer(decision)
    assert isinstance(found, JoinGroupResponse)
    return found


def test_static_member_needs_no_member_id_request() -> None:
    assert decided(stable(), join(instance_id="N")).group.static_members == {"S": "s", "N": "n"}


def test_returning_static_member_keeps_assignment_order_and_generation() -> None:
    decision = decided(stable(A, S, B), join(instance_id="S"))
    assert list(decision.group.members) == ["a", "n", "b"]
    assert decision.group.members["n"].assignment == HELD["s"]
    assert decision.group.static_members == {"S": "n"}
    assert back(decision).generation == GENERATION
    assert recorded(decision) == ["MemberReplaced"]


def test_returning_static_member_gets_its_new_timeouts_at_once() -> None:
    """The sane variant of HB-20."""
    decision = decided(stable(), join(instance_id="S", session_ms=20_000, rebalance_ms=1))
    assert timed(decision) == {"session:s": None, "session:n": 20_000}
    assert decision.group.members["n"].rebalance_timeout_ms == 1


def test_parked_request_of_the_replaced_member_is_fenced() -> None:
    assert "s.join FENCED_INSTANCE_ID" in replies_of(decided(preparing(joined=["s"]), join(instance_id="S")))
    assert "s.sync FENCED_INSTANCE_ID" in replies_of(decided(completing(synced=["s"]), join(instance_id="S")))


def test_later_requests_of_the_replaced_member_are_fenced_or_unknown() -> None:
    group = decided(stable(), join(instance_id="S")).group
    assert replies_of(decided(group, sync("s", instance_id="S"))) == ["FENCED_INSTANCE_ID"]
    assert replies_of(decided(group, sync("s"))) == ["UNKNOWN_MEMBER_ID"]
    assert replies_of(decided(group, sync("n", instance_id="S"))) == ["SyncGroupResponse"]


def test_returning_static_follower_gets_the_leader_id() -> None:
    found = back(decided(stable(), join(instance_id="S")))
    assert (found.leader_id, found.members, found.skip_assignment) == ("a", (), False)


def test_returning_static_leader_gets_the_members_and_skips_the_assignment() -> None:
    decision = decided(stable(S, B), join(instance_id="S"))
    found = back(decision)
    assert decision.group.leader_id == "n"
    assert (found.leader_id, found.skip_assignment) == ("n", True)
    assert [one.member_id for one in found.members] == ["n", "b"]


def test_leader_that_cannot_skip_gets_its_old_id_and_follows() -> None:
    found = back(decided(stable(S, B), join(instance_id="S", can_skip=False)))
    assert (found.leader_id, found.members, found.skip_assignment) == ("s", (), False)


def test_changed_subscription_under_the_same_protocol_is_stored_without_a_rebalance() -> None:
    """As in Kafka: ST-16."""
    decision = decided(stable(), join(instance_id="S", protocols=offers("range", topics=("sales",))))
    assert recorded(decision) == ["MemberReplaced"]


def test_a_change_of_the_chosen_protocol_rebalances() -> None:
    group = stable(member("a", protocols=BOTH), member("s", "S", BOTH))
    decision = decided(group, join(instance_id="S", protocols=offers("sticky")))
    (started,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    assert started.trigger is Trigger.STATIC_MEMBER_REPLACED
    assert replies_of(decision) == []


def test_static_member_returning_while_the_leader_assigns_always_rebalances() -> None:
    """The leader may be assigning to the old id."""
    assert recorded(decided(completing(), join(instance_id="S"))) == [
        "MemberReplaced",
        "JoinParked",
        "RebalanceStarted",
    ]


def test_returning_static_member_may_end_the_join_phase() -> None:
    decision = decided(preparing(joined=["a", "b"]), join(instance_id="S"))
    assert replies_of(decision) == ["a.join JoinGroupResponse", "b.join JoinGroupResponse", "JoinGroupResponse"]
    assert back(decision).member_id == "n"


def test_pending_sync_of_the_old_id_moves_to_the_new_id() -> None:
    """Unlike SYNC-25, the timer evicts exactly the members that have not synced."""
    group = decided(stable(late=["s"]), join(instance_id="S")).group
    assert set(group.pending_syncs) == {"n"}
    assert (
        summary_of(decided(group, sync("n"))) == "Stable 7; SyncGroupResponse; SyncReceived; session:n=10000 sync=off"
    )


def test_rejoining_member_is_not_new_and_does_not_expire_while_waiting() -> None:
    """D-12, as the modern coordinator has it."""
    replaced = decided(preparing(new_members=[member("n", "N")]), join(instance_id="N", fresh_id="m")).group
    assert decided(replaced, expire(DeadlineKind.SESSION, "m")).group is replaced


def test_full_group_rejects_anonymous_joins() -> None:
    assert replies_of(decided(stable(), join(instance_id="S"), GroupSettings(group_max_size=3))) == [
        "GROUP_MAX_SIZE_REACHED"
    ]


# -- what a node that is lost leaves behind ------------------------------------------------------------------


def test_replacement_without_a_change_sets_no_must_rebalance() -> None:
    assert not decided(stable(), join(instance_id="S")).group.must_rebalance
    assert not decided(preparing(), join(instance_id="S")).group.must_rebalance


def test_replacement_during_the_sync_phase_sets_must_rebalance() -> None:
    """If the node is lost now, the leader syncs the assignment of the old generation."""
    assert decided(completing(), join(instance_id="S")).group.must_rebalance
    assert decided(preparing(of=completing()), join(instance_id="S")).group.must_rebalance


def test_replacement_without_the_chosen_protocol_sets_must_rebalance() -> None:
    group = stable(member("a", protocols=BOTH), member("s", "S", BOTH))
    assert decided(group, join(instance_id="S", protocols=offers("sticky"))).group.must_rebalance


def test_replacement_of_a_new_member_needs_no_rebalance() -> None:
    """It is forgotten with the node."""
    group = preparing(of=completing(), new_members=[member("n", "N")])
    assert not decided(group, join(instance_id="N", fresh_id="m")).group.must_rebalance
