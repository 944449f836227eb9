"""The audit of one group: examples, laws, and the results of every assignor."""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_core.analytics.balance import Audit, AuditedGroup, AuditedMember, audit, score_of, trend_of
from coordinator_core.assignors import MemberSubscription, assign

GENERATION = 5
Held = Mapping[str, Mapping[int, int]]


def member(member_id: str, topics: str, held: Held | None = None) -> AuditedMember:
    """Build a member that subscribes to topics of one letter; `held` is topic → partition → generation."""
    given_then = {
        (topic, number): since for topic, numbers in (held or {}).items() for number, since in numbers.items()
    }
    return AuditedMember(member_id, frozenset(topics), given_then)


def kept(*numbers: int) -> dict[int, int]:
    return dict.fromkeys(numbers, GENERATION - 1)


def given_now(*numbers: int) -> dict[int, int]:
    return dict.fromkeys(numbers, GENERATION)


def judge(*members: AuditedMember, **facts: Any) -> Audit:  # noqa: ANN401 - what AuditedGroup takes
    given_facts = {"topic_partitions": {}, "lags": {}, "lost": {}, **facts}
    return audit(AuditedGroup(GENERATION, members, **given_facts))


def test_an_uneven_group_for_which_nothing_better_exists_scores_100() -> None:
    found = judge(member("a", "xy", {"x": kept(*range(9))}), member("b", "y", {"y": kept(0)}))
    assert (found.group.partitions_max, found.group.partitions_mean) == (9, 5.0)
    assert (found.group.has_better, found.group.misplaced, found.group.score) == (False, 0, 100)
    assert [each.score for each in found.topics.values()] == [100, 100]


def test_partitions_beyond_the_best_shares_are_misplaced() -> None:
    found = judge(member("a", "x", {"x": kept(*range(7))}), member("b", "x", {"x": kept(7, 8, 9)}))
    assert (found.group.best_partitions_max, found.group.misplaced, found.group.score) == (5, 2, 80)
    assert found.group.has_better


def test_unowned_partitions_are_misplaced() -> None:
    found = judge(
        member("a", "x", {"x": kept(0)}), member("b", "x", {"x": kept(1)}), topic_partitions={"x": 4, "other": 9}
    )
    assert (found.group.partitions, found.group.unassigned, found.group.score) == (4, 2, 50)


def test_partitions_of_unsubscribed_members_are_misplaced() -> None:
    found = judge(member("a", "x", {"y": kept(0)}), member("b", "y", {"x": kept(0)}))
    assert (found.group.misplaced, found.group.score) == (2, 0)


def test_unavoidable_idle_members_do_not_lower_the_score() -> None:
    found = judge(*(member(name, "x", {"x": kept(number)}) for number, name in enumerate("ab")), member("c", "x"))
    assert (found.group.idle_members, found.group.score) == (1, 100)


def test_score_of_a_topic_depends_on_other_topics() -> None:
    """Each topic by itself is one-sided, and together they are even."""
    found = judge(member("a", "xy", {"x": kept(0, 1)}), member("b", "xy", {"y": kept(0, 1)}))
    assert (found.topics["x"].idle_members, found.topics["x"].score, found.group.score) == (1, 100, 100)


def test_a_group_can_be_improved_although_no_topic_can_by_itself() -> None:
    members = (member("a", "x", {"x": kept(0, 1)}), member("b", "xy", {"y": kept(0)}), member("c", "y"))
    found = judge(*members)
    assert {each.score for each in found.topics.values()} == {100}
    assert (found.group.misplaced, found.group.score) == (1, 66)


def test_lag_is_added_up_by_member_and_is_unknown_without_any_end() -> None:
    members = (member("a", "xy", {"x": kept(0, 1), "y": kept(0)}), member("b", "xy", {"x": kept(2)}))
    found = judge(*members, lags={("x", 0): 5, ("y", 0): 2, ("x", 9): 1_000})
    assert (found.group.lag_max, found.group.lag_mean) == (7, 3.5)
    assert (found.topics["x"].lag_max, found.topics["x"].lag_mean) == (5, 2.5)
    assert (judge(*members).group.lag_max, judge(*members).group.lag_mean) == (None, None)


def test_lag_beyond_its_bounds_fits_its_column() -> None:
    found = judge(member("a", "x", {"x": kept(0, 1)}), lags={("x", 0): 2**63 - 1, ("x", 1): 2**63 - 1})
    assert (found.group.lag_max, found.group.lag_mean) == (2**63 - 1, float(2**63 - 1))


def test_moves_are_those_of_the_present_generation_and_new_partitions_have_not_moved() -> None:
    members = (member("a", "x", {"x": kept(0, 1)}), member("b", "x", {"x": given_now(2, 3, 4)}))
    found = judge(*members, lost={("x", 2): "a", ("x", 3): "gone"})
    assert (found.group.moved, found.topics["x"].moved) == (2, 2)


