"""Rebalance churn, spurious evictions and groups that never settle, by the pure rules."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_core.analytics.frequency import HIGH, MEDIAN, Thresholds
from tests.support.frequency_rules import (
    Consumer,
    Life,
    churn_periods,
    existed_ms,
    is_back_within_grace,
    is_churning,
    is_same_consumer,
    is_successor,
    percentile,
    rebalancing_share,
)

THRESHOLDS = Thresholds(grace_ms=60_000, churn_min_rebalances=3, churn_window_ms=100, stuck_ms=1_000, stuck_restarts=10)


@pytest.mark.parametrize(
    ("starts_ms", "found"),
    [
        ([], (0, 0)),
        ([0, 100], (0, 0)),
        ([0, 50, 100], (1, 3)),
        ([0, 50, 101], (0, 0)),
        ([0, 0, 0, 0], (1, 4)),
        ([0, 50, 100, 150, 200], (1, 5)),
        ([0, 50, 100, 101, 150, 200], (1, 6)),
        ([0, 50, 100, 900, 950, 1_000], (2, 6)),
        ([0, 50, 100, 500, 900, 950, 1_000], (2, 6)),
        ([0, 10, 20, 121, 130, 131], (2, 6)),
    ],
)
def test_churn_periods_that_share_a_rebalance_are_merged(starts_ms: list[int], found: tuple[int, int]) -> None:
    assert churn_periods(starts_ms, THRESHOLDS) == found


@given(st.lists(st.integers(0, 500), max_size=12).map(sorted), st.integers(2, 4))
def test_churn_periods_equal_the_merged_windows_of_a_search(starts_ms: list[int], rebalances: int) -> None:
    thresholds = replace(THRESHOLDS, churn_min_rebalances=rebalances)
    windows = [
        set(range(first, first + rebalances))
        for first in range(len(starts_ms) - rebalances + 1)
        if starts_ms[first + rebalances - 1] - starts_ms[first] <= thresholds.churn_window_ms
    ]
    joined: list[set[int]] = []
    for window in windows:
        if joined and joined[-1] & window:
            joined[-1] |= window
        else:
            joined.append(window)
    assert churn_periods(starts_ms, thresholds) == (len(joined), sum(map(len, joined)))


GONE = Consumer("m-1", None, "billing", "/10.0.0.1")
POD = Consumer("m-1", "pod-1", "billing", "/10.0.0.1")


@pytest.mark.parametrize(
    ("gone", "back", "is_same"),
    [
        (GONE, replace(GONE, member_id="m-2"), True),
        (GONE, GONE, False),
        (GONE, replace(GONE, member_id="m-2", host="/10.0.0.2"), False),
        (GONE, replace(GONE, member_id="m-2", client_id="other"), False),
        (GONE, replace(POD, member_id="m-2"), False),
        (POD, replace(GONE, member_id="m-2"), False),
        (POD, Consumer("m-2", "pod-1", "renamed", "/10.0.0.2"), True),
        (POD, replace(POD, member_id="m-2", instance_id="pod-2"), False),
    ],
)
def test_consumer_is_identified_by_instance_or_by_client_and_host(
    gone: Consumer, back: Consumer, is_same: bool
) -> None:
    assert is_same_consumer(gone, back) is is_same


@pytest.mark.parametrize(("joined_at_ms", "is_back"), [(99, False), (100, True), (110, True), (111, False)])
def test_grace_includes_both_bounds(joined_at_ms: int, is_back: bool) -> None:
    assert is_back_within_grace(100, joined_at_ms, 10) is is_back


@pytest.mark.parametrize(("joined_at_ms", "is_one"), [(90, False), (91, True), (99, True), (100, False)])
def test_client_joining_during_a_silence_is_the_successor(joined_at_ms: int, is_one: bool) -> None:
    assert is_successor(90, joined_at_ms, 100) is is_one


@pytest.mark.parametrize(
    ("under_way_ms", "restarts", "is_lost"),
    [(None, 0, False), (999, 9, False), (1_000, 0, True), (None, 10, True)],
)
def test_group_is_churning_if_it_rebalances_too_long_or_too_often(
    under_way_ms: int | None, restarts: int, is_lost: bool
) -> None:
    assert is_churning(under_way_ms, restarts, THRESHOLDS) is is_lost


def test_a_percentile_is_one_of_the_lengths() -> None:
    assert (percentile([], HIGH), percentile([7], HIGH), percentile([1, 2], MEDIAN)) == (None, 7, 1)
    assert (percentile(range(1, 21), HIGH), percentile(range(1, 22), HIGH)) == (19, 20)


@pytest.mark.parametrize(
    ("lives", "lived"),
    [
        ([Life(0)], 100),
        ([Life(1_000)], 100),
        ([Life(1_030)], 70),
        ([Life(0, 1_030)], 30),
        ([Life(1_030, 1_050)], 20),
        ([Life(0, 1_020), Life(1_070)], 50),
        ([Life(0, 2_000)], 100),
        ([Life(1_100)], 0),
        ([Life(0, 900)], 0),
    ],
)
def test_lifetime_in_an_interval_is_from_creation_to_death(lives: list[Life], lived: int) -> None:
    assert existed_ms(lives, 1_000, 1_100) == lived


def test_share_is_of_the_lifetime_not_the_interval() -> None:
    assert (rebalancing_share(51, existed_ms([Life(1_028)], 1_000, 1_100)), rebalancing_share(0, 0)) == (51 / 72, 0.0)
