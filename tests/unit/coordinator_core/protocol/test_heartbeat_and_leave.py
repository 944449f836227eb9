"""Members say that they live, or that they go.

Source: protocol.md sections 7 and 8.
"""

import pytest

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.records import MemberRemoved, RebalanceStarted, Removal, Trigger
from coordinator_core.protocol.replies import Beaten, Left
from coordinator_core.protocol.requests import Leaver
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    GENERATION,
    A,
    B,
    answer,
    ask,
    completing,
    heartbeat,
    join,
    leave,
    member,
    preparing,
    recorded,
    reply,
    stable,
    tell,
    timed,
    told,
    window,
)


def results(decision: Decision) -> list[str]:
    """Return the entries' results, in the order asked."""
    found = answer(decision)
    assert isinstance(found, Left)
    return ["NONE" if one.error is None else one.error.code for one in found.members]


# -- heartbeats -------------------------------------------------------------------------------------------


def test_a_heartbeat_changes_nothing_but_the_session() -> None:
    group = stable()
    decision = ask(group, heartbeat("b"))
    assert decision.group is group
    assert timed(decision) == {"member:b": 10_000}


def test_a_changed_session_timeout_is_in_force_from_the_next_heartbeat() -> None:
    decision = ask(stable(), heartbeat("b"), GroupSettings(session_timeout_ms=20_000, heartbeat_interval_ms=700))
    assert answer(decision) == Beaten(20_000, 700)
    assert timed(decision) == {"member:b": 20_000}


def test_a_third_of_the_session_but_at_most_three_seconds_is_the_interval() -> None:
    assert answer(ask(stable(), heartbeat("b"))) == Beaten(10_000, 3_000)
    short = stable(member("a", session_ms=6_000))
    assert answer(ask(short, heartbeat("a"))) == Beaten(6_000, 2_000)


@pytest.mark.parametrize(("interval_ms", "told_ms"), [(9_999, 9_999), (10_000, 3_000), (25_000, 3_000)])
def test_an_interval_that_a_member_s_own_session_would_not_survive_is_not_told(interval_ms: int, told_ms: int) -> None:
    settings = GroupSettings(heartbeat_interval_ms=interval_ms)
    assert answer(ask(stable(), heartbeat("b"), settings)) == Beaten(10_000, told_ms)


def test_a_newcomer_s_heartbeat_shortens_the_time_it_is_given() -> None:
    """A quirk that is kept: HB-19."""
    decision = ask(preparing(newcomers=[member("n")]), heartbeat("n"))
    assert tell(decision) == "PreparingRebalance 7; REBALANCE_IN_PROGRESS; nothing; member:n=10000"


# -- leaves -----------------------------------------------------------------------------------------------


def test_a_batch_has_one_result_an_entry_and_one_rebalance() -> None:
    decision = ask(stable(pending=["h"]), leave("b", "x", "h", Leaver("s", "X"), Leaver("s", "S")))
    assert results(decision) == ["NONE", "UNKNOWN_MEMBER_ID", "NONE", "UNKNOWN_MEMBER_ID", "NONE"]
    assert recorded(decision) == ["MemberRemoved", "MemberIdDropped", "MemberRemoved", "RebalanceStarted"]


def test_an_entry_that_comes_twice_is_unknown_the_second_time() -> None:
    assert results(ask(stable(), leave("b", "b"))) == ["NONE", "UNKNOWN_MEMBER_ID"]


def test_a_fenced_process_cannot_take_the_instance_out() -> None:
    assert results(ask(stable(), leave(Leaver("x", "S")))) == ["FENCED_INSTANCE_ID"]


def test_an_instance_alone_is_an_operator_s_word_for_whoever_has_it() -> None:
    decision = ask(stable(), leave(Leaver("", "S"), Leaver("", "X"), Leaver("")))
    assert results(decision) == ["NONE", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"]
    assert list(decision.group.members) == ["a", "b"]


def test_leaves_that_took_nobody_out_change_nothing() -> None:
    group = stable()
    assert ask(group, leave("x", Leaver("x", "S"))).group is group


def test_the_rebalance_names_the_first_that_left_and_its_reason() -> None:
    decision = ask(stable(), leave(Leaver("b", None, "deploy"), Leaver("s", None, "late")))
    (started,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    assert (started.trigger, started.member_id, started.client_reason) == (Trigger.MEMBER_LEFT, "b", "deploy")
    removed = [record for record in decision.records if isinstance(record, MemberRemoved)]
    assert {record.removal for record in removed} == {Removal.LEFT}


def test_the_last_one_to_leave_empties_the_group_at_once() -> None:
    decision = ask(stable(A), leave("a"))
    assert recorded(decision) == ["MemberRemoved", "RebalanceStarted", "GroupEmptied"]
    assert (decision.group.state, decision.group.generation) == ("Empty", GENERATION + 1)
    assert timed(decision)["join"] is None


def test_the_last_one_to_leave_empties_the_group_even_if_a_handshake_id_is_out() -> None:
    assert ask(stable(A, pending=["h"]), leave("a")).group.state == "Empty"


def test_a_leaver_that_was_the_last_one_awaited_ends_the_join_phase() -> None:
    assert told(ask(preparing(joined=["a", "s"]), leave("b"))) == ["a.join Joined", "s.join Joined", "Left"]


def test_a_handshake_id_that_leaves_may_end_the_join_phase() -> None:
    decision = ask(preparing(A, B, joined=["a", "b"], pending=["h"]), leave("h"))
    assert told(decision) == ["a.join Joined", "b.join Joined", "Left"]


def test_a_leaver_s_parked_join_is_told_without_an_id() -> None:
    decision = ask(preparing(joined=["b"]), leave("b"))
    assert told(decision) == ["b.join UNKNOWN_MEMBER_ID", "Left"]
    assert reply(decision, 12).member_id == ""


def test_when_the_leader_goes_the_longest_standing_member_leads() -> None:
    assert ask(stable(), leave("a")).group.leader_id == "b"
    assert ask(completing(), leave("a")).group.leader_id == "b"


def test_the_initial_window_does_not_end_when_somebody_leaves_nor_when_all_do() -> None:
    """Kafka says so in DJ-07."""
    group = ask(window(A, B), leave("b")).group
    assert group.state == "PreparingRebalance"
    assert ask(group, leave("a")).group.state == "PreparingRebalance"


def test_whoever_comes_into_an_abandoned_window_leads() -> None:
    group = ask(window(A, pending=["h"]), leave("a")).group
    assert ask(group, join("h")).group.leader_id == "h"


def test_a_removal_is_owed_a_rebalance_but_a_newcomer_s_is_not() -> None:
    """What was assigned to the one that went has no owner; a newcomer held nothing."""
    assert ask(preparing(), leave("b")).group.must_rebalance
    assert not ask(preparing(newcomers=[member("n")]), leave("n")).group.must_rebalance
