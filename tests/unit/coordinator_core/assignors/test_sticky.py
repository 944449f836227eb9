"""Sticky is even first, and moves as little as that allows."""

from coordinator_core.assignors import assign
from tests.unit.coordinator_core.assignors.groups import drawn, member, next_round, sizes

FOUR_TOPICS = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
ALL_FOUR = "t0 t1 t2 t3"

# -- all subscribe alike --------------------------------------------------------------------------


def test_assignment_without_claims_equals_round_robin() -> None:
    assert drawn("sticky", FOUR_TOPICS, *(member(name, ALL_FOUR) for name in ("C0", "C1", "C2"))) == {
        "C0": "t0-0 t1-1 t3-0",
        "C1": "t0-1 t2-0 t3-1",
        "C2": "t1-0 t2-1",
    }


def test_remaining_members_keep_their_partitions_after_a_leave() -> None:
    keeps = (member("C0", ALL_FOUR, "t0-0 t1-1 t3-0"), member("C2", ALL_FOUR, "t1-0 t2-1"))

    assert drawn("sticky", FOUR_TOPICS, *keeps) == {"C0": "t0-0 t0-1 t1-1 t3-0", "C2": "t1-0 t2-0 t2-1 t3-1"}


def test_new_member_takes_only_its_share() -> None:
    members = (member("a", "t", "t-0 t-1 t-2 t-3"), member("b", "t", "t-4 t-5 t-6"), member("c", "t"))

    assert drawn("sticky", {"t": 7}, *members) == {"a": "t-0 t-1 t-2", "b": "t-4 t-5", "c": "t-3 t-6"}


def test_member_that_owns_most_keeps_the_larger_share() -> None:
    members = (member("a", "t", "t-0"), member("b", "t", "t-1 t-2"), member("c", "t"))

    assert drawn("sticky", {"t": 4}, *members) == {"a": "t-0", "b": "t-1 t-2", "c": "t-3"}


def test_members_over_their_share_lose_the_highest_partitions_of_every_topic() -> None:
    holds_all = member("a", "t u", "t-0 t-1 t-2 u-0 u-1 u-2")

    assert drawn("sticky", {"t": 3, "u": 3}, holds_all, member("b", "t u")) == {
        "a": "t-0 t-1 u-0",
        "b": "t-2 u-1 u-2",
    }


def test_members_with_the_fewest_partitions_are_assigned_first() -> None:
    members = (member("a", "t u", "t-0"), member("b", "t u", "t-1"), member("c", "t u"))

    assert drawn("sticky", {"t": 2, "u": 3}, *members) == {"a": "t-0 u-1", "b": "t-1 u-2", "c": "u-0"}


def test_partitions_of_a_new_topic_even_out_the_loads() -> None:
    members = (member("a", "t u", "t-0 t-2"), member("b", "t u", "t-1"))

    assert drawn("sticky", {"t": 3, "u": 3}, *members) == {"a": "t-0 t-2 u-0", "b": "t-1 u-1 u-2"}


def test_removed_partitions_have_no_owner() -> None:
    members = (member("a", "t u", "t-0 t-7 u-0"), member("b", "t u", "t-1"))

    assert drawn("sticky", {"t": 2, "u": 0}, *members) == {"a": "t-0", "b": "t-1"}


def test_static_member_gets_the_larger_share_among_equal_claims() -> None:
    members = (member("a", "t", "t-0 t-1"), member("b", "t", "t-2 t-3", instance_id="i"), member("c", "t"))

    assert drawn("sticky", {"t": 4}, *members) == {"b": "t-2 t-3", "a": "t-0", "c": "t-1"}


def test_free_partitions_are_assigned_by_member_id() -> None:
    assert drawn("sticky", {"t": 2}, member("a", "t"), member("b", "t", instance_id="i")) == {"b": "t-1", "a": "t-0"}


def test_larger_share_among_equals_depends_on_the_member_id() -> None:
    members = (member("a", "t", "t-0"), member("b", "t", "t-1", instance_id="i"))

    assert drawn("sticky", {"t": 3}, *members) == {"b": "t-1", "a": "t-0 t-2"}


# -- subscriptions differ -------------------------------------------------------------------------


def test_unequal_subscriptions_are_balanced_better_than_by_round_robin() -> None:
    members = (member("C0", "t0"), member("C1", "t0 t1"), member("C2", "t0 t1 t2"))

    assert drawn("sticky", {"t0": 1, "t1": 2, "t2": 3}, *members) == {
        "C0": "t0-0",
        "C1": "t1-0 t1-1",
        "C2": "t2-0 t2-1 t2-2",
    }


def test_only_partitions_of_a_leaving_member_move_for_unequal_subscriptions() -> None:
    members = (member("C1", "t0 t1", "t1-0 t1-1"), member("C2", "t0 t1 t2", "t2-0 t2-1 t2-2"))

    assert drawn("sticky", {"t0": 1, "t1": 2, "t2": 3}, *members) == {
        "C1": "t0-0 t1-0 t1-1",
        "C2": "t2-0 t2-1 t2-2",
    }


def test_partition_moves_only_to_improve_balance() -> None:
    members = (member("a", "t", "t-0 t-1 t-2 t-3"), member("b", "t u"))

    assert drawn("sticky", {"t": 4, "u": 1}, *members) == {"a": "t-1 t-2 t-3", "b": "t-0 u-0"}


