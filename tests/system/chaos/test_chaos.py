"""A short chaos run with every fault once; and every broken promise is detected."""

from pathlib import Path
from random import Random

import pytest

from tests.system.chaos.journal import CommitOffsetsResponse, Held
from tests.system.chaos.platform import Size
from tests.system.chaos.run import run
from tests.system.chaos.verdict import agents_without_commits_since, no_partition_has_two_owners_in_a_generation

SMALL = Size(nodes=3, agents=24, members=6, processes=2, lease_ttl_ms=2_000)


@pytest.mark.postgres
@pytest.mark.slow
def test_every_promise_is_kept_when_every_fault_strikes(tmp_path: Path) -> None:
    promises = run(tmp_path, SMALL, Random(1), 0, print)

    assert [promise for promise in promises if promise.broken] == []
    assert all(promise.looked_at for promise in promises)


def test_two_owners_of_a_partition_in_one_generation_are_seen() -> None:
    held = [Held(1, "a", "g", 3, "a-1", (0, 1)), Held(2, "b", "g", 3, "b-1", (1, 2)), Held(3, "b", "g", 4, "b-1", (0,))]

    assert no_partition_has_two_owners_in_a_generation(held).broken == ["g/1 in generation 3: a-1, b-1"]


def test_an_agent_that_consumes_no_more_is_seen() -> None:
    events = [CommitOffsetsResponse(1, "a", "g", {0: 5}), CommitOffsetsResponse(3, "b", "g", {1: 5})]

    assert agents_without_commits_since(events, {"a", "b", "c"}, 2) == {"a", "c"}
