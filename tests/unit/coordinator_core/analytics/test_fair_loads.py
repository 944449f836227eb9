"""The best loads and the fewest moves, against a reference that tries every assignment."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_core.analytics import fewest_moves as search
from coordinator_core.analytics.best_loads import AssignmentProblem, Shares, best_loads, best_spread
from coordinator_core.analytics.fewest_moves import fewest_moves


class Case(NamedTuple):
    """A small group, and the previous assignment."""

    wanted: AssignmentProblem
    held: Shares


@st.composite
def cases(draw: st.DrawFn, members_max: int = 4, topics: str = "xyz") -> Case:
    members = draw(st.integers(1, members_max))
    counts = draw(st.dictionaries(st.sampled_from(topics), st.integers(1, 4), min_size=1))
    positions = st.lists(st.sampled_from(range(members)), min_size=1, unique=True).map(sorted)
    takers = {topic: draw(positions) for topic in counts}
    held: Shares = [{} for _ in range(members)]
    for topic, count in counts.items():
        for holder in draw(st.lists(st.sampled_from(takers[topic]), max_size=count)):
            held[holder][topic] = held[holder].get(topic, 0) + 1
    return Case(AssignmentProblem(counts, takers, members), held)


def every_assignment(wanted: AssignmentProblem) -> Iterator[Shares]:
    """Name every way to share the partitions out."""
    splits = [list(ways(count, wanted.takers[topic])) for topic, count in wanted.counts.items()]
    for choice in product(*splits):
        shares: Shares = [{} for _ in range(wanted.member_count)]
        for topic, split in zip(wanted.counts, choice, strict=True):
            for taker, count in split:
                shares[taker][topic] = count
        yield shares


def ways(count: int, takers: Sequence[int]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Name every way to share one topic's partitions out."""
    first, *others = takers
    if not others:
        yield ((first, count),)
        return
    for share in range(count + 1):
        yield from (((first, share), *rest) for rest in ways(count - share, others))


def by_trying_all(case: Case) -> tuple[list[int], int]:
    """Return the best loads, the largest first, and the fewest moves to an assignment that has them."""
    sizes = sum(sum(share.values()) for share in case.held)
    tried = (
        (
            sorted((sum(share.values()) for share in shares), reverse=True),
            sizes
            - sum(
                min(count, share.get(topic, 0))
                for own, share in zip(case.held, shares, strict=True)
                for topic, count in own.items()
            ),
        )
        for shares in every_assignment(case.wanted)
    )
    return min(tried)


@settings(max_examples=300)
@given(cases())
def test_loads_and_moves_are_those_of_the_best_of_all_assignments(case: Case) -> None:
    assert (best_loads(case.wanted), fewest_moves(*case)) == by_trying_all(case)


@settings(max_examples=300)
@given(cases(members_max=12, topics="abcdefgh"))
def test_no_chain_improves_the_best_loads_of_a_larger_group(case: Case) -> None:
    spread = best_spread(*case)
    receivers = [
        {taker for topic, count in share.items() if count for taker in case.wanted.takers[topic]}
        for share in spread.shares
    ]
    for first, load in enumerate(spread.loads):
        reached = {first}
        while more := set().union(*(receivers[member] for member in reached)) - reached:
            reached |= more
        assert load <= min(spread.loads[member] for member in reached) + 1


@settings(max_examples=100)
@given(cases())
def test_every_partition_is_assigned_to_a_subscriber(case: Case) -> None:
    spread = best_spread(*case)
    for topic, count in case.wanted.counts.items():
        shares = {member: share.get(topic, 0) for member, share in enumerate(spread.shares)}
        assert sum(shares.values()) == count
        assert {member for member, share in shares.items() if share} <= set(case.wanted.takers[topic])


def test_a_chain_over_two_topics_is_found() -> None:
    """The first can pass partitions to the second only, and the second to the third."""
    wanted = AssignmentProblem({"x": 2, "y": 1}, {"x": [0, 1], "y": [1, 2]}, 3)
    assert best_spread(wanted, [{"x": 2}, {"y": 1}, {}]).loads == [1, 1, 1]
    assert fewest_moves(wanted, [{"x": 2}, {"y": 1}, {}]) == 2


def test_fewest_moves_chooses_among_equal_receivers() -> None:
    """The third could get "y" from the second, and the second "x" from the first; the last gets "x" at once."""
    wanted = AssignmentProblem({"x": 2, "y": 1}, {"x": [0, 1, 3], "y": [0, 1, 2, 3]}, 4)
    assert fewest_moves(wanted, [{"x": 2}, {"y": 1}, {}, {}]) == 1


def test_a_group_without_partitions_has_empty_shares() -> None:
    assert best_loads(AssignmentProblem({}, {}, 3)) == [0, 0, 0]
    assert fewest_moves(AssignmentProblem({}, {}, 3), [{}, {}, {}]) == 0


def test_search_that_would_take_too_long_returns_a_weaker_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = AssignmentProblem({"x": 2, "y": 1}, {"x": [0, 1], "y": [1, 2]}, 3)
    monkeypatch.setattr(search, "ARCS_MAX", 3)
    assert fewest_moves(wanted, [{"x": 2}, {"y": 1}, {}]) == 0