def test_a_partition_two_ahead_is_not_moved_through_a_third_member() -> None:
    members = (member("a", "t", "t-0"), member("b", "t u", "t-1 t-2"), member("c", "u", "u-0 u-1 u-2"))

    assert drawn("sticky", {"t": 3, "u": 3}, *members) == {"a": "t-0", "b": "t-1 t-2", "c": "u-0 u-1 u-2"}


def test_unsubscribing_moves_only_partitions_of_that_topic() -> None:
    members = (member("a", "t", "t-0 u-0"), member("b", "t u", "u-1"))

    assert drawn("sticky", {"t": 1, "u": 2}, *members) == {"a": "t-0", "b": "u-0 u-1"}


def test_member_without_subscription_gets_no_partition() -> None:
    assert drawn("sticky", {"t": 3}, member("a", ""), member("b", "t"), member("c", "t")) == {
        "a": "",
        "b": "t-0 t-2",
        "c": "t-1",
    }


def test_former_owner_is_preferred_among_members_with_equal_counts() -> None:
    members = (
        member("a", "t u", "t-0 t-1 t-2 t-3", generation=7),
        member("b", "t"),
        member("c", "t", "t-0", generation=6),
    )

    assert drawn("sticky", {"t": 4, "u": 0}, *members) == {"a": "t-2 t-3", "b": "t-1", "c": "t-0"}


def test_former_owner_gets_no_partition_of_an_unsubscribed_topic() -> None:
    members = (
        member("a", "t u", "t-0 t-1 t-2", generation=7),
        member("b", "t", generation=7),
        member("c", "u", "t-0", generation=6),
    )

    assert drawn("sticky", {"t": 3, "u": 0}, *members) == {"a": "t-1 t-2", "b": "t-0", "c": ""}


def test_later_of_two_former_owners_is_preferred() -> None:
    members = (
        member("a", "t u", "t-0 t-1 t-2 t-3", generation=7),
        member("b", "t", "t-0", generation=5),
        member("c", "t", "t-0", generation=6),
    )

    assert drawn("sticky", {"t": 4, "u": 0}, *members) == {"a": "t-2 t-3", "b": "t-1", "c": "t-0"}


def test_newly_assigned_partitions_move_before_owned_ones() -> None:
    members = (member("a", "t"), member("b", "s t", "s-1"), member("c", "s"))

    assert drawn("sticky", {"s": 3, "t": 4}, *members) == {"a": "t-0 t-1 t-2", "b": "s-1 t-3", "c": "s-0 s-2"}


def test_partitions_may_move_at_once_after_an_unsubscription() -> None:
    members = (
        member("a", "s t u", "t-0 t-1"),
        member("b", "t", "t-2 t-3 u-0"),
        member("c", "s u v", "s-0 v-1"),
        member("d", "v"),
    )

    assert drawn("sticky", {"s": 1, "t": 5, "u": 3, "v": 3}, *members) == {
        "a": "t-1 t-4 u-1",
        "b": "t-0 t-2 t-3",
        "c": "s-0 u-0 u-2",
        "d": "v-0 v-1 v-2",
    }


def test_members_do_not_swap_partitions_of_one_topic() -> None:
    """First a gives s-1 to b, then two more to c, so that b has more; what b gives back is s-1, and not s-0."""
    members = (member("a", "s t", "s-1 s-3 t-0 t-1 t-2"), member("b", "s t", "s-0 s-2 s-4"), member("c", "t"))

    assert drawn("sticky", {"s": 5, "t": 3}, *members) == {"a": "s-1 s-3 t-2", "b": "s-0 s-2 s-4", "c": "t-0 t-1"}


def test_partition_returns_to_its_former_owner_only_if_that_is_more_even() -> None:
    """Kafka moves one home from a member that has no more than the others, and mends it afterwards."""
    members = (
        member("a", "u", "", 5),
        member("b", "s u v", "", 4),
        member("c", "t u", "t-4", 4),
        member("d", "s t u v", "s-1 s-2 s-3 s-4 t-3 t-5 t-6 u-0 u-1", 4),
        member("e", "s t v", "s-0 t-0 v-0 v-1 v-2", 4),
    )

    assert drawn("sticky", {"s": 5, "t": 7, "u": 3, "v": 4}, *members) == {
        "a": "u-0 u-1 u-2",
        "b": "s-1 s-2 s-3 v-3",
        "c": "t-0 t-1 t-2 t-4",
        "d": "s-0 t-3 t-5 t-6",
        "e": "s-4 v-0 v-1 v-2",
    }


def test_unequal_members_keep_everything_when_nothing_has_changed() -> None:
    members = [member("a", "t u"), member("b", "t"), member("c", "u v")]
    topics = {"t": 5, "u": 4, "v": 2}
    first = assign("sticky", topics, members)

    assert assign("sticky", topics, next_round(members, first)) == first


# -- size -----------------------------------------------------------------------------------------


def test_a_thousand_members_of_two_kinds_share_ten_thousand_partitions_evenly() -> None:
    topics = {f"t{number:02}": 100 for number in range(100)}
    halves = " ".join(list(topics)[:50]), " ".join(list(topics)[50:])
    assignment = assign("sticky", topics, [member(f"m{number:03}", halves[number % 2]) for number in range(1000)])

    assert set(sizes(assignment).values()) == {10}
