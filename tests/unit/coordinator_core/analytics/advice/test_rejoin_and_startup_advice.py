"""Advice on the rebalance timeout and the initial rebalance delay, and what-if replays."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_core.analytics.advice.advise import advise
from coordinator_core.analytics.advice.cost import Cost, cost_of_rebalance_timeout, cost_of_session_timeout
from coordinator_core.analytics.advice.evidence import Evidence, Rebalances, Rejoins, Startups, rejoins_of
from coordinator_core.analytics.advice.policy import Advice, Bounds, CurrentAssignment, CurrentTimeouts, Policy
from coordinator_core.analytics.advice.recommend import recommend
from coordinator_core.analytics.advice.rejoin import advise_rebalance_timeout, shortest_timeout_ms
from coordinator_core.analytics.advice.startup import advise_initial_delay
from coordinator_core.analytics.advice.steps import BEYOND, STEPS_MS, counted, covered, place_of
from coordinator_core.analytics.advice.what_if import Eviction, what_if_rejoin, what_if_session
from tests.support.histories import History, observed

POLICY = Policy()

# -- rebalance timeout ------------------------------------------------------------------------------------------


def rejoins(
    *lengths_ms: int, late_ms: tuple[int, ...] = (), no_shows: int = 0, limit_ms: int = 300_000, lost: int = 0
) -> Rejoins:
    """Build rejoins, each of a rebalance of its own.

    Args:
        lengths_ms: of members that joined in time.
        late_ms: of live members that were evicted at the limit, and joined later.
        no_shows: how many were evicted there, were dead, and did not join again.
        limit_ms: the limit.
        lost: how many were evicted there, were live, and did not join again.
    """
    late = counted([*late_ms, *[STEPS_MS[-1] + 1] * lost])
    stalls = [*((place_of(limit_ms), place_of(each), 1) for each in late_ms)]
    stalls.append((place_of(limit_ms), BEYOND, no_shows + lost))
    waits = counted([*lengths_ms, *[limit_ms] * (len(late_ms) + no_shows + lost)])
    return rejoins_of(counted(lengths_ms), late, no_shows, waits, stalls)


def rebalances_of(seen: Rejoins, present_ms: int = 300_000) -> Rebalances:
    """Return rebalances that took as long as they waited."""
    took_ms = sum(count * step_ms for count, step_ms in zip(seen.waits, (*STEPS_MS, present_ms), strict=True))
    return Rebalances(count=sum(seen.waits), took_ms=took_ms)


def advised(seen: Rejoins, present_ms: int | None) -> Advice:
    return advise_rebalance_timeout(seen, rebalances_of(seen), present_ms, POLICY)


@pytest.mark.parametrize(
    ("seen", "present_ms", "verdict", "value_ms"),
    [
        (rejoins(*[2_500] * 4_000), 300_000, "keep", 10_000),
        (rejoins(*[2_500] * 4_000, no_shows=3), 300_000, "change", 10_000),
        (rejoins(*[2_500] * 4_000, no_shows=3, limit_ms=12_000), 12_000, "keep", 10_000),
        (rejoins(*[2_500] * 3_000, *[40_000] * 10, no_shows=1), 300_000, "change", 50_000),
        (rejoins(*[2_500] * 3_000, *[40_000] * 2, no_shows=1), 300_000, "change", 50_000),
        (rejoins(*[9_000] * 500, late_ms=(80_000,) * 5, limit_ms=60_000), 60_000, "change", 100_000),
        (rejoins(*[9_000] * 500), None, "keep", 12_000),
    ],
)
def test_the_rebalance_timeout_leaves_time_for_every_rejoin_with_a_quarter_to_spare(
    seen: Rejoins, present_ms: int | None, verdict: str, value_ms: int
) -> None:
    advice = advised(seen, present_ms)
    assert (advice.verdict, advice.value_ms, advice.present_ms) == (verdict, value_ms, present_ms)


def test_a_timeout_that_evicts_a_slow_but_live_member_is_lengthened_again() -> None:
    """A member joins after 41 seconds, and 10 seconds had been set: evicted each time, and back with a rebalance."""
    slow = rejoins(*[2_000] * 240, late_ms=(41_000,) * 40, limit_ms=10_000)
    advice = advised(slow, 10_000)
    assert (advice.verdict, advice.value_ms) == ("change", 52_000)
    assert advice.because == (
        "280 rejoins took up to 41 s (p99 41 s), 40 of them by live members that had been evicted; 10 s evicts 40 live"
        " members, and 52 s evicts 0: 240 rebalances instead of 280, 1,994 s of standstill instead of 880 s, 0 s of"
        " repeated work instead of 1,640 s"
    )
    costs = {name: advice.effect[name] for name in advice.effect if name.endswith(("_present", "_advised"))}
    assert costs == {
        "rebalances_present": 280,
        "evictions_present": 40,
        "rebalances_advised": 240,
        "evictions_advised": 0,
    }


def test_a_timeout_that_leaves_time_for_a_slow_but_live_member_is_not_shortened_below_it() -> None:
    """Although crashed members delay many rebalances up to the limit, the advised timeout covers the slow member."""
    slow = rejoins(*[2_000] * 300, *[41_000] * 2, no_shows=50)
    advice = advised(slow, 300_000)
    assert (advice.verdict, advice.value_ms) == ("change", 52_000)
    assert advice.effect["evictions_advised"] == 0
    assert advised(slow, 52_000).verdict == "keep"


def test_no_shorter_timeout_is_proposed_for_a_live_member_that_never_rejoined() -> None:
    advice = advised(rejoins(*[2_000] * 300, no_shows=20, lost=1), 300_000)
    assert advice.verdict == "keep"
    assert advice.because.endswith("1 live member took an unknown time, so nothing shorter than 300 s is proposed")


def test_timeout_that_costs_more_than_it_saves_is_not_proposed() -> None:
    """One live member needed an hour, once; twenty crashed ones would delay the group by as long each."""
    advice = advised(rejoins(*[2_000] * 300, late_ms=(3_600_000,), no_shows=20, limit_ms=60_000), 60_000)
    assert (advice.verdict, advice.value_ms) == ("keep", 4_500_000)
    assert advice.because.endswith("which is not less")
    cost = {name: advice.effect[f"stood_still_{name}_ms"] for name in ("present", "advised")}
    assert cost["advised"] > 10 * cost["present"]


def test_three_live_members_that_were_evicted_are_enough_to_judge() -> None:
    assert advised(rejoins(*[2_000] * 9, late_ms=(41_000,) * 2, limit_ms=10_000), 10_000).verdict == "too_little_data"
    advice = advised(rejoins(*[2_000] * 9, late_ms=(41_000,) * 3, limit_ms=10_000), 10_000)
    assert (advice.verdict, advice.value_ms, advice.confidence) == ("change", 52_000, "low")


@pytest.mark.parametrize(("count", "confidence"), [(100, "low"), (700, "medium"), (3_000, "high")])
def test_confidence_grows_with_the_number_of_rejoins(count: int, confidence: str) -> None:
    assert advised(rejoins(*[2_500] * count), 300_000).confidence == confidence


def test_few_rejoins_are_too_little_data() -> None:
    advice = advised(rejoins(*[2_500] * 99), 300_000)
    assert (advice.verdict, advice.value_ms, advice.because) == (
        "too_little_data",
        None,
        "99 rejoins so far; it takes 100 rejoins to judge",
    )


lengths = st.lists(st.integers(0, 400_000), min_size=1, max_size=60)


@given(lengths)
def test_no_shorter_rebalance_timeout_leaves_time_for_every_rejoin(lengths_ms: list[int]) -> None:
    seen = rejoins(*lengths_ms)
    value_ms = shortest_timeout_ms(seen, POLICY)
    assert value_ms >= POLICY.min_rebalance_timeout_ms
    assert value_ms * 100 >= max(lengths_ms) * (100 + POLICY.headroom_percent)
    if value_ms > POLICY.min_rebalance_timeout_ms:
        assert covered(seen.counts, POLICY.without_headroom(value_ms) - 5_001) < len(lengths_ms) or value_ms > 300_000


@given(lengths, st.integers(0, 400_000))
def test_a_longer_rejoin_never_makes_the_rebalance_timeout_shorter(lengths_ms: list[int], more_ms: int) -> None:
    longest = max(lengths_ms) + more_ms
    before, after = (shortest_timeout_ms(rejoins(*each), POLICY) for each in (lengths_ms, [*lengths_ms, longest]))
    assert before <= after


@given(lengths, lengths, st.integers(0, 5), st.integers(0, 1), st.sampled_from([10_000, 60_000, 300_000]))
def test_a_change_lowers_the_cost_and_evicts_no_live_member_that_is_known(
    lengths_ms: list[int], later_ms: list[int], no_shows: int, lost: int, present_ms: int
) -> None:
    late_ms = tuple(present_ms + each + 1 for each in later_ms)
    in_time = [each for each in lengths_ms if each <= present_ms]
    seen = rejoins(*in_time * 40, late_ms=late_ms, no_shows=no_shows, limit_ms=present_ms, lost=lost)
    advice = advised(seen, present_ms)
    if advice.verdict != "change" or advice.value_ms is None:
        return
    now, then = (cost_of_rebalance_timeout(seen, rebalances_of(seen), each) for each in (present_ms, advice.value_ms))
    assert then.total_ms < now.total_ms
    assert then.evictions == lost
    assert not lost or advice.value_ms > present_ms


# -- the whole cost ----------------------------------------------------------------------------------------------


def test_cost_of_the_present_timeout_equals_the_history() -> None:
    seen = rejoins(*[2_000] * 20, late_ms=(41_000,) * 4, no_shows=2, limit_ms=10_000)
    cost = cost_of_rebalance_timeout(seen, Rebalances(count=30, took_ms=130_000), 10_000)
    assert cost == Cost(rebalances=30, evictions=4, stood_still_ms=130_000, repeated_work_ms=4 * 41_000)


def test_longer_rebalance_timeout_costs_waits_and_saves_rebalances() -> None:
    seen = rejoins(*[2_000] * 20, late_ms=(41_000,) * 4, no_shows=2, limit_ms=10_000)
    cost = cost_of_rebalance_timeout(seen, Rebalances(count=30, took_ms=150_000), 50_000)
    waiting_ms, beside_ms, saved_ms = 20 * 2_000 + 4 * 41_000 + 2 * 50_000, 50_000, 4 * 5_000
    assert cost == Cost(26, 0, waiting_ms + beside_ms - saved_ms, 0)


def test_each_spurious_eviction_costs_two_rebalances() -> None:
    days = observed(History(1, ((9_000,), (7_000, 9_500)), (0, 0)), 10_000)
    cost = cost_of_session_timeout(days, Rebalances(count=10, took_ms=20_000), 8_000)
    assert cost == Cost(rebalances=16, evictions=3, stood_still_ms=32_000, repeated_work_ms=24_000)


# -- other advice ------------------------------------------------------------------------------------------------


def test_an_eager_group_that_gets_its_partitions_back_is_recommended_cooperative_sticky() -> None:
    rebalances = Rebalances(count=120, took_ms=600_000, completed=100, partitions_moved=60)
    (found,) = recommend(rebalances, CurrentAssignment("range", 12), POLICY)
    assert (found.name, found.effect) == (
        "cooperative-sticky",
        {
            "rebalances": 100,
            "partitions_revoked": 1_200,
            "partitions_given_back": 1_140,
            "stood_still_ms": 600_000,
            "stood_still_saved_ms": 570_000,
        },
    )
    assert found.because == (
        "100 rebalances with range gave 1,140 of 1,200 revoked partitions (95 %) back to the same member; with"
        " cooperative-sticky members go on reading these, which saves 570 s of 600 s without reading"
    )


@pytest.mark.parametrize(
    ("assigned", "completed", "moved"),
    [
        (CurrentAssignment("cooperative-sticky", 12), 100, 60),
        (CurrentAssignment("own", 12), 100, 60),
        (CurrentAssignment(None, 12), 100, 60),
        (CurrentAssignment("range", 0), 100, 60),
        (CurrentAssignment("range", 12), 9, 6),
        (CurrentAssignment("range", 12), 100, 601),
    ],
)
def test_cooperative_sticky_is_not_recommended_where_it_would_not_help(
    assigned: CurrentAssignment, completed: int, moved: int
) -> None:
    rebalances = Rebalances(count=120, took_ms=600_000, completed=completed, partitions_moved=moved)
    assert recommend(rebalances, assigned, POLICY) == ()


def test_members_that_are_restarted_are_recommended_static_membership() -> None:
    rebalances = Rebalances(count=20, took_ms=60_000, by_members=15, restarts=8)
    (found,) = recommend(rebalances, CurrentAssignment(), POLICY)
    assert (found.name, found.effect) == (
        "static_membership",
        {"restarts": 8, "rebalances": 20, "rebalances_saved": 15, "stood_still_saved_ms": 45_000},
    )
    assert "left or died 8 times" in found.because
    assert "saves up to 15 of 20 rebalances and 45 s without reading" in found.because
    assert recommend(replace(rebalances, restarts=2), CurrentAssignment(), POLICY) == ()


# -- initial delay ----------------------------------------------------------------------------------------------


def startups(alone: int, *followers_ms: tuple[int, ...]) -> Startups:
    """Return starts without followers, and others by when their followers joined."""
    return Startups(
        starts=alone + len(followers_ms),
        alone=alone,
        last_comers=counted(max(each) for each in followers_ms),
        followers=counted(ms for each in followers_ms for ms in each),
    )


@pytest.mark.parametrize(
    ("seen", "verdict", "value_ms"),
    [
        (startups(10), "keep", 3_000),
        (startups(0, *[(4_000, 8_000)] * 10), "change", 10_000),
        (startups(9, (8_000,)), "keep", 3_000),
        (startups(8, (8_000,), (8_000,)), "change", 10_000),
        (startups(0, *[(8_000,)] * 9, (50_000,)), "change", 10_000),
        (startups(0, *[(200_000,)] * 10), "keep", 3_000),
        (startups(2), "too_little_data", None),
    ],
)
def test_advised_delay_gathers_members_that_join_soon(seen: Startups, verdict: str, value_ms: int | None) -> None:
    advice = advise_initial_delay(seen, 3_000, POLICY)
    assert (advice.verdict, advice.value_ms) == (verdict, value_ms)


def test_what_if_reports_avoided_rebalances_and_their_cost() -> None:
    advice = advise_initial_delay(startups(0, *[(4_000, 8_000)] * 19, (40_000,)), 3_000, POLICY)
    assert advice.effect == {
        "startups": 20,
        "rebalances_after_startup": 39,
        "rebalances_saved": 38,
        "startup_added_ms": 7_000,
    }
    assert advice.confidence == "high"
    assert advice.because == "39 rebalances followed 20 start-ups, and 10000 ms saves 38 of them"


@given(st.lists(st.lists(st.integers(1, 300_000), min_size=1, max_size=4).map(tuple), min_size=3, max_size=12))
def test_advised_initial_delay_is_between_the_present_one_and_the_maximum(followers: list[tuple[int, ...]]) -> None:
    advice = advise_initial_delay(startups(0, *followers), 3_000, POLICY)
    assert advice.value_ms is not None
    assert 3_000 <= advice.value_ms <= POLICY.max_initial_delay_ms
    assert (advice.verdict == "change") == (advice.value_ms > 3_000)


# -- all of it ----------------------------------------------------------------------------------------------------


def test_group_without_history_gets_no_advice() -> None:
    nothing = advise(Evidence(), CurrentTimeouts(None, None, 3_000), CurrentAssignment(), Bounds(), POLICY)
    verdicts = {each.verdict for each in (nothing.session, nothing.rebalance, nothing.initial_delay)}
    assert (verdicts, nothing.tested, nothing.recommendations) == ({"too_little_data"}, None, ())


# -- one by one -----------------------------------------------------------------------------------------------------


def eviction(name: str, needed_ms: int | None, limit_ms: int = 10_000, reason: str = "session_expired") -> Eviction:
    return Eviction(name, None, name, "here", reason, 1_000, limit_ms, needed_ms)


EVICTIONS = (eviction("soon back", 12_000), eviction("late", 25_000), eviction("dead", None))


@pytest.mark.parametrize(
    ("timeout_ms", "avoided", "remaining", "later_ms"),
    [
        (6_000, [], ["soon back", "late"], -4_000),
        (11_999, [], ["soon back", "late"], 1_999),
        (12_000, ["soon back"], ["late"], 2_000),
        (45_000, ["soon back", "late"], [], 35_000),
    ],
)
def test_eviction_is_avoided_by_its_required_timeout(
    timeout_ms: int, avoided: list[str], remaining: list[str], later_ms: int
) -> None:
    days = observed(History(1, ((9_000,), (7_000, 9_500)), (0, 0)), 10_000)
    found = what_if_session(EVICTIONS, Evidence(days), 10_000, timeout_ms)
    assert [each.member_id for each in found.avoided] == avoided
    assert [each.member_id for each in found.remaining] == remaining
    assert [each.member_id for each in found.failures] == ["dead"]
    assert found.detection_added_ms == later_ms
    expected = (2, 3) if timeout_ms == 6_000 else (0, 0)
    assert (found.added_at_least, found.added_at_most) == expected
    assert (found.cost.evictions, found.present_cost) == (expected[1], Cost(0, 0, 0, 0))


def test_a_shorter_rebalance_timeout_evicts_members_that_joined_in_time() -> None:
    lost = replace(eviction("lost", None, reason="rebalance_timeout"), is_live=True)
    evidence = Evidence(rejoins=rejoins(1_000, 8_000, 8_001, late_ms=(12_000, 25_000), limit_ms=10_000))
    found = what_if_rejoin((*EVICTIONS, lost), [1_000, 8_000, 8_001], evidence, 10_000, 8_000)
    assert (found.added, found.waiting_added_ms, len(found.remaining)) == (1, -2_000, 3)
    assert found.present_cost is not None
    assert (found.cost.evictions, found.present_cost.evictions) == (3, 2)
