"""Clients share the memory budget of large bodies."""

import pytest

from api.shared.body_budget import BodyBudget
from coordinator_core.protocol.errors import CoordinatorNotAvailable

BODY = 100_000


def test_one_client_leaves_a_quarter_of_the_budget_to_others() -> None:
    budget = BodyBudget(4 * BODY)
    for _ in range(3):
        assert budget.resize("busy", 0, BODY) == BODY
    with pytest.raises(CoordinatorNotAvailable, match="max_large_bodies_bytes"):
        budget.resize("busy", 0, BODY)
    assert budget.resize("calm", 0, BODY) == BODY
    with pytest.raises(CoordinatorNotAvailable):
        budget.resize("third", 0, BODY)
    budget.resize("busy", BODY, 0)
    assert budget.resize("third", 0, BODY) == BODY


def test_one_body_may_fill_the_budget() -> None:
    budget = BodyBudget(BODY)
    assert budget.resize("a", 0, BODY) == BODY
    assert budget.resize("a", BODY, 0) == 0
    assert budget.resize("a", 0, BODY) == BODY
