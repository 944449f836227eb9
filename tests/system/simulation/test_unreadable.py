"""A group that cannot be read is quarantined alone, and served after its repair and reload; mutations are reported."""

from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from coordinator_core.runtime.quarantine import GroupQuarantined, Quarantine, ReloadRefused
from tests.system.simulation import people
from tests.system.simulation.seeds import run_unreadable_seed

SEEDS = range(1, 4)
SEEDS_AT_MOST = range(1, 20)

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds(seed: int) -> None:
    outcome = run_unreadable_seed(seed)
    transcript = "\n".join(outcome.transcript)
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}\n{transcript}"
    assert outcome.struck["group_unreadable"]
    assert outcome.sums["refused"]
    assert outcome.sums["served_beside"]


async def refuse_reload(*_: object) -> None:
    raise ReloadRefused("the group is not quarantined")


def check_any_group(quarantine: Quarantine, _group_id: str) -> None:
    for group in quarantine._groups.values():
        raise GroupQuarantined(group.reason)


class Mutation(NamedTuple):
    """A broken function, and the invariant that reports it."""

    owner: object
    name: str
    replacement: Callable[..., Any]
    invariant: str


MUTATIONS = {
    "quarantined group is served": Mutation(Quarantine, "check", lambda *_: None, "QuarantinedGroupsAreRefused"),
    "quarantine refuses other groups": Mutation(
        Quarantine, "check", check_any_group, "OnlyUnreadableGroupsAreQuarantined"
    ),
    "reload is refused": Mutation(people, "reload_group", refuse_reload, "RepairedGroupsAreServed"),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_mutation_is_reported(mutation: Mutation) -> None:
    with patch.object(mutation.owner, mutation.name, mutation.replacement):
        violations = (run_unreadable_seed(seed).violation for seed in SEEDS_AT_MOST)
        assert any(found is not None and found.invariant == mutation.invariant for found in violations)
