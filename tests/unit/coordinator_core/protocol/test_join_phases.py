"""How a join phase starts, goes on and ends: the initial window, the ordinary phase, and those who stay silent.

Source: protocol.md section 9.
"""

import pytest

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import (
    GenerationStarted,
    MemberRemoved,
    RebalanceStarted,
    Removal,
    Trigger,
    WindowExtended,
)
from coordinator_core.protocol.replies import Joined
from coordinator_core.protocol.requests import DeadlineKind
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    DELAY_MS,
    GENERATION,
    REBALANCE_MS,
    A,
    B,
    S,
    answer,
    ask,
    completing,
    empty,
    expire,
    join,
    leave,
    member,
    offers,
    preparing,
    recorded,
    stable,
    tell,
    timed,
    told,
    window,
)

JOIN_LIMIT = expire(DeadlineKind.JOIN)


def started(decision: Decision) -> RebalanceStarted:
    """Return how the phase that a decision began is to go."""
    (found,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    return found


def generation(decision: Decision) -> GenerationStarted:
    """Return the generation that a decision began."""
    (found,) = [record for record in decision.records if isinstance(record, GenerationStarted)]
    return found


# -- the initial window -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delay_ms", "rebalance_ms", "window_ms", "remaining_ms"),
    [(3_000, 60_000, 3_000, 57_000), (3_000, 3_000, 3_000, 0), (3_000, 1_000, 3_000, 0)],
)
def test_a_phase_from_empty_opens_a_window(delay_ms: int, rebalance_ms: int, window_ms: int, remaining_ms: int) -> None:
    settings = GroupSettings(group_initial_rebalance_delay_ms=delay_ms)
    decision = ask(empty(pending=["h"]), join("h", rebalance_ms=rebalance_ms), settings)
    assert (started(decision).window_ms, started(decision).remaining_ms) == (window_ms, remaining_ms)
    assert timed(decision)["join"] == window_ms


def test_without_a_delay_the_first_member_is_answered_at_once() -> None:
    """Kafka says so in DJ-25."""
    settings = GroupSettings(group_initial_rebalance_delay_ms=0)
    assert told(ask(empty(pending=["h"]), join("h"), settings)) == ["Joined"]


@pytest.mark.parametrize(
    ("window_ms", "remaining_ms", "next_ms", "left_ms"),
    [(3_000, 57_000, 3_000, 54_000), (3_000, 4_000, 3_000, 1_000), (3_000, 1_000, 1_000, 0), (1_000, 500, 500, 0)],
)
def test_newcomers_open_another_window_while_there_is_time(
    window_ms: int, remaining_ms: int, next_ms: int, left_ms: int
) -> None:
    """Kafka says so in DJ-03, DJ-04 and DJ-26."""
    decision = ask(window(A, B, window_ms=window_ms, remaining_ms=remaining_ms), JOIN_LIMIT)
    assert decision.records == (WindowExtended(next_ms, left_ms),)
    assert timed(decision) == {"join": next_ms}
    assert not decision.group.has_newcomers


def test_a_delay_that_changes_meanwhile_does_not_let_the_windows_outlast_the_rebalance_timeout() -> None:
    settings = GroupSettings(group_initial_rebalance_delay_ms=9_000)
    decision = ask(window(A, B, window_ms=1_000, remaining_ms=9_000), JOIN_LIMIT, settings)
    assert decision.records == (WindowExtended(9_000, 0),)


def test_whoever_came_into_an_earlier_window_opens_none_later() -> None:
    """That window had no time left for another, and the group was left since."""
    group = ask(window(A, B), JOIN_LIMIT).group
    again = ask(ask(group, leave("a", "b")).group, join(instance_id="N")).group
    assert (again.window_ms, again.remaining_ms) == (DELAY_MS, REBALANCE_MS - DELAY_MS)
    assert told(ask(again, JOIN_LIMIT)) == ["Joined"]


