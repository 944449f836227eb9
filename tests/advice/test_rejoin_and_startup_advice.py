"""The rebalance timeout and the initial delay that are advised, and what other timeouts would have done."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_core.protocol.advice.advise import advise
from coordinator_core.protocol.advice.evidence import Evidence, Rejoins, Startups
from coordinator_core.protocol.advice.policy import Bounds, InForce, Policy
from coordinator_core.protocol.advice.rejoin import advise_rebalance_timeout, shortest_timeout_ms
from coordinator_core.protocol.advice.startup import advise_initial_delay
from coordinator_core.protocol.advice.steps import counted, covered
from coordinator_core.protocol.advice.what_if import Eviction, what_if_rejoin, what_if_session
from tests.advice.histories import History, observed

POLICY = Policy()
unhurried = settings(deadline=None)

# -- rebalance timeout ------------------------------------------------------------------------------------------


def rejoins(*lengths_ms: int, late_ms: tuple[int, ...] = (), no_shows: int = 0, limit_ms: int = 300_000) -> Rejoins:
    return Rejoins(counted([*lengths_ms, *late_ms]), counted(late_ms), no_shows, no_shows * limit_ms)


@pytest.mark.parametrize(
    ("seen", "present_ms", "verdict", "value_ms"),
    [
        (rejoins(*[2_500] * 4_000), 300_000, "keep", 10_000),
        (rejoins(*[2_500] * 4_000, no_shows=3), 300_000, "change", 10_000),
        (rejoins(*[2_500] * 4_000, no_shows=3), 12_000, "keep", 10_000),
        (rejoins(*[2_500] * 3_000, *[40_000] * 10, no_shows=1), 300_000, "change", 50_000),
        (rejoins(*[2_500] * 3_000, *[40_000] * 2, no_shows=1), 300_000, "change", 10_000),
        (rejoins(*[9_000] * 500, late_ms=(80_000,) * 5), 60_000, "change", 100_000),
        (rejoins(*[9_000] * 500), None, "keep", 12_000),
    ],
)
def test_the_rebalance_timeout_covers_nearly_every_rejoin_with_a_quarter_to_spare(
    seen: Rejoins, present_ms: int | None, verdict: str, value_ms: int
) -> None:
    advice = advise_rebalance_timeout(seen, present_ms, POLICY)
    assert (advice.verdict, advice.value_ms, advice.present_ms) == (verdict, value_ms, present_ms)


def test_it_tells_whom_it_would_have_waited_for_and_how_much_less_for_whoever_never_came() -> None:
    advice = advise_rebalance_timeout(
        rejoins(*[9_000] * 500, late_ms=(80_000,) * 5, no_shows=2, limit_ms=60_000), 60_000, POLICY
    )
    assert advice.effect == {
        "rejoins": 505,
        "late_rejoins": 5,
        "evictions_avoided": 5,
        "no_shows": 2,
        "waiting_added_ms": 2 * 40_000,
    }
    shorter = advise_rebalance_timeout(rejoins(*[2_500] * 500, no_shows=2), 300_000, POLICY)
    assert shorter.effect["waiting_added_ms"] == -2 * 290_000


@pytest.mark.parametrize(("count", "confidence"), [(100, "low"), (700, "medium"), (3_000, "high")])
def test_the_more_rejoins_were_seen_the_surer_it_is(count: int, confidence: str) -> None:
    assert advise_rebalance_timeout(rejoins(*[2_500] * count), 300_000, POLICY).confidence == confidence


def test_a_handful_of_rejoins_is_too_little() -> None:
    advice = advise_rebalance_timeout(rejoins(*[2_500] * 99), 300_000, POLICY)
    assert (advice.verdict, advice.value_ms, advice.because) == (
        "too_little_data",
        None,
        "99 rejoins so far; it takes 100 rejoins to judge",
    )


lengths = st.lists(st.integers(0, 400_000), min_size=1, max_size=60)


@unhurried
@given(lengths, st.sampled_from([0.5, 0.9, 0.999, 1.0]))
def test_no_shorter_rebalance_timeout_covers_as_much(lengths_ms: list[int], coverage: float) -> None:
    policy, seen = replace(POLICY, coverage=coverage), rejoins(*lengths_ms)
    value_ms = shortest_timeout_ms(seen, policy)
    assert value_ms >= policy.least_rebalance_timeout_ms
    assert covered(seen.counts, policy.without_headroom(value_ms)) >= coverage * len(lengths_ms)
    if value_ms > policy.least_rebalance_timeout_ms:
        assert covered(seen.counts, policy.without_headroom(value_ms) - 5_001) < coverage * len(lengths_ms) or (
            value_ms > 300_000
        )


@unhurried
@given(lengths, st.integers(0, 400_000))
def test_a_longer_rejoin_never_makes_the_rebalance_timeout_shorter(lengths_ms: list[int], more_ms: int) -> None:
    longest = max(lengths_ms) + more_ms
    before, after = (shortest_timeout_ms(rejoins(*each), POLICY) for each in (lengths_ms, [*lengths_ms, longest]))
    assert before <= after


# -- initial delay ----------------------------------------------------------------------------------------------


def startups(alone: int, *followers_ms: tuple[int, ...]) -> Startups:
    """Return starts that nobody followed, and others by when their followers came."""
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
def test_the_initial_delay_waits_for_those_who_come_soon(seen: Startups, verdict: str, value_ms: int | None) -> None:
    advice = advise_initial_delay(seen, 3_000, POLICY)
    assert (advice.verdict, advice.value_ms) == (verdict, value_ms)


def test_it_tells_how_many_rebalances_would_have_been_saved_and_what_that_costs() -> None:
    advice = advise_initial_delay(startups(0, *[(4_000, 8_000)] * 19, (40_000,)), 3_000, POLICY)
    assert advice.effect == {
        "startups": 20,
        "rebalances_after_startup": 39,
        "rebalances_saved": 38,
        "startup_added_ms": 7_000,
    }
    assert advice.confidence == "high"
    assert advice.because == "39 rebalances followed 20 start-ups, and 10000 ms saves 38 of them"


@unhurried
@given(st.lists(st.lists(st.integers(1, 300_000), min_size=1, max_size=4).map(tuple), min_size=3, max_size=12))
def test_an_initial_delay_is_never_lowered_nor_above_the_most(followers: list[tuple[int, ...]]) -> None:
    advice = advise_initial_delay(startups(0, *followers), 3_000, POLICY)
    assert advice.value_ms is not None
    assert 3_000 <= advice.value_ms <= POLICY.most_initial_delay_ms
    assert (advice.verdict == "change") == (advice.value_ms > 3_000)


# -- all of it ----------------------------------------------------------------------------------------------------


def test_of_a_group_of_which_nothing_is_known_nothing_is_said() -> None:
    advised = advise(Evidence(), InForce(None, None, 3_000), Bounds(), POLICY)
    verdicts = {each.verdict for each in (advised.session, advised.rebalance, advised.initial_delay)}
    assert (verdicts, advised.tested) == ({"too_little_data"}, None)


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
def test_each_eviction_is_spared_by_the_timeout_that_it_needed(
    timeout_ms: int, avoided: list[str], remaining: list[str], later_ms: int
) -> None:
    days = observed(History(1, ((9_000,), (7_000, 9_500)), (0, 0)), 10_000)
    found = what_if_session(EVICTIONS, days, timeout_ms)
    assert [each.member_id for each in found.avoided] == avoided
    assert [each.member_id for each in found.remaining] == remaining
    assert [each.member_id for each in found.failures] == ["dead"]
    assert found.detection_added_ms == later_ms
    expected = (2, 3) if timeout_ms == 6_000 else (0, 0)
    assert (found.added_at_least, found.added_at_most) == expected


def test_a_shorter_rebalance_timeout_leaves_out_who_came_in_time() -> None:
    found = what_if_rejoin(EVICTIONS, [1_000, 8_000, 8_001], 8_000)
    assert (found.added, found.waiting_added_ms, len(found.remaining)) == (1, -2_000, 2)
