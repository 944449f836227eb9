"""Every scenario passes in process, under a virtual clock."""

import pytest

from tests.system.conformance.interpreter import Interpreter
from tests.system.conformance.machine import Machine
from tests.system.conformance.scenarios import KAFKAS, Scenario, load_scenarios

SCENARIOS = load_scenarios()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.scenario_id)
def test_scenario_holds_in_process(scenario: Scenario) -> None:
    Interpreter(scenario, Machine(scenario.config)).run()


def test_every_kafka_scenario_is_present() -> None:
    steps = [step["op"] for scenario in load_scenarios(KAFKAS) for step in scenario.steps]

    assert len(load_scenarios(KAFKAS)) == 174
    assert steps.count("assign") == 14
