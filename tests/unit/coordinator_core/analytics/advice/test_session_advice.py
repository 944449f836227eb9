"""Advice on the session timeout: exact on known histories, and within its laws on random ones."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_core.analytics.advice.backtest import BackTest
from coordinator_core.analytics.advice.evidence import GAP_BOUNDS_MS, Day, Rebalances, merged
from coordinator_core.analytics.advice.policy import FIXED_MS, Advice, Bounds, Policy
from coordinator_core.analytics.advice.replay import (
    added_at,
    avoided_at,
    detection_added_ms,
    gaps_over,
    rate_at_most,
    spurious_at,
)
from coordinator_core.analytics.advice.session import advise_session_timeout, shortest_timeout_ms
from coordinator_core.analytics.advice.steps import STEPS_MS, candidates, counted, covered, place_of, shortest
from tests.support.histories import FIRST_DAY, KINDS, History, gaps, history, observed, spurious_in_truth

POLICY = Policy()
BOUNDS = Bounds()


def advised(
    days: Sequence[Day], present_ms: int | None, bounds: Bounds, policy: Policy
) -> tuple[Advice, BackTest | None]:
    return advise_session_timeout(days, Rebalances(), present_ms, bounds, policy)


SEEDS = range(25)

# -- steps ----------------------------------------------------------------------------------------------------


def test_steps_only_grow_and_end_at_four_hours() -> None:
    assert list(STEPS_MS) == sorted(set(STEPS_MS))
    assert (STEPS_MS[0], STEPS_MS[-1]) == (1_000, 14_400_000)


@given(st.integers(0, 20_000_000))
def test_a_length_is_counted_under_the_least_step_that_covers_it(length_ms: int) -> None:
    place = place_of(length_ms)
    assert all(step_ms < length_ms for step_ms in STEPS_MS[:place])
    assert all(step_ms >= length_ms for step_ms in STEPS_MS[place:])


@given(st.lists(st.integers(0, 20_000_000)), st.sampled_from(STEPS_MS))
def test_a_step_covers_exactly_the_lengths_that_it_reaches(lengths_ms: list[int], step_ms: int) -> None:
    assert covered(counted(lengths_ms), step_ms) == sum(length_ms <= step_ms for length_ms in lengths_ms)


def test_the_choice_is_between_the_bounds_both_included() -> None:
    assert candidates(5_500, 8_000) == (5_500, 6_000, 7_000, 8_000)
    assert candidates(7_000, 7_000) == (7_000,)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12, unique=True), st.integers(0, 60))
def test_the_shortest_choice_that_is_enough_is_found(choices: list[int], enough: int) -> None:
    found = shortest(sorted(choices), lambda choice: choice >= enough)
    assert found == min((choice for choice in choices if choice >= enough), default=None)


# -- replay ---------------------------------------------------------------------------------------------------

lengths = st.integers(1, 100_000)
histories = st.builds(
    lambda days: History(3, tuple(tuple(silences) for silences, _ in days), tuple(deaths for _, deaths in days)),
    st.lists(st.tuples(st.lists(lengths, max_size=12), st.integers(0, 3)), min_size=4, max_size=9),
)
timeouts = st.sampled_from([6_000, 10_000, 16_384, 30_000, 45_000, 65_536, 90_000])


@given(histories, timeouts, timeouts)
def test_upper_bound_of_evictions_is_never_below_the_truth(past: History, current_ms: int, timeout_ms: int) -> None:
    back_too_late = sum(ms > current_ms + 60_000 for day in past.silences_ms for ms in day)
    reported = spurious_at(observed(past, current_ms), timeout_ms)
    assert reported + back_too_late >= spurious_in_truth(past, timeout_ms)


@given(histories, timeouts, timeouts)
def test_added_evictions_lie_between_the_bounds(past: History, seen_ms: int, timeout_ms: int) -> None:
    at_least, at_most = added_at(observed(past, seen_ms), timeout_ms)
    truth = sum(timeout_ms < ms <= seen_ms for day in past.silences_ms for ms in day)
    assert at_least <= truth <= at_most


@given(histories, timeouts, st.one_of(st.integers(1, 5_000_000), st.sampled_from(GAP_BOUNDS_MS)))
def test_gaps_are_counted_as_bound_by_bound(past: History, current_ms: int, timeout_ms: int) -> None:
    for day in observed(past, current_ms):
        counted_by = list(zip((0, *GAP_BOUNDS_MS), (*GAP_BOUNDS_MS, day.longest_gap_ms), day.gaps, strict=True))
        at_least = sum(count for low, _, count in counted_by if low >= timeout_ms)
        at_most = sum(count for _, high, count in counted_by if high > timeout_ms)
        is_over = day.longest_gap_ms > timeout_ms
        assert gaps_over(day, timeout_ms) == ((max(1, at_least), max(1, at_most)) if is_over else (0, 0))


@given(histories, st.sampled_from([8_192, 16_384, 32_768, 65_536]))
def test_at_a_bound_of_the_histogram_the_answer_is_exact(past: History, bound_ms: int) -> None:
    truth = sum(bound_ms < ms for day in past.silences_ms for ms in day)
    assert added_at(observed(past, 100_000), bound_ms) == (truth, truth)


@given(histories, timeouts, timeouts, timeouts)
def test_longer_timeout_never_evicts_more_members(past: History, current_ms: int, one_ms: int, other_ms: int) -> None:
    days = observed(past, current_ms)
    shorter, longer = sorted((one_ms, other_ms))
    assert spurious_at(days, shorter) >= spurious_at(days, longer)
    assert avoided_at(days, shorter) <= avoided_at(days, longer)
    assert detection_added_ms(days, shorter) <= detection_added_ms(days, longer)


def test_longer_timeout_delays_failure_detection_by_the_difference() -> None:
    days = observed(History(1, ((), ()), (2, 1)), 10_000)
    assert detection_added_ms(days, 25_000) == 3 * 15_000
    assert detection_added_ms(days, 6_000) == -3 * 4_000


def test_the_longest_gap_of_a_day_is_known_exactly() -> None:
    day = Day(FIRST_DAY, 9, gaps([3_000, 9_000, 13_000]), 13_000)
    assert gaps_over(day, 13_000) == (0, 0)
    assert gaps_over(day, 12_999) == (1, 2)
    assert gaps_over(day, 8_192) == (2, 2)


@pytest.mark.parametrize(("count", "exact"), [(0, 2.996), (1, 4.744), (5, 10.513), (50, 63.287)])
def test_rate_bound_equals_the_poisson_bound(count: int, exact: float) -> None:
    assert rate_at_most(count) == pytest.approx(exact, rel=0.02)


# -- the value ------------------------------------------------------------------------------------------------


@given(histories, timeouts, st.sampled_from([0.0, 1.0, 7.0]))
def test_value_is_the_shortest_choice_that_meets_the_target(past: History, current_ms: int, per_week: float) -> None:
    policy, days = replace(POLICY, spurious_per_week=per_week), observed(past, current_ms)
    value_ms = shortest_timeout_ms(days, BOUNDS, policy)
    allowed = policy.allowed(past.days)
    meeting = [
        ms
        for ms in (BOUNDS.least_ms, *STEPS_MS)
        if BOUNDS.least_ms <= ms <= BOUNDS.most_ms and spurious_at(days, policy.without_headroom(ms)) <= allowed
    ]
    assert value_ms == min(meeting)


@given(histories, timeouts, st.integers(1, 40_000), st.integers(0, 40_000))
def test_the_value_lies_between_the_bounds(past: History, current_ms: int, least_ms: int, more_ms: int) -> None:
    value_ms = shortest_timeout_ms(observed(past, current_ms), Bounds(least_ms, least_ms + more_ms), POLICY)
    assert least_ms <= value_ms <= least_ms + more_ms


@given(histories, timeouts, lengths)
def test_additional_heartbeat_gap_never_shortens_the_timeout(past: History, current_ms: int, length_ms: int) -> None:
    worse = replace(past, silences_ms=(*past.silences_ms[:-1], (*past.silences_ms[-1], length_ms)))
    if length_ms <= current_ms + 60_000:
        before, after = (shortest_timeout_ms(observed(each, current_ms), BOUNDS, POLICY) for each in (past, worse))
        assert before <= after


@given(histories, timeouts)
def test_stricter_target_never_shortens_the_timeout(past: History, current_ms: int) -> None:
    days = observed(past, current_ms)
    values = [
        shortest_timeout_ms(days, BOUNDS, replace(POLICY, spurious_per_week=rate)) for rate in (0, 0.5, 1, 3, 20, 1_000)
    ]
    assert values == sorted(values, reverse=True)


@given(histories, timeouts, st.integers(1, 1_000))
def test_advice_does_not_depend_on_dates_or_order(past: History, current_ms: int, later: int) -> None:
    days = observed(past, current_ms)
    moved = [replace(day, day=day.day + later) for day in days]
    split = [each for day in days for each in (replace(day, heartbeats=day.heartbeats - 1), Day(day.day, 1))]
    advice = advised(days, current_ms, BOUNDS, POLICY)
    assert advised(moved, current_ms, BOUNDS, POLICY) == advice
    assert merged(reversed(split)) == days


def known(*silences_ms: int, days: int = 28, deaths: int = 0) -> History:
    """Return a history with the same heartbeat gaps every day."""
    return History(4, (silences_ms,) * days, (deaths,) * days)


@pytest.mark.parametrize(
    ("past", "expected_ms"),
    [
        (known(), 6_000),
        (known(16_000), 20_000),
        (known(9_000, 16_000), 20_000),
        (known(40_000), 50_000),
        (known(48_000), 60_000),
        (known(64_000), 85_000),
    ],
)
def test_value_exceeds_the_longest_gap_of_every_day_by_a_quarter(past: History, expected_ms: int) -> None:
    assert shortest_timeout_ms(observed(past, 10_000), BOUNDS, POLICY) == expected_ms


def test_allowed_evictions_do_not_raise_the_timeout() -> None:
    rare = History(4, ((50_000,), *((16_000,),) * 6) * 4, (0,) * 28)
    assert shortest_timeout_ms(observed(rare, 10_000), BOUNDS, POLICY) == 20_000
    strict = replace(POLICY, spurious_per_week=0.9)
    assert shortest_timeout_ms(observed(rare, 10_000), BOUNDS, strict) == 65_000


# -- the verdict ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("past", "present_ms", "verdict", "value_ms"),
    [
        (known(16_000), 10_000, "change", 20_000),
        (known(16_000), 20_000, "keep", 20_000),
        (known(16_000), 45_000, "keep", 20_000),
        (known(16_000, deaths=1), 45_000, "change", 20_000),
        (known(16_000, deaths=1), 24_000, "keep", 20_000),
        (known(deaths=2), 45_000, "change", 6_000),
        (known(), 45_000, "keep", 6_000),
        (known(), 6_000, "keep", 6_000),
        (known(16_000), None, "keep", 20_000),
    ],
)
def test_sufficient_value_is_kept_and_an_insufficient_one_changed(
    past: History, present_ms: int | None, verdict: str, value_ms: int
) -> None:
    advice, tested = advised(observed(past, present_ms or 10_000), present_ms, BOUNDS, POLICY)
    assert (advice.verdict, advice.value_ms, advice.present_ms) == (verdict, value_ms, present_ms)
    assert tested is not None
    assert tested.held_back_days == 7


def test_what_if_reports_the_effect() -> None:
    days, rebalances = observed(known(16_000, deaths=1), 10_000), Rebalances(count=100, took_ms=200_000)
    advice, _ = advise_session_timeout(days, rebalances, 10_000, BOUNDS, POLICY)
    assert advice.effect == {
        "spurious_evictions": 28,
        "evictions_avoided": 28,
        "evictions_added": 0,
        "failures": 28,
        "detection_added_ms": 28 * 10_000,
        "rebalances_present": 100,
        "evictions_present": 28,
        "stood_still_present_ms": 200_000,
        "repeated_work_present_ms": 28 * 10_000,
        "rebalances_advised": 100 - 2 * 28,
        "evictions_advised": 0,
        "stood_still_advised_ms": 200_000 - 2 * 28 * 2_000,
        "repeated_work_advised_ms": 0,
    }
    assert advice.because == ("10000 ms has up to 28 spurious evictions; the target allows 4, and 20000 ms has 0")


def test_no_change_is_advised_if_no_timeout_within_the_bounds_helps() -> None:
    advice, _ = advised(observed(known(16_000), 10_000), 10_000, Bounds(6_000, 10_000), POLICY)
    assert (advice.verdict, advice.value_ms) == ("keep", 10_000)
    assert "is the longest allowed" in advice.because


@pytest.mark.parametrize(("days", "confidence"), [(3, "low"), (7, "medium"), (14, "medium"), (28, "high")])
def test_confidence_grows_with_the_length_of_the_history(days: int, confidence: str) -> None:
    advice, _ = advised(observed(known(16_000, days=days), 10_000), 10_000, BOUNDS, POLICY)
    assert (advice.verdict, advice.confidence) == ("change", confidence)


@pytest.mark.parametrize(("days", "reported"), [(0, "0 days"), (1, "1 day"), (2, "2 days")])
def test_two_days_are_too_little_data(days: int, reported: str) -> None:
    advice, tested = advised(observed(known(16_000, days=days), 10_000), 10_000, BOUNDS, POLICY)
    assert (advice.verdict, advice.value_ms, advice.confidence, tested) == ("too_little_data", None, "none", None)
    assert advice.because.startswith(f"{reported} and ")


def test_days_with_few_heartbeats_are_too_little_data() -> None:
    days = [Day(FIRST_DAY + number, 9, gaps([3_000] * 9), 3_000) for number in range(28)]
    assert advised(days, 10_000, BOUNDS, POLICY)[0].verdict == "too_little_data"


# -- the back-test ----------------------------------------------------------------------------------------------


def rank_in_truth(later: History, timeout_ms: int) -> tuple[int, int]:
    return max(0, spurious_in_truth(later, timeout_ms) - POLICY.allowed(later.days)), timeout_ms


@pytest.mark.parametrize("current_ms", [10_000, 45_000])
@pytest.mark.parametrize("kind", KINDS)
def test_advised_change_outperforms_both_fixed_values_on_later_days(kind: str, current_ms: int) -> None:
    for seed in SEEDS:
        past = history(kind, seed)
        advice, tested = advised(observed(past, current_ms), current_ms, BOUNDS, POLICY)
        assert tested is not None
        if advice.verdict == "change":
            later, earlier_value_ms = past.last(7), tested.advised.timeout_ms
            in_truth = rank_in_truth(later, earlier_value_ms)
            assert all(in_truth <= rank_in_truth(later, fixed_ms) for fixed_ms in FIXED_MS), seed


@pytest.mark.parametrize(
    ("kind", "current_ms", "least_changes"),
    [
        ("flapping", 10_000, 25),
        ("stalling", 10_000, 20),
        ("stalling", 45_000, 20),
        ("dying", 10_000, 25),
        ("dying", 45_000, 25),
        ("mixed", 10_000, 20),
        ("mixed", 45_000, 15),
    ],
)
def test_change_is_advised_where_it_has_a_gain(kind: str, current_ms: int, least_changes: int) -> None:
    verdicts = [
        advised(observed(history(kind, seed), current_ms), current_ms, BOUNDS, POLICY)[0].verdict for seed in SEEDS
    ]
    assert verdicts.count("change") >= least_changes


@pytest.mark.parametrize(("kind", "current_ms"), [("healthy", 10_000), ("healthy", 45_000), ("flapping", 45_000)])
def test_advice_is_keep_without_a_gain(kind: str, current_ms: int) -> None:
    for seed in SEEDS:
        advice, _ = advised(observed(history(kind, seed), current_ms), current_ms, BOUNDS, POLICY)
        assert advice.verdict == "keep"


def test_advice_that_fails_on_recent_days_is_not_given() -> None:
    """It paused in the earlier days only: the effective timeout does better on the held-back days."""
    past = History(4, ((40_000,),) * 21 + ((),) * 7, (0,) * 28)
    advice, tested = advised(observed(past, 10_000), 10_000, BOUNDS, POLICY)
    assert tested is not None
    assert not tested.is_passed
    assert advice.verdict == "keep"
    assert advice.because.endswith("but on 7 days held back 10000 ms did better than 50000 ms")


def test_back_test_uses_advice_from_the_earlier_days_only() -> None:
    past = History(4, ((16_000,),) * 21 + ((40_000,),) * 7, (0,) * 28)
    advice, tested = advised(observed(past, 10_000), 10_000, BOUNDS, POLICY)
    assert tested is not None
    assert (tested.advised.timeout_ms, tested.advised.excess, advice.value_ms) == (20_000, 6, 50_000)
    assert advice.verdict == "keep"


def test_back_test_reports_each_alternative() -> None:
    _, tested = advised(observed(known(16_000), 12_000), 12_000, BOUNDS, POLICY)
    assert tested is not None
    assert tested.present is not None
    tried = {each.timeout_ms: (each.spurious, each.excess) for each in (tested.advised, *tested.alternatives)}
    assert tried == {20_000: (0, 0), 12_000: (7, 6), 10_000: (7, 6), 45_000: (0, 0)}


# -- what is never proposed ---------------------------------------------------------------------------------------


def test_advised_timeout_is_not_shorter_than_a_gap_of_a_live_member() -> None:
    """Few enough gaps for the target, and one crash that a shorter timeout would have detected earlier."""
    past = History(4, ((40_000,), *[()] * 27), (1, *[0] * 27))
    advice, _ = advised(observed(past, 90_000), 90_000, BOUNDS, POLICY)
    assert advice.value_ms == 50_000
    assert (advice.effect["evictions_present"], advice.effect["evictions_advised"]) == (0, 0)


@given(st.sampled_from(sorted(KINDS)), st.integers(0, 60), st.sampled_from([10_000, 30_000, 60_000, 120_000]))
def test_shorter_session_timeout_evicts_no_live_member_of_the_history(kind: str, seed: int, present_ms: int) -> None:
    days = observed(history(kind, seed), present_ms)
    advice, _ = advised(days, present_ms, BOUNDS, POLICY)
    if advice.value_ms is not None and advice.value_ms < present_ms:
        assert spurious_at(days, advice.value_ms) == 0
