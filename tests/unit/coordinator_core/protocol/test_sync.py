"""The leader brings everybody's assignment, and each member takes its own.

Source: protocol.md sections 6, 9.4 and 18.
"""

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import AssignmentAccepted, RebalanceStarted, Trigger
from coordinator_core.protocol.replies import Synced
from coordinator_core.protocol.requests import Request
from coordinator_core.protocol.settings import CataloguedTopic, Context, GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    HELD,
    NOW,
    A,
    B,
    answer,
    ask,
    completing,
    empty,
    join,
    leave,
    recorded,
    stable,
    sync,
    tell,
    timed,
    told,
)


def part(decision: Decision, token: int = 1) -> bytes:
    """Return the assignment that a token is told."""
    found = answer(decision, token)
    assert isinstance(found, Synced)
    return found.assignment


def test_the_leader_s_sync_releases_everybody_with_their_own_part() -> None:
    decision = ask(completing(synced=["b", "s"]), sync("a", *HELD.items()))
    assert (part(decision), part(decision, 22), part(decision, 23)) == (HELD["a"], HELD["b"], HELD["s"])


def test_sessions_of_those_answered_begin_anew_and_of_nobody_else() -> None:
    decision = ask(completing(synced=["b"]), sync("a"), GroupSettings(session_timeout_ms=7_000))
    assert timed(decision) == {"member:b": 7_000, "member:a": 7_000}


def test_the_answer_names_type_and_protocol() -> None:
    found = answer(ask(stable(), sync("b", protocol_type="consumer", protocol_name="range")))
    assert found == Synced("consumer", "range", HELD["b"])


def test_assignment_of_a_member_is_limited() -> None:
    limited = GroupSettings(member_assignment_max_bytes=10)
    group = completing(synced=["b"])
    refused = ask(group, sync("a", ("b", b"x" * 11)), limited)
    assert (told(refused), refused.group) == (["INVALID_REQUEST"], group)
    assert recorded(ask(group, sync("s", ("b", b"x" * 11)), limited)) == ["SyncParked"]
    assert ask(group, sync("a", ("b", b"x" * 10)), limited).group.members["b"].assignment == b"x" * 10


def test_a_follower_s_map_is_ignored() -> None:
    decision = ask(completing(), sync("b", *HELD.items()))
    assert recorded(decision) == ["SyncParked"]
    assert ask(decision.group, sync("a")).group.members["b"].assignment == b""


def test_a_map_in_stable_is_ignored() -> None:
    decision = ask(stable(), sync("a", ("a", b"all")))
    assert part(decision) == HELD["a"]
    assert not decision.records


def test_who_is_left_out_holds_nothing_and_who_is_no_member_is_left_out() -> None:
    decision = ask(completing(synced=["b"]), sync("a", ("a", HELD["a"]), ("x", b"?")))
    assert part(decision, 22) == b""
    assert {one.member_id: one.assignment for one in decision.group.members.values()} == {
        "a": HELD["a"],
        "b": b"",
        "s": b"",
    }
    accepted = decision.records[0]
    assert isinstance(accepted, AssignmentAccepted)
    assert (accepted.generation, accepted.left_out) == (decision.group.generation, ("b", "s"))


def test_a_member_that_is_assigned_nothing_by_name_is_not_left_out() -> None:
    accepted = ask(completing(), sync("a", ("a", HELD["a"]), ("b", b""), ("s", b""))).records[0]
    assert isinstance(accepted, AssignmentAccepted)
    assert accepted.left_out == ()


def test_a_newer_sync_of_the_same_member_takes_the_older_one_s_place() -> None:
    decision = ask(completing(synced=["b"]), sync("b"))
    assert told(decision) == ["b.sync REBALANCE_IN_PROGRESS"]
    assert decision.group.parked_syncs == {"b": 1}


def test_the_limit_is_lifted_when_the_last_member_has_synced() -> None:
    group = completing(A, B, synced=["b"])
    assert timed(ask(group, sync("a")))["sync"] is None
    assert "sync" not in timed(ask(completing(A, B), sync("a")))
    late = stable(late=["b"])
    assert tell(ask(late, sync("b"))) == "Stable 7; Synced; SyncReceived; member:b=10000 sync=off"


def test_an_assignment_is_for_the_members_of_the_generation_only() -> None:
    """A newcomer's rebalance comes before the leader's sync: the assignment is void."""
    group = ask(completing(pending=["h"]), join("h")).group
    assert told(ask(group, sync("a", *HELD.items()))) == ["REBALANCE_IN_PROGRESS"]


def test_a_leaver_s_parked_sync_is_answered() -> None:
    """The sane variant of LV-17."""
    assert told(ask(completing(synced=["b", "s"]), leave("b"))) == [
        "b.sync UNKNOWN_MEMBER_ID",
        "s.sync REBALANCE_IN_PROGRESS",
        "Left",
    ]


def test_a_named_protocol_must_be_the_group_s_unless_it_has_none() -> None:
    assert told(ask(stable(), sync("b", protocol_name="sticky"))) == ["INCONSISTENT_GROUP_PROTOCOL"]
    assert told(ask(empty(), sync("b", protocol_name="sticky"))) == ["UNKNOWN_MEMBER_ID"]


# -- partitions that changed while the leader assigned ---------------------------------------------------------


def ask_with_orders_at(version: int, group: Group, request: Request) -> Decision:
    """Decide while the catalogue knows that "orders" last changed at this version; the group is at 1."""
    context = Context(GroupSettings(), {"orders": CataloguedTopic(12, version)}, topics_version=version)
    return decide(group, request, NOW, context)


def test_an_assignment_of_partitions_that_have_changed_since_is_given_out_and_then_made_again() -> None:
    decision = ask_with_orders_at(2, completing(synced=["b"]), sync("a", *HELD.items()))
    assert told(decision) == ["b.sync Synced", "Synced"]
    (started,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    assert started.trigger is Trigger.PARTITIONS_CHANGED
    assert decision.group.must_rebalance


def test_an_assignment_of_partitions_as_they_are_stands() -> None:
    decision = ask_with_orders_at(1, completing(synced=["b"]), sync("a", *HELD.items()))
    assert recorded(decision) == ["AssignmentAccepted", "SyncReceived"]