def test_a_window_in_which_nobody_came_ends_the_phase() -> None:
    decision = ask(window(A, remaining_ms=57_000), JOIN_LIMIT)
    assert told(decision) == ["a.join Joined"]
    assert decision.group.generation == 1


def test_a_window_with_no_time_left_ends_the_phase() -> None:
    assert told(ask(window(A, B), JOIN_LIMIT)) == ["a.join Joined", "b.join Joined"]


def test_the_end_of_a_window_waits_for_no_handshake_id() -> None:
    decision = ask(window(A, pending=["h"]), JOIN_LIMIT)
    assert told(decision) == ["a.join Joined"]
    assert decision.group.pending_member_ids == {"h"}


@pytest.mark.parametrize("kind", [DeadlineKind.MEMBER, DeadlineKind.HANDSHAKE])
def test_a_window_goes_on_when_somebody_expires_in_it(kind: DeadlineKind) -> None:
    """D-3, as the legacy coordinator has it: DJ-28."""
    group = window(A, B, pending=["h"])
    subject = "b" if kind is DeadlineKind.MEMBER else "h"
    decision = ask(group, expire(kind, subject))
    assert decision.group.state == "PreparingRebalance"
    assert "GenerationStarted" not in recorded(decision)


def test_a_window_that_everybody_left_ends_in_an_empty_group() -> None:
    group = ask(window(A), expire(DeadlineKind.MEMBER, "a")).group
    decision = ask(group, JOIN_LIMIT)
    assert tell(decision) == "Empty 1; nobody; GroupEmptied; join=off"
    assert (decision.group.leader_id, decision.group.protocol_type) == (None, "consumer")


# -- the ordinary phase -----------------------------------------------------------------------------------


def test_a_group_knows_why_it_rebalances() -> None:
    assert ask(stable(), leave("b")).group.trigger is Trigger.MEMBER_LEFT


def test_the_limit_is_the_largest_timeout_of_those_present_the_joiner_included() -> None:
    group = stable(member("a", rebalance_ms=20_000), member("b", rebalance_ms=50_000), pending=["h"])
    assert timed(ask(group, join("h", rebalance_ms=10_000)))["join"] == 50_000
    assert timed(ask(group, join("h", rebalance_ms=90_000)))["join"] == 90_000


def test_a_limit_that_is_put_in_force_counts_for_all() -> None:
    decision = ask(stable(pending=["h"]), join("h", rebalance_ms=90_000), GroupSettings(rebalance_timeout_ms=1_000))
    assert timed(decision)["join"] == 1_000


def test_later_joiners_do_not_move_the_limit() -> None:
    """Kafka says so in DJ-09."""
    assert "join" not in timed(ask(preparing(pending=["h"]), join("h", rebalance_ms=900_000)))


def test_at_the_limit_absent_dynamic_members_go_and_static_ones_stay() -> None:
    decision = ask(preparing(joined=["a"]), JOIN_LIMIT)
    removed = [record for record in decision.records if isinstance(record, MemberRemoved)]
    assert [(record.member_id, record.removal) for record in removed] == [("b", Removal.REBALANCE_TIMEOUT)]
    assert told(decision) == ["a.join Joined"]
    assert timed(decision) == {"member:b": None, "join": None, "sync": 60_000, "member:a": 10_000, "member:s": 10_000}


def test_at_the_limit_with_nobody_there_the_group_is_empty() -> None:
    assert tell(ask(preparing(A, B), JOIN_LIMIT)) == (
        "Empty 8; nobody; MemberRemoved MemberRemoved GroupEmptied; member:a=off member:b=off join=off"
    )


def test_at_the_limit_with_only_silent_static_members_the_phase_begins_again() -> None:
    """No generation without somebody who could lead: DJ-17."""
    decision = ask(preparing(S), JOIN_LIMIT)
    assert tell(decision) == "PreparingRebalance 7; nobody; PhaseRetimed; join=60000"


