"""A stored group that cannot be read is refused alone, and is served once it is mended and reloaded."""

from typing import NamedTuple

import pytest

from coordinator_core.runtime import operations
from coordinator_core.runtime.quarantine import Quarantine
from tests.system.simulation.mutation import mutated
from tests.system.simulation.seeds import run_unreadable_seed

SEEDS = range(1, 4)
SEEDS_AT_MOST = range(1, 20)

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds(seed: int) -> None:
    outcome = run_unreadable_seed(seed)
    told = "\n".join(outcome.transcript)
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}\n{told}"
    assert outcome.struck["group_unreadable"]
    assert outcome.sums["refused"]
    assert outcome.sums["served_beside"]


class Break(NamedTuple):
    """One piece of code that is broken, and the invariant that is to notice."""

    owner: object
    function: str
    old: str
    new: str
    invariant: str


BREAKS = {
    "a group that is served without its rows": Break(
        Quarantine, "check", "if group is not None:", "if False:", "TheUnreadableAreRefused"
    ),
    "a quarantine of the whole node": Break(
        Quarantine,
        "check",
        "self._groups.get(group_id)",
        "next(iter(self._groups.values()), None)",
        "OnlyTheUnreadableAreRefused",
    ),
    "a reload that is refused": Break(
        operations, "reload_group", "if quarantined is None:", "if True:", "MendedGroupsAreServed"
    ),
}


@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
def test_broken_code_is_caught_by_the_invariant_that_names_what_is_broken(broken: Break) -> None:
    with mutated(broken.owner, broken.function, broken.old, broken.new):
        found = next(filter(None, (run_unreadable_seed(seed).violation for seed in SEEDS_AT_MOST)), None)
    assert found is not None
    assert found.invariant == broken.invariant
