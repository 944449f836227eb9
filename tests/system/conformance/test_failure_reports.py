"""Failure reports name step, expectation and result; inconclusive runs are repeated."""

from dataclasses import replace

import pytest

from tests.system.conformance.driver import Answer
from tests.system.conformance.fleet import Attempt
from tests.system.conformance.http_driver import real_settings
from tests.system.conformance.interpreter import Disagreement, Interpreter
from tests.system.conformance.machine import Machine
from tests.system.conformance.outside import plan
from tests.system.conformance.scaled_clock import ScaledClock
from tests.system.conformance.scenarios import Scenario, load_scenarios


def scenario(steps: list[Answer], **config: int) -> Scenario:
    """Return a scenario of these steps."""
    first = load_scenarios()[0]
    return replace(first, scenario_id="X-1", steps=tuple(steps), config=first.config | config, slack_ms=None)


def complaint(*steps: Answer) -> str:
    made = scenario(list(steps))
    interpreter = Interpreter(made, Machine(made.config))
    with pytest.raises(Disagreement) as error:
        interpreter.run()
    return str(error.value)


JOIN = {"id": "s1", "op": "join", "who": "A"}


def test_wrong_response_is_reported_with_the_expected_one() -> None:
    error = complaint(JOIN, {"id": "s2", "op": "heartbeat", "who": "A", "expect": {"error": "NONE"}})

    assert error.startswith("scenario X-1, step s2 (heartbeat): error: expected 'NONE', got 'ILLEGAL_GENERATION'")


def test_unexpected_response_is_reported() -> None:
    refused = JOIN | {"args": {"session_timeout_ms": 1}, "expect": {"pending": True}}

    assert "step s1 (join): expected no answer yet, got {'error': 'INVALID_SESSION_TIMEOUT'" in complaint(refused)


def test_missing_response_is_reported() -> None:
    assert "step s1 (join): expected {'error': 'NONE'}, got no answer" in complaint(
        JOIN | {"expect": {"error": "NONE"}}
    )


def test_offsets_are_compared_as_an_exact_set() -> None:
    row = {"topic": "t", "partition": 0, "offset": 1}
    commit = {"id": "s1", "op": "commit", "args": {"offsets": [row, row | {"partition": 1}]}}
    fetch = {"id": "s2", "op": "fetch", "expect": {"offsets": [row]}}

    assert "step s2 (fetch): offsets: expected" in complaint(commit, fetch)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([{"id": "s1", "op": "set_loading", "args": {"on": True}}], "holds the coordinator in the state of loading"),
        ([JOIN | {"args": {"instance_id": ""}}], "sends an empty instance id"),
        ([JOIN | {"args": {"skip_assignment_supported": False}}], "speaks an older JoinGroup version"),
        ([{"id": "s1", "op": "list", "args": {"types": ["classic"]}}], "filters by group type"),
        ([JOIN, {"id": "s2", "op": "advance_clock", "ms": 3000}], "has a step 0 ms from a deadline"),
        ([{"id": "s1", "op": "heartbeat", "who": "A", "args": {"generation": -2}}], "sends a generation below -1"),
    ],
)
def test_plan_gives_the_reason_for_a_scenario_that_is_not_run(steps: list[Answer], reason: str) -> None:
    assert (plan(scenario(steps), 80.0).reason or "").startswith(reason)


def test_long_time_is_scaled_down_and_short_time_is_not() -> None:
    long = plan(scenario([JOIN, {"id": "s2", "op": "advance_clock", "ms": 300_000}]), 80.0)
    short = plan(scenario([JOIN, {"id": "s2", "op": "advance_clock", "ms": 4_000}]), 80.0)

    assert (long.scale, long.real_s, short.scale) == (4.0, 75.0, 1.0)


def test_time_is_scaled_down_only_as_far_as_steps_are_apart_from_deadlines() -> None:
    long = plan(
        scenario(
            [JOIN, {"id": "s2", "op": "advance_clock", "ms": 2_000}, {"id": "s3", "op": "advance_clock", "ms": 600_000}]
        ),
        80.0,
    )

    assert (long.slack_ms, long.scale) == (1_000, 4.0)


def test_a_step_that_is_close_to_a_deadline_makes_time_slower() -> None:
    close = plan(scenario([JOIN, {"id": "s2", "op": "advance_clock", "ms": 2_990}]), 80.0)

    assert close.slack_ms == 10
    assert close.scale == pytest.approx(1 / 6)


def test_time_is_not_scaled_down_where_retention_runs_out() -> None:
    commit = {"id": "s1", "op": "commit", "args": {"offsets": [{"topic": "t", "partition": 0, "offset": 1}]}}
    steps: list[Answer] = [commit, {"id": "s2", "op": "advance_clock", "ms": 120_000}]

    retained = plan(scenario(steps, **{"offsets.retention.minutes": 1}), 80.0)

    assert retained.scale == 1.0
    assert (retained.reason or "").startswith("would take 120 s: retention is set in whole minutes")


def test_a_repeat_at_half_the_pace_has_twice_the_retention() -> None:
    defaults = {"offsets.retention.minutes": 10_080, "group.initial.rebalance.delay.ms": 3_000}
    config = {"offsets.retention.minutes": 1, "group.initial.rebalance.delay.ms": 3_000}

    as_written, repeated, faster = (real_settings(config, defaults, ScaledClock(scale)) for scale in (1.0, 0.5, 4.0))

    assert as_written == {"offsets_retention_minutes": 1}
    assert repeated == {"offsets_retention_minutes": 2, "group_initial_rebalance_delay_ms": 6_000}
    assert faster == {"offsets_retention_minutes": 1, "group_initial_rebalance_delay_ms": 750}


@pytest.mark.parametrize(
    ("complaint", "late_ms", "is_void"), [("wrong", 10.0, False), ("wrong", 700.0, True), (None, 700.0, False)]
)
def test_only_a_failure_of_a_late_machine_is_repeated(complaint: str | None, late_ms: float, is_void: bool) -> None:
    assert Attempt(1.0, complaint, late_ms, 600.0, ()).is_void is is_void