def test_waiting_for_silent_members_who_allow_no_time_does_not_spin() -> None:
    """A limit of nothing would be due again at once, for as long as their sessions last."""
    decision = ask(preparing(member("s", "S", rebalance_ms=0)), JOIN_LIMIT)
    assert timed(decision) == {"join": 1_000}


def test_a_limit_of_nothing_ends_the_phase_as_it_starts() -> None:
    group = stable(member("a", rebalance_ms=0), member("b", rebalance_ms=0))
    assert told(ask(group, join("a", rebalance_ms=0))) == ["Joined"]


def test_a_phase_that_is_over_has_no_limit() -> None:
    for group in (empty(), completing(), stable()):
        assert ask(group, JOIN_LIMIT).group is group


# -- a generation -----------------------------------------------------------------------------------------


def test_the_incumbent_leads_if_it_joined_again_whoever_has_stood_longer() -> None:
    led_by_a = ask(preparing(S, A, B, joined=["a", "b"]), JOIN_LIMIT).group
    assert generation(ask(preparing(of=led_by_a, joined=["s", "a"]), JOIN_LIMIT)).leader_id == "a"


def test_if_the_leader_did_not_join_again_the_longest_standing_of_those_who_did_leads() -> None:
    group = preparing(S, A, B, joined=["a", "b"])
    assert generation(ask(group, JOIN_LIMIT)).leader_id == "a"


@pytest.mark.parametrize(
    ("lists", "chosen"),
    [
        ([("range", "sticky"), ("range", "sticky"), ("sticky", "range")], "range"),
        ([("range", "sticky"), ("sticky",)], "sticky"),
        ([("sticky", "range"), ("range", "sticky")], "range"),
        ([("b", "a", "c"), ("c", "b", "a"), ("c", "a", "b")], "c"),
        ([("x", "a", "b"), ("b", "a"), ("y", "a", "b")], "a"),
    ],
    ids=["most votes", "only what all offer", "of equals the first by name", "first choices", "first that all offer"],
)
def test_members_vote_for_the_protocol(lists: list[tuple[str, ...]], chosen: str) -> None:
    members = [member(name, protocols=offers(*names)) for name, names in zip("abs", lists, strict=False)]
    group = preparing(*members, joined=[one.member_id for one in members])
    assert generation(ask(group, JOIN_LIMIT)).protocol_name == chosen


def test_a_new_generation_clears_assignments_and_awaits_a_sync_of_everybody() -> None:
    group = ask(preparing(joined=["a", "b"]), JOIN_LIMIT).group
    assert {one.assignment for one in group.members.values()} == {b""}
    assert group.pending_syncs == {"a", "b", "s"}
    assert not any(one.is_new for one in group.members.values())


def test_everybody_is_told_the_same_generation_and_the_leader_of_everybody() -> None:
    decision = ask(preparing(joined=["a", "b"], newcomers=[member("n")]), JOIN_LIMIT)
    answers = [one.answer for one in decision.replies if isinstance(one.answer, Joined)]
    assert {(one.generation, one.leader_id, one.protocol_name) for one in answers} == {(GENERATION + 1, "a", "range")}
    leader = answer(decision, 11)
    assert isinstance(leader, Joined)
    assert [one.member_id for one in leader.members] == ["a", "b", "s", "n"]


def test_who_is_awaited_is_told_in_the_order_of_joining() -> None:
    assert preparing(joined=["b"], pending=["h"]).waiting_for() == ["a", "s", "h"]
    assert completing(synced=["a"]).waiting_for() == ["b", "s"]
    assert stable().waiting_for() == []


def test_a_sync_phase_waits_for_its_leader_first() -> None:
    group = completing(synced=["a"])
    group.leader_id = "s"
    assert group.waiting_for() == ["s", "b"]


@pytest.mark.parametrize("group", [Group("g"), empty()], ids=["no group", "Empty"])
def test_nobody_is_awaited_where_there_is_nobody(group: Group) -> None:
    assert group.waiting_for() == []
