"""A short chaos run with every fault once; violated invariants are detected."""

from pathlib import Path
from random import Random

import pytest

from tests.system.chaos.invariants import (
    agents_without_commits_since,
    every_answered_commit_is_fetched,
    no_partition_has_two_owners_in_a_generation,
)
from tests.system.chaos.journal import CommitOffsetsResponse, Event, OffsetsFetched, PartitionsAssigned
from tests.system.chaos.platform import Size
from tests.system.chaos.run import run

SMALL = Size(nodes=3, agents=24, members=6, processes=2, lease_ttl_ms=2_000)


@pytest.mark.postgres
@pytest.mark.slow
def test_invariants_hold_under_every_fault(tmp_path: Path) -> None:
    invariants = run(tmp_path, SMALL, Random(1), 0, print)

    assert [invariant for invariant in invariants if invariant.violations] == []
    assert all(invariant.checked for invariant in invariants)


def test_two_owners_of_a_partition_in_one_generation_are_detected() -> None:
    assignments = [
        PartitionsAssigned(1, "a", "g", 3, "a-1", (0, 1)),
        PartitionsAssigned(2, "b", "g", 3, "b-1", (1, 2)),
        PartitionsAssigned(3, "b", "g", 4, "b-1", (0,)),
    ]

    assert no_partition_has_two_owners_in_a_generation(assignments).violations == ["g/1 in generation 3: a-1, b-1"]


def test_fetch_that_returns_less_than_was_answered_is_detected() -> None:
    events: list[Event] = [
        CommitOffsetsResponse(1, "a", "g", {0: 5, 1: 7}),
        OffsetsFetched(4, 2, "http://b", "g", {0: 5, 1: 6}),
        CommitOffsetsResponse(3, "a", "g", {0: 6}),
        OffsetsFetched(6, 5, "http://b", "g", {0: 6}),
    ]

    assert every_answered_commit_is_fetched(events).violations == [
        "g/1: 7 was answered, http://b returns 6",
        "g/1: 7 was answered, http://b returns None",
    ]


def test_agent_that_stops_consuming_is_detected() -> None:
    events = [CommitOffsetsResponse(1, "a", "g", {0: 5}), CommitOffsetsResponse(3, "b", "g", {1: 5})]

    assert agents_without_commits_since(events, {"a", "b", "c"}, 2) == {"a", "c"}
