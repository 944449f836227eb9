"""The laws hold at every step, whatever members, operators, time and lost nodes do to a group.

Two generators of stories: one with a fixed seed for each of many stories, which reaches every cell of the table
"Request by state"; and hypothesis, with fewer stories, which shortens one that breaks a law. Both are deterministic.
"""

from collections import Counter
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.unit.coordinator_core.protocol.laws.cells import CELLS, NF, ROWS, STATES
from tests.unit.coordinator_core.protocol.laws.moves import MOVES, Move
from tests.unit.coordinator_core.protocol.laws.people import bring_to, fall_silent, settle, visit
from tests.unit.coordinator_core.protocol.laws.world import World

BEGINNINGS = tuple(state for state in STATES if state not in {NF, "Dead"})
STORIES_A_ROW = 12
MOVES_A_STORY = 60


def run_history(number: int, cells: Counter[tuple[str, str]]) -> None:
    """Visit a row of the table in every state, let anything happen, and end in peace and then in silence."""
    chance = Random(number)
    world = World(cells)
    row = ROWS[number % len(ROWS)]
    for state in STATES:
        if (row, state) in CELLS:
            visit(world, row, state)
    bring_to(world, chance.choice(BEGINNINGS))
    for _ in range(MOVES_A_STORY):
        chance.choice(MOVES)(world, chance)
    settle(world)
    fall_silent(world)


def test_the_laws_hold_in_many_stories_and_every_cell_of_the_table_is_reached() -> None:
    reached: Counter[tuple[str, str]] = Counter()
    for number in range(STORIES_A_ROW * len(ROWS)):
        try:
            run_history(number, reached)
        except AssertionError as broken:
            broken.add_note(f"told by run_history({number}, Counter())")
            raise
    assert [cell for cell in CELLS if not reached[cell]] == []


class Story(RuleBasedStateMachine):
    """The same, told by hypothesis."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Counter())

    @initialize(state=st.sampled_from(BEGINNINGS))
    def begin(self, state: str) -> None:
        bring_to(self.world, state)

    @rule(move=st.sampled_from(MOVES), chance=st.randoms(use_true_random=False))
    def happens(self, move: Move, chance: Random) -> None:
        move(self.world, chance)

    def teardown(self) -> None:
        settle(self.world)
        fall_silent(self.world)


def test_the_laws_hold_in_stories_that_can_be_shortened() -> None:
    run_state_machine_as_test(
        Story,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            derandomize=True,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
            phases=[Phase.generate, Phase.shrink],
        ),
    )


@pytest.mark.parametrize("state", BEGINNINGS)
def test_a_story_begins_where_it_says(state: str) -> None:
    world = World(Counter())
    bring_to(world, state)
    assert world.group.state == state
