"""Every scenario holds in process, under a virtual clock."""

import pytest

from tests.conformance.interpreter import Interpreter
from tests.conformance.machine import Machine
from tests.conformance.scenarios import Scenario, load_scenarios

SCENARIOS = [scenario for scenario in load_scenarios() if "assignor" not in scenario.tags]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.scenario_id)
def test_the_scenario_holds(scenario: Scenario) -> None:
    Interpreter(scenario, Machine(scenario.config)).run()
