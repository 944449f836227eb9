"""Conflicting claims are resolved by generation."""

from itertools import permutations

import pytest

from tests.unit.coordinator_core.assignors.groups import drawn, member

UNIFORM_AND_NOT = pytest.mark.parametrize("other_topics", ["t", "t u"], ids=["all alike", "different"])


@UNIFORM_AND_NOT
def test_the_newer_claim_wins(other_topics: str) -> None:
    members = (member("a", "t", "t-0 t-1", generation=4), member("b", other_topics, "t-0 t-1", generation=5))

    assert drawn("sticky", {"t": 4}, *members) == {"a": "t-2 t-3", "b": "t-0 t-1"}


@UNIFORM_AND_NOT
def test_no_generation_is_older_than_any(other_topics: str) -> None:
    members = (member("a", "t", "t-0 t-1"), member("b", other_topics, "t-0 t-1", generation=0))

    assert drawn("sticky", {"t": 4}, *members) == {"a": "t-2 t-3", "b": "t-0 t-1"}


@UNIFORM_AND_NOT
def test_undisputed_older_claim_wins(other_topics: str) -> None:
    members = (member("a", "t", "t-3", generation=2), member("b", other_topics, "t-0", generation=5))

    assert drawn("sticky", {"t": 4}, *members) == {"a": "t-1 t-3", "b": "t-0 t-2"}


@UNIFORM_AND_NOT
def test_equal_claims_of_one_generation_are_ignored(other_topics: str) -> None:
    members = (member("a", "t", "t-0 t-1", 5), member("b", other_topics, "t-0 t-2", 5), member("c", "t", "", 5))

    assert drawn("sticky", {"t": 3}, *members) == {"a": "t-1", "b": "t-2", "c": "t-0"}


def test_newest_of_three_claims_wins_in_any_order() -> None:
    for first, second, third in permutations((4, 4, 6)):
        generations = {"a": first, "b": second, "c": third}
        members = [member(name, "t", "t-0", generation) for name, generation in generations.items()]
        given = drawn("sticky", {"t": 3}, *members)

        assert given[max(generations, key=lambda name: generations[name])] == "t-0"


def test_three_equal_claims_of_one_generation_are_ignored() -> None:
    members = [member(name, "t", "t-2", 4) for name in "abc"]

    assert drawn("cooperative-sticky", {"t": 3}, *members) == {"a": "t-0", "b": "t-1", "c": ""}


def test_repeated_partition_is_one_claim() -> None:
    assert drawn("sticky", {"t": 2}, member("a", "t"), member("b", "t", "t-0 t-0")) == {"a": "t-1", "b": "t-0"}
