"""A database that loses transactions never gives out a generation twice; mutations are reported."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from coordinator_core.state_store.incarnations import Jump
from coordinator_core.state_store.rows import GroupRow
from tests.support.memory_store import groups
from tests.support.memory_store import store as memory_store
from tests.system.simulation.failovers import run_lossy_seed
from tests.system.simulation.seeds import first_violation

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds_across_losses(seed: int) -> None:
    outcome = run_lossy_seed(seed)
    reported = "\n".join(outcome.transcript)
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}\n{reported}"
    assert outcome.struck["database_failed_over"]
    assert outcome.sums["incarnations"] > 1


_raised = groups._raised


def raised_without_jump(row: GroupRow, jump: Jump) -> GroupRow:
    return replace(_raised(row, jump), generation=row.generation)


def test_generations_that_do_not_jump_are_reported() -> None:
    with patch.object(groups, "_raised", raised_without_jump):
        found = first_violation(range(1, 20), run_lossy_seed)
    assert found is not None
    assert found.invariant in {"GenerationsGivenOutOnce", "OneOwnerPerPartition"}


def test_rollback_that_no_node_detects_is_reported() -> None:
    with patch.object(memory_store, "is_rolled_back", lambda *_: False):
        found = first_violation(range(1, 20), run_lossy_seed)
    assert found is not None
