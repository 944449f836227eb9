"""Join phases: the initial rebalance delay, ordinary phases, and absent static members.

Source: protocol.md section 9.
"""

import pytest

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import (
    GenerationStarted,
    InitialDelayExtended,
    MemberRemoved,
    RebalanceStarted,
    RemovalReason,
    Trigger,
)
from coordinator_core.protocol.requests import DeadlineKind
from coordinator_core.protocol.responses import JoinGroupResponse
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    DELAY_MS,
    GENERATION,
    REBALANCE_MS,
    A,
    B,
    S,
    answer,
    completing,
    decided,
    delayed,
    empty,
    expire,
    join,
    leave,
    member,
    offers,
    preparing,
    recorded,
    replies_of,
    stable,
    summary_of,
    timed,
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


# -- the initial rebalance delay -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delay_ms", "rebalance_ms", "initial_delay_ms", "remaining_delay_ms"),
    [(3_000, 60_000, 3_000, 57_000), (3_000, 3_000, 3_000, 0), (3_000, 1_000, 3_000, 0)],
)
def test_phase_from_empty_starts_the_initial_rebalance_delay(
    delay_ms: int, rebalance_ms: int, initial_delay_ms: int, remaining_delay_ms: int
) -> None:
    settings = GroupSettings(group_initial_rebalance_delay_ms=delay_ms)
    decision = decided(empty(pending=["h"]), join("h", rebalance_ms=rebalance_ms), settings)
    assert (started(decision).initial_delay_ms, started(decision).remaining_delay_ms) == (
        initial_delay_ms,
        remaining_delay_ms,
    )
    assert timed(decision)["join"] == initial_delay_ms


def test_without_a_delay_the_first_member_is_answered_at_once() -> None:
    """As in Kafka: DJ-25."""
    settings = GroupSettings(group_initial_rebalance_delay_ms=0)
    assert replies_of(decided(empty(pending=["h"]), join("h"), settings)) == ["JoinGroupResponse"]


@pytest.mark.parametrize(
    ("initial_delay_ms", "remaining_delay_ms", "next_ms", "left_ms"),
    [(3_000, 57_000, 3_000, 54_000), (3_000, 4_000, 3_000, 1_000), (3_000, 1_000, 1_000, 0), (1_000, 500, 500, 0)],
)
def test_new_members_extend_the_initial_delay_while_there_is_time(
    initial_delay_ms: int, remaining_delay_ms: int, next_ms: int, left_ms: int
) -> None:
    """As in Kafka: DJ-03, DJ-04 and DJ-26."""
    decision = decided(
        delayed(A, B, initial_delay_ms=initial_delay_ms, remaining_delay_ms=remaining_delay_ms), JOIN_LIMIT
    )
    assert decision.records == (InitialDelayExtended(next_ms, left_ms),)
    assert timed(decision) == {"join": next_ms}
    assert not decision.group.has_new_members


def test_changed_delay_does_not_extend_the_phase_beyond_the_rebalance_timeout() -> None:
    settings = GroupSettings(group_initial_rebalance_delay_ms=9_000)
    decision = decided(delayed(A, B, initial_delay_ms=1_000, remaining_delay_ms=9_000), JOIN_LIMIT, settings)
    assert decision.records == (InitialDelayExtended(9_000, 0),)


def test_member_of_an_earlier_initial_delay_does_not_extend_it() -> None:
    """The delay had no time left, and the group has emptied since."""
    group = decided(delayed(A, B), JOIN_LIMIT).group
    again = decided(decided(group, leave("a", "b")).group, join(instance_id="N")).group
    assert (again.initial_delay_ms, again.remaining_delay_ms) == (DELAY_MS, REBALANCE_MS - DELAY_MS)
    assert replies_of(decided(again, JOIN_LIMIT)) == ["JoinGroupResponse"]


def test_initial_delay_without_members_ends_the_phase() -> None:
    decision = decided(delayed(A, remaining_delay_ms=57_000), JOIN_LIMIT)
    assert replies_of(decision) == ["a.join JoinGroupResponse"]
    assert decision.group.generation == 1


def test_initial_delay_without_remaining_time_ends_the_phase() -> None:
    assert replies_of(decided(delayed(A, B), JOIN_LIMIT)) == [
        "a.join JoinGroupResponse",
        "b.join JoinGroupResponse",
    ]


def test_end_of_the_initial_delay_does_not_wait_for_pending_members() -> None:
    decision = decided(delayed(A, pending=["h"]), JOIN_LIMIT)
    assert replies_of(decision) == ["a.join JoinGroupResponse"]
    assert decision.group.pending_member_ids == {"h"}


@pytest.mark.parametrize("kind", [DeadlineKind.SESSION, DeadlineKind.PENDING_MEMBER])
def test_initial_delay_continues_when_a_member_expires(kind: DeadlineKind) -> None:
    """D-3, as the legacy coordinator has it: DJ-28."""
    group = delayed(A, B, pending=["h"])
    subject = "b" if kind is DeadlineKind.SESSION else "h"
    decision = decided(group, expire(kind, subject))
    assert decision.group.state == "PreparingRebalance"
    assert "GenerationStarted" not in recorded(decision)


def test_initial_delay_without_members_left_ends_in_an_empty_group() -> None:
    group = decided(delayed(A), expire(DeadlineKind.SESSION, "a")).group
    decision = decided(group, JOIN_LIMIT)
    assert summary_of(decision) == "Empty 1; no reply; GroupEmptied; join=off"
    assert (decision.group.leader_id, decision.group.protocol_type) == (None, "consumer")


# -- the ordinary phase -----------------------------------------------------------------------------------


