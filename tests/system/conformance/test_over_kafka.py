"""Scenarios pass over Kafka's wire protocol, against a real node on a real database."""

from collections.abc import Iterator

import pytest

from tests.support.databases import Databases
from tests.system.conformance.fleet import Fleet
from tests.system.conformance.kafka_driver import KafkaDriver
from tests.system.conformance.outside import LIMIT_S, Plan, Step, plan
from tests.system.conformance.scenarios import load_scenarios
from tests.system.conformance.silence import silenced


def _is_run(plan: Plan) -> bool:
    """Return whether the driver can say all of a scenario.

    A response to OffsetCommit has errors of partitions only, and never GROUP_ID_NOT_FOUND. A node that starts again has
    another address.
    """
    return plan.reason is None and not plan.needs_own_node and not any(map(_is_unsayable, plan.scenario.steps))


def _is_unsayable(step: Step) -> bool:
    is_of_no_group = step.get("expect", {}).get("error") == "GROUP_ID_NOT_FOUND"
    return step["op"] == "commit" and (is_of_no_group or not step["args"]["offsets"])


RUN = {each.scenario_id: found for each in load_scenarios() if _is_run(found := plan(each, LIMIT_S))}


@pytest.fixture(scope="module")
def fleet(databases: Databases, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Yield the requested scenarios, already running."""
    calls = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    asked = {call.params.get("scenario_id") for call in calls if call is not None}
    plans = [each for scenario_id, each in RUN.items() if scenario_id in asked]
    with silenced(), Fleet(databases, plans, KafkaDriver) as fleet:
        yield fleet


@pytest.mark.slow
@pytest.mark.parametrize("scenario_id", RUN)
def test_scenario_holds_over_kafka(fleet: Fleet, scenario_id: str) -> None:
    outcome = fleet.outcome(scenario_id)

    for repeat in outcome.repeats:
        print(repeat)  # noqa: T201  # shown with a failure
    assert outcome.complaint is None, outcome.complaint


def test_most_scenarios_are_run_over_kafka() -> None:
    assert len(RUN) >= 150
