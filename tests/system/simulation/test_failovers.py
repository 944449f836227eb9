"""No generation is given out twice by a database that goes back, and that is seen to fail."""

import pytest

from coordinator_core.store.memory import groups
from tests.system.simulation.failovers import run_lossy_seed
from tests.system.simulation.mutation import mutated

SEEDS = range(1, 4)

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds_across_losses(seed: int) -> None:
    outcome = run_lossy_seed(seed)
    told = "\n".join(outcome.transcript)
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}\n{told}"
    assert outcome.struck["database_failed_over"]
    assert outcome.sums["incarnations"] > 1


def test_generations_that_do_not_jump_are_caught() -> None:
    with mutated(groups, "_raised", "jump.generation_after(row.generation)", "row.generation"):
        found = next(filter(None, (run_lossy_seed(seed).violation for seed in range(1, 20))), None)
    assert found is not None
    assert found.invariant in {"GenerationsGivenOutOnce", "OneOwnerPerPartition"}


def test_a_rollback_that_no_node_looks_for_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator_core.runtime.ownership.is_rolled_back", lambda *_: False)
    found = next(filter(None, (run_lossy_seed(seed).violation for seed in range(1, 20))), None)
    assert found is not None
