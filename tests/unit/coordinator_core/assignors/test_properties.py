"""Laws that hold for every group, and comparisons with slow reference implementations."""

import pytest
from hypothesis import given, settings

from coordinator_core.assignors import ASSIGNORS, assign
from tests.unit.coordinator_core.assignors import twins
from tests.unit.coordinator_core.assignors.drawn_groups import Group, groups
from tests.unit.coordinator_core.assignors.groups import next_round, readable, sizes

COMPLETE = [name for name, assignor in ASSIGNORS.items() if not assignor.is_cooperative]
MOST_ROUNDS = 4
"""A cooperative group whose subscriptions differ has come to rest after so many rounds; Kafka's own tests ask that."""

thoroughly = settings(max_examples=100)
briefly = settings(max_examples=50)

# -- all assignors --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ASSIGNORS)
@briefly
@given(group=groups())
def test_members_get_only_subscribed_unowned_partitions(name: str, group: Group) -> None:
    assignment = assign(name, group.topics, group.members)
    given_out = [each for share in assignment.values() for each in share]

    assert assignment.keys() == {one.member_id for one in group.members}
    assert len(given_out) == len(set(given_out))
    assert set(given_out) <= set(readable(group.topics, group.members))
    for one in group.members:
        assert {each.topic for each in assignment[one.member_id]} <= set(one.topics)
        assert list(assignment[one.member_id]) == sorted(assignment[one.member_id])


@pytest.mark.parametrize("name", COMPLETE)
@briefly
@given(group=groups())
def test_every_subscribed_partition_is_assigned(name: str, group: Group) -> None:
    assignment = assign(name, group.topics, group.members)

    assert sorted(each for share in assignment.values() for each in share) == readable(group.topics, group.members)


@briefly
@given(group=groups())
def test_range_equals_its_slow_twin(group: Group) -> None:
    assert assign("range", group.topics, group.members) == twins.slow_range(group.topics, group.members)


@briefly
@given(group=groups())
def test_roundrobin_equals_its_slow_twin(group: Group) -> None:
    assert assign("roundrobin", group.topics, group.members) == twins.slow_roundrobin(group.topics, group.members)


# -- sticky, all subscribe alike ------------------------------------------------------------------


@thoroughly
@given(group=groups(is_uniform=True))
def test_members_with_equal_subscriptions_differ_by_one_partition_at_most(group: Group) -> None:
    shares = sizes(assign("sticky", group.topics, group.members)).values()

    assert max(shares) - min(shares) <= 1


@thoroughly
@given(group=groups(is_uniform=True))
def test_no_balanced_assignment_keeps_more_partitions(group: Group) -> None:
    assignment = assign("sticky", group.topics, group.members)
    held = twins.believed(group.topics, group.members)
    kept = sum(each in assignment[holder] for each, holder in held.items())

    assert kept == twins.most_that_can_be_kept(group.topics, group.members)


# -- sticky, subscriptions differ -----------------------------------------------------------------


@thoroughly
@given(group=groups(is_uniform=False))
def test_no_move_improves_the_balance_of_two_members(group: Group) -> None:
    assert twins.is_balanced(assign("sticky", group.topics, group.members), group.members)


@thoroughly
@given(group=groups(is_uniform=False))
def test_sticky_equals_its_slow_twin_for_unequal_subscriptions(group: Group) -> None:
    if len({frozenset(one.topics) for one in group.members}) > 1:
        slow = twins.SlowBalance(group.topics, group.members).settle()
        assert assign("sticky", group.topics, group.members) == slow


@briefly
@given(group=groups(is_uniform=False, most_members=2, most_partitions=2))
def test_two_members_have_the_most_balanced_assignment(group: Group) -> None:
    shares = sizes(assign("sticky", group.topics, group.members)).values()

    assert sum(size**2 for size in shares) == twins.least_sum_of_squares(group.topics, group.members)


@briefly
@given(group=groups())
def test_sticky_changes_nothing_when_nothing_has_changed(group: Group) -> None:
    first = assign("sticky", group.topics, group.members)

    assert assign("sticky", group.topics, next_round(group.members, first)) == first


# -- cooperative ----------------------------------------------------------------------------------


@thoroughly
@given(group=groups())
def test_cooperative_sticky_equals_sticky_without_contested_partitions(group: Group) -> None:
    sticky = assign("sticky", group.topics, group.members)
    expected = twins.cooperative(sticky, group.topics, group.members)

    assert assign("cooperative-sticky", group.topics, group.members) == expected


@thoroughly
@given(group=groups())
def test_members_do_not_get_partitions_of_live_members(group: Group) -> None:
    assignment = assign("cooperative-sticky", group.topics, group.members)

    for partition, holder in twins.believed(group.topics, group.members).items():
        for member_id, share in assignment.items():
            assert member_id == holder or partition not in share


@thoroughly
@given(group=groups())
def test_withheld_partitions_are_being_revoked(group: Group) -> None:
    assignment = assign("cooperative-sticky", group.topics, group.members)
    given_out = {each for share in assignment.values() for each in share}

    for partition in readable(group.topics, group.members):
        assert partition in given_out or twins.claimants(partition, group.members)


@thoroughly
@given(group=groups(is_uniform=True))
def test_equal_subscriptions_are_stable_after_two_rounds(group: Group) -> None:
    first = assign("cooperative-sticky", group.topics, group.members)
    rejoined = next_round(group.members, first)
    second = assign("cooperative-sticky", group.topics, rejoined)

    assert second == assign("sticky", group.topics, rejoined)
    assert all(set(first[member_id]) <= set(second[member_id]) for member_id in first)
    assert assign("cooperative-sticky", group.topics, next_round(rejoined, second)) == second


@thoroughly
@given(group=groups(is_uniform=False))
def test_unequal_subscriptions_become_stable(group: Group) -> None:
    members, rounds = list(group.members), 0
    while (assignment := assign("cooperative-sticky", group.topics, members)) != {
        one.member_id: tuple(sorted(one.owned_partitions)) for one in members
    }:
        members, rounds = next_round(members, assignment), rounds + 1

    assert rounds <= MOST_ROUNDS
    assert sorted(each for share in assignment.values() for each in share) == readable(group.topics, members)
    assert twins.is_balanced(assignment, members)
