"""Cooperative sticky never assigns a partition while another member may still be reading it."""

from coordinator_core.assignors import ASSIGNORS, assign
from tests.unit.coordinator_core.assignors.groups import drawn, member, next_round, picture


def test_partition_in_transfer_is_unassigned_for_one_round() -> None:
    members = [member("C1", "t", "t-0 t-1 t-2 t-3"), member("C2", "t")]
    first = assign("cooperative-sticky", {"t": 4}, members)
    second = assign("cooperative-sticky", {"t": 4}, next_round(members, first))

    assert picture(first) == {"C1": "t-0 t-1", "C2": ""}
    assert picture(second) == {"C1": "t-0 t-1", "C2": "t-2 t-3"}


def test_unowned_partitions_are_assigned_at_once() -> None:
    assert drawn("cooperative-sticky", {"t": 3}, member("a", "t", "t-0"), member("b", "t")) == {
        "a": "t-0 t-2",
        "b": "t-1",
    }


def test_disputed_partition_is_withheld_from_a_third_member() -> None:
    members = (member("a", "t", "t-0 t-1", 5), member("b", "t", "t-0 t-2", 5), member("c", "t", "", 5))

    assert drawn("cooperative-sticky", {"t": 3}, *members) == {"a": "t-1", "b": "t-2", "c": ""}


def test_disputed_partition_is_withheld_from_both_claimants() -> None:
    members = (member("a", "t", "t-0 t-1", 5), member("b", "t", "t-0 t-2", 5))

    assert drawn("sticky", {"t": 3}, *members) == {"a": "t-0 t-1", "b": "t-2"}
    assert drawn("cooperative-sticky", {"t": 3}, *members) == {"a": "t-1", "b": "t-2"}


def test_unequal_members_wait_for_each_other_too() -> None:
    members = [member("a", "t", "t-0 t-1 t-2"), member("b", "t u", "u-0")]
    first = assign("cooperative-sticky", {"t": 3, "u": 1}, members)

    second = assign("cooperative-sticky", {"t": 3, "u": 1}, next_round(members, first))

    assert picture(first) == {"a": "t-1 t-2", "b": "u-0"}
    assert picture(second) == {"a": "t-1 t-2", "b": "t-0 u-0"}


def test_a_stale_claimant_waits_for_the_holder() -> None:
    """Member b reads t-0; a, which had it once and is to have it again, must not read it yet."""
    members = (
        member("a", "t", "t-0", generation=4),
        member("b", "t u", "t-0 t-1 u-0 u-1 u-2", generation=5),
    )

    assert drawn("sticky", {"t": 2, "u": 3}, *members) == {"a": "t-0 t-1", "b": "u-0 u-1 u-2"}
    assert drawn("cooperative-sticky", {"t": 2, "u": 3}, *members) == {"a": "", "b": "u-0 u-1 u-2"}


def test_stale_claim_of_another_member_withholds_no_partition() -> None:
    members = (member("a", "t", "t-0", generation=4), member("b", "t", "t-0", generation=5))

    assert drawn("cooperative-sticky", {"t": 2}, *members) == {"a": "t-1", "b": "t-0"}


def test_only_cooperative_sticky_supports_cooperative_rebalances() -> None:
    assert [name for name, assignor in ASSIGNORS.items() if assignor.is_cooperative] == ["cooperative-sticky"]