def test_moves_are_needed_after_a_removal_and_for_balance() -> None:
    members = (member("a", "x", {"x": kept(0, 1)}), member("b", "x", {"x": given_now(2, 3)}))
    found = judge(*members, lost={("x", 2): "a", ("x", 3): "gone"})
    assert (found.group.moves_needed, found.topics["x"].moves_needed) == (2, 1)


def test_useless_swap_is_reported() -> None:
    members = (member("a", "x", {"x": given_now(1)}), member("b", "x", {"x": given_now(0)}))
    found = judge(*members, lost={("x", 0): "a", ("x", 1): "b"})
    assert (found.group.score, found.group.moved, found.group.moves_needed) == (100, 2, 0)


def test_group_without_partitions_scores_100() -> None:
    found = judge(member("a", "x"), member("b", ""))
    assert (found.group.score, found.group.idle_members, found.group.partitions_mean) == (100, 2, 0.0)


class CountedPartitions(dict[tuple[str, int], int]):
    """Partitions of a member that count how often all of them are read."""

    readings = 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        self.readings += 1
        return super().__iter__()


def test_partitions_are_not_read_again_for_every_topic() -> None:
    """Otherwise the time for a group that reads thousands of topics grows with their square."""
    topics = [str(number) for number in range(100)]
    owned = CountedPartitions({(topic, 0): GENERATION for topic in topics})
    assert judge(AuditedMember("a", frozenset(topics), owned)).group.partitions == 100
    assert owned.readings < 10


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls of functions, and of iterators of Python, which do not depend on the machine."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("members_per_topic", [1, 8])
@pytest.mark.parametrize("owners", [1, 8], ids=["one member has all", "balanced"])
def test_four_times_the_members_take_four_times_the_time(members_per_topic: int, owners: int) -> None:
    """Otherwise the audit of 10,000 members that read a topic each takes minutes."""

    def group(size: int) -> Iterator[AuditedMember]:
        for position in range(size):
            topic, place = str(position // members_per_topic), position % members_per_topic
            owned = range(place, 16, min(owners, members_per_topic)) if place < owners else ()
            held = {(topic, number): GENERATION - 1 for number in owned}
            yield AuditedMember(str(position), frozenset([topic]), held)

    few, many = list(group(128)), list(group(512))
    assert calls_of(lambda: judge(*many)) < 5 * calls_of(lambda: judge(*few))


@pytest.mark.parametrize(
    ("partitions", "misplaced", "score"), [(0, 0, 100), (3, 0, 100), (1000, 1, 99), (3, 3, 0), (3, 4, 0)]
)
def test_score_falls_with_misplaced_partitions(partitions: int, misplaced: int, score: int) -> None:
    assert score_of(partitions, misplaced) == score


@pytest.mark.parametrize(("before", "trend"), [(None, "first"), (70, "same"), (69, "better"), (71, "worse")])
def test_a_score_is_compared_with_the_one_before(before: int | None, trend: str) -> None:
    assert trend_of(70, before) == trend


GROUPS = st.tuples(
    st.lists(st.sets(st.sampled_from("xyz")), min_size=1, max_size=6),
    st.fixed_dictionaries({topic: st.integers(0, 9) for topic in "xyz"}),
)


def assigned_by(assignor: str, subscriptions: list[set[str]], counts: dict[str, int]) -> Audit:
    """Audit an assignor's assignment of a new group."""
    members = [MemberSubscription(f"m{n}", None, tuple(sorted(topics))) for n, topics in enumerate(subscriptions)]
    shares = assign(assignor, counts, members)
    facts = [
        AuditedMember(
            each.member_id,
            frozenset(each.topics),
            dict.fromkeys(shares[each.member_id], GENERATION),
        )
        for each in members
    ]
    return judge(*facts, topic_partitions=counts)


@settings(max_examples=200)
@given(GROUPS)
def test_sticky_assignment_of_equal_subscriptions_scores_100(
    group: tuple[list[set[str]], dict[str, int]],
) -> None:
    subscriptions, counts = group
    alike = [subscriptions[0]] * len(subscriptions)
    assert assigned_by("sticky", alike, counts).group.score == 100


@settings(max_examples=200)
@given(GROUPS, st.sampled_from(["range", "roundrobin", "sticky"]))
def test_nothing_scores_above_100_or_below_0_and_better_exists_below_100(
    group: tuple[list[set[str]], dict[str, int]], assignor: str
) -> None:
    found = assigned_by(assignor, *group)
    for balance in (found.group, *found.topics.values()):
        assert 0 <= balance.score <= 100
        assert balance.has_better == (balance.score < 100)
        assert balance.misplaced <= balance.partitions
        assert balance.unassigned == 0
    assert sum(each.partitions for each in found.topics.values()) == found.group.partitions