def test_group_has_the_trigger_of_its_rebalance() -> None:
    assert decided(stable(), leave("b")).group.trigger is Trigger.MEMBER_LEFT


def test_limit_is_the_largest_rebalance_timeout_including_the_joining_member() -> None:
    group = stable(member("a", rebalance_ms=20_000), member("b", rebalance_ms=50_000), pending=["h"])
    assert timed(decided(group, join("h", rebalance_ms=10_000)))["join"] == 50_000
    assert timed(decided(group, join("h", rebalance_ms=90_000)))["join"] == 90_000


def test_configured_rebalance_timeout_replaces_those_of_members() -> None:
    decision = decided(stable(pending=["h"]), join("h", rebalance_ms=90_000), GroupSettings(rebalance_timeout_ms=1_000))
    assert timed(decision)["join"] == 1_000


def test_later_joiners_do_not_move_the_limit() -> None:
    """As in Kafka: DJ-09."""
    assert "join" not in timed(decided(preparing(pending=["h"]), join("h", rebalance_ms=900_000)))


def test_absent_dynamic_members_are_removed_and_static_ones_kept_at_the_limit() -> None:
    decision = decided(preparing(joined=["a"]), JOIN_LIMIT)
    removed = [record for record in decision.records if isinstance(record, MemberRemoved)]
    assert [(record.member_id, record.removal_reason) for record in removed] == [("b", RemovalReason.REBALANCE_TIMEOUT)]
    assert replies_of(decision) == ["a.join JoinGroupResponse"]
    assert timed(decision) == {
        "session:b": None,
        "join": None,
        "sync": 60_000,
        "session:a": 10_000,
        "session:s": 10_000,
    }


def test_group_without_joined_members_is_empty_at_the_limit() -> None:
    assert summary_of(decided(preparing(A, B), JOIN_LIMIT)) == (
        "Empty 8; no reply; MemberRemoved MemberRemoved GroupEmptied; session:a=off session:b=off join=off"
    )


def test_phase_restarts_at_the_limit_with_only_absent_static_members() -> None:
    """No generation without a possible leader: DJ-17."""
    decision = decided(preparing(S), JOIN_LIMIT)
    assert summary_of(decision) == "PreparingRebalance 7; no reply; PhaseTimeoutReset; join=60000"


def test_repeated_wait_for_absent_static_members_has_a_minimum() -> None:
    """A limit of 0 would expire again at once until their sessions end."""
    decision = decided(preparing(member("s", "S", rebalance_ms=0)), JOIN_LIMIT)
    assert timed(decision) == {"join": 1_000}


def test_phase_with_limit_zero_ends_as_it_starts() -> None:
    group = stable(member("a", rebalance_ms=0), member("b", rebalance_ms=0))
    assert replies_of(decided(group, join("a", rebalance_ms=0))) == ["JoinGroupResponse"]


def test_limit_of_an_ended_phase_has_no_effect() -> None:
    for group in (empty(), completing(), stable()):
        assert decided(group, JOIN_LIMIT).group is group


# -- a generation -----------------------------------------------------------------------------------------


def test_leader_that_rejoins_remains_leader() -> None:
    led_by_a = decided(preparing(S, A, B, joined=["a", "b"]), JOIN_LIMIT).group
    assert generation(decided(preparing(of=led_by_a, joined=["s", "a"]), JOIN_LIMIT)).leader_id == "a"


def test_oldest_rejoined_member_leads_if_the_leader_did_not_rejoin() -> None:
    group = preparing(S, A, B, joined=["a", "b"])
    assert generation(decided(group, JOIN_LIMIT)).leader_id == "a"


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
    assert generation(decided(group, JOIN_LIMIT)).protocol_name == chosen


def test_new_generation_clears_assignments_and_waits_for_all_syncs() -> None:
    group = decided(preparing(joined=["a", "b"]), JOIN_LIMIT).group
    assert {one.assignment for one in group.members.values()} == {b""}
    assert set(group.pending_syncs) == {"a", "b", "s"}
    assert not any(one.is_new for one in group.members.values())


def test_generations_begin_again_past_the_largest() -> None:
    led = preparing(joined=["a", "b", "s"])
    led.generation = 2**31 - 1
    assert generation(decided(led, JOIN_LIMIT)).generation == 1
    alone = preparing(A)
    alone.generation = 2**31 - 1
    assert decided(alone, leave("a")).group.generation == 1


def test_all_members_get_the_same_generation_and_the_leader_gets_all_members() -> None:
    decision = decided(preparing(joined=["a", "b"], new_members=[member("n")]), JOIN_LIMIT)
    answers = [one.answer for one in decision.replies if isinstance(one.answer, JoinGroupResponse)]
    assert {(one.generation, one.leader_id, one.protocol_name) for one in answers} == {(GENERATION + 1, "a", "range")}
    leader = answer(decision, 11)
    assert isinstance(leader, JoinGroupResponse)
    assert [one.member_id for one in leader.members] == ["a", "b", "s", "n"]


def test_awaited_members_are_listed_in_join_order() -> None:
    assert preparing(joined=["b"], pending=["h"]).waiting_for() == ["a", "s", "h"]
    assert completing(synced=["a"]).waiting_for() == ["b", "s"]
    assert stable().waiting_for() == []


def test_a_sync_phase_waits_for_its_leader_first() -> None:
    group = completing(synced=["a"])
    group.leader_id = "s"
    assert group.waiting_for() == ["s", "b"]


@pytest.mark.parametrize("group", [Group("g"), empty()], ids=["no group", "Empty"])
def test_empty_group_awaits_no_members(group: Group) -> None:
    assert group.waiting_for() == []
