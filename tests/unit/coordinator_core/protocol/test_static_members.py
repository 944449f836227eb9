"""A static member keeps its place by its instance id: who comes back without a member id is given a new one.

Source: protocol.md sections 5.2 and 18.
"""

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.records import RebalanceStarted, Trigger
from coordinator_core.protocol.replies import Joined
from coordinator_core.protocol.requests import DeadlineKind
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    GENERATION,
    HELD,
    A,
    B,
    S,
    answer,
    ask,
    completing,
    expire,
    join,
    member,
    offers,
    preparing,
    recorded,
    stable,
    sync,
    tell,
    timed,
    told,
)

BOTH = offers("range", "sticky")


def back(decision: Decision) -> Joined:
    """Return what the one that came back is told."""
    found = answer(decision)
    assert isinstance(found, Joined)
    return found


def test_an_instance_has_no_handshake() -> None:
    assert ask(stable(), join(instance_id="N")).group.static_members == {"S": "s", "N": "n"}


def test_one_that_comes_back_keeps_its_assignment_its_place_and_the_generation() -> None:
    decision = ask(stable(A, S, B), join(instance_id="S"))
    assert list(decision.group.members) == ["a", "n", "b"]
    assert decision.group.members["n"].assignment == HELD["s"]
    assert decision.group.static_members == {"S": "n"}
    assert back(decision).generation == GENERATION
    assert recorded(decision) == ["MemberReplaced"]


def test_one_that_comes_back_has_its_new_timeouts_at_once() -> None:
    """The sane variant of HB-20."""
    decision = ask(stable(), join(instance_id="S", session_ms=20_000, rebalance_ms=1))
    assert timed(decision) == {"member:s": None, "member:n": 20_000}
    assert decision.group.members["n"].rebalance_timeout_ms == 1


def test_the_old_process_is_fenced_wherever_it_waits() -> None:
    assert "s.join FENCED_INSTANCE_ID" in told(ask(preparing(joined=["s"]), join(instance_id="S")))
    assert "s.sync FENCED_INSTANCE_ID" in told(ask(completing(synced=["s"]), join(instance_id="S")))


def test_the_old_process_is_fenced_or_unknown_from_then_on() -> None:
    group = ask(stable(), join(instance_id="S")).group
    assert told(ask(group, sync("s", instance_id="S"))) == ["FENCED_INSTANCE_ID"]
    assert told(ask(group, sync("s"))) == ["UNKNOWN_MEMBER_ID"]
    assert told(ask(group, sync("n", instance_id="S"))) == ["Synced"]


def test_a_follower_that_comes_back_learns_the_leader() -> None:
    found = back(ask(stable(), join(instance_id="S")))
    assert (found.leader_id, found.members, found.skip_assignment) == ("a", (), False)


def test_a_leader_that_comes_back_sees_the_members_and_must_not_assign() -> None:
    decision = ask(stable(S, B), join(instance_id="S"))
    found = back(decision)
    assert decision.group.leader_id == "n"
    assert (found.leader_id, found.skip_assignment) == ("n", True)
    assert [one.member_id for one in found.members] == ["n", "b"]


def test_a_leader_that_cannot_skip_is_told_of_its_old_id_and_follows() -> None:
    found = back(ask(stable(S, B), join(instance_id="S", can_skip=False)))
    assert (found.leader_id, found.members, found.skip_assignment) == ("s", (), False)


def test_another_subscription_under_the_same_protocol_is_taken_without_a_rebalance() -> None:
    """Kafka says so in ST-16."""
    decision = ask(stable(), join(instance_id="S", protocols=offers("range", topics=("sales",))))
    assert recorded(decision) == ["MemberReplaced"]


def test_a_change_of_the_chosen_protocol_rebalances() -> None:
    group = stable(member("a", protocols=BOTH), member("s", "S", BOTH))
    decision = ask(group, join(instance_id="S", protocols=offers("sticky")))
    (started,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    assert started.trigger is Trigger.STATIC_MEMBER_REPLACED
    assert told(decision) == []


def test_coming_back_while_the_leader_assigns_always_rebalances() -> None:
    """The leader may be assigning to the old id."""
    assert recorded(ask(completing(), join(instance_id="S"))) == ["MemberReplaced", "JoinParked", "RebalanceStarted"]


def test_one_that_comes_back_as_the_last_one_awaited_ends_the_join_phase() -> None:
    decision = ask(preparing(joined=["a", "b"]), join(instance_id="S"))
    assert told(decision) == ["a.join Joined", "b.join Joined", "Joined"]
    assert back(decision).member_id == "n"


def test_the_sync_that_was_awaited_of_the_old_id_is_awaited_of_the_new_one() -> None:
    """The sane variant of SYNC-25: the limit fires for whoever has not synced, and for nobody else."""
    group = ask(stable(late=["s"]), join(instance_id="S")).group
    assert group.pending_syncs == {"n"}
    assert tell(ask(group, sync("n"))) == "Stable 7; Synced; SyncReceived; member:n=10000 sync=off"


def test_one_that_comes_back_is_no_newcomer_and_does_not_expire_while_it_waits() -> None:
    """D-12, as the modern coordinator has it."""
    replaced = ask(preparing(newcomers=[member("n", "N")]), join(instance_id="N", fresh_id="m")).group
    assert ask(replaced, expire(DeadlineKind.MEMBER, "m")).group is replaced


def test_a_full_group_has_no_room_for_an_anonymous_join_whoever_it_is() -> None:
    assert told(ask(stable(), join(instance_id="S"), GroupSettings(group_max_size=3))) == ["GROUP_MAX_SIZE_REACHED"]


# -- what a node that is lost leaves behind ------------------------------------------------------------------


def test_a_replacement_that_changes_nothing_is_owed_no_rebalance() -> None:
    assert not ask(stable(), join(instance_id="S")).group.must_rebalance
    assert not ask(preparing(), join(instance_id="S")).group.must_rebalance


def test_a_replacement_is_owed_a_rebalance_while_the_leader_may_assign_to_the_old_id() -> None:
    """If the node is lost now, the leader is asked for the assignment of the generation that it was told of."""
    assert ask(completing(), join(instance_id="S")).group.must_rebalance
    assert ask(preparing(of=completing()), join(instance_id="S")).group.must_rebalance


def test_a_replacement_that_lacks_the_generation_s_protocol_is_owed_a_rebalance() -> None:
    group = stable(member("a", protocols=BOTH), member("s", "S", BOTH))
    assert ask(group, join(instance_id="S", protocols=offers("sticky"))).group.must_rebalance


def test_a_newcomer_s_replacement_is_owed_nothing() -> None:
    """It is forgotten with the node."""
    group = preparing(of=completing(), newcomers=[member("n", "N")])
    assert not ask(group, join(instance_id="N", fresh_id="m")).group.must_rebalance
