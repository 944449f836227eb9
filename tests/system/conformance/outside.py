"""Plans for HTTP runs: the parts of a scenario that can be observed, its pace, or the reason why it is not run.

The rules depend on what a scenario uses, never on its name, so they hold for any scenario file.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.system.conformance.interpreter import Interpreter
from tests.system.conformance.machine import SETTINGS, Machine
from tests.system.conformance.scenarios import Scenario

LIMIT_S: Final = 170.0
"""The maximum real duration of one scenario, unless another is asked for."""
TARGET_S: Final = 75.0
"""How long the scenarios whose time is scaled down take: no longer than those about retention, whose time cannot be."""
SCALED_SLACK_MS: Final = 250.0
"""The least real slack that time is scaled down to: with less, a late machine has it repeated, which is longer."""
LEAST_SLACK_MS: Final = 60.0
"""The least real distance between a step and a deadline that a busy machine can be trusted with."""
SHARDS: Final = 50
MINUTE_MS: Final = 60_000
LOOKS: Final = frozenset({"list", "describe", "find_coordinator", "state", "transitions", "metrics"})
"""Steps that only observe; omitting one does not affect the others."""

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a scenario is run over HTTP, or why it is not."""

    scenario: Scenario
    reason: str | None
    """Why it is not run; None if it is."""
    skipped_steps: dict[str, str]
    """Steps that cannot be run, with the reason; they only observe."""
    scale: float
    slack_ms: int | None

    @property
    def real_s(self) -> float:
        """Return the minimum duration in seconds."""
        return self.scenario.total_ms / self.scale / 1000

    @property
    def real_slack_ms(self) -> float:
        """Return the smallest real distance between a step and a deadline; infinite if there is no deadline."""
        return math.inf if self.slack_ms is None else self.slack_ms / self.scale

    @property
    def needs_own_node(self) -> bool:
        """Return whether it restarts its node."""
        return any(step["op"] == "reload" for step in self.scenario.steps)

    @property
    def needs_raw_names(self) -> bool:
        """Return whether one of its groups keeps its name, so that no other such scenario may run at the same time."""
        return "" in self.scenario.groups

    def slower(self) -> "Plan":
        """Return the plan at half the pace."""
        return Plan(self.scenario, self.reason, self.skipped_steps, self.scale / 2, self.slack_ms)


def plan(scenario: Scenario, limit_s: float) -> Plan:
    """Plan a scenario's run over HTTP.

    Args:
        scenario: the scenario.
        limit_s: the maximum real duration of one scenario.
    """
    reason = next(_reasons(scenario), None)
    skipped_steps = {step["id"]: why for step in scenario.steps if (why := _why_not_seen(step)) is not None}
    if reason is None and _is_mostly_skipped(scenario, skipped_steps):
        reason = next(iter(skipped_steps.values()))
    slack_ms = None if reason is not None else _slack_ms(scenario)
    scale = _scale(scenario, slack_ms)
    if reason is None:
        reason = _why_too_long(scenario, slack_ms, scale, limit_s)
    return Plan(scenario, reason, skipped_steps, scale, slack_ms)


# -- steps without counterpart --------------------------------------------------------------------------


def _reasons(scenario: Scenario) -> Iterator[str]:
    for step in scenario.steps:
        args = step.get("args", {})
        match step["op"]:
            case "assign":
                yield "calls an assignor without a coordinator"
            case "set_loading":
                yield "holds the coordinator in the state of loading, which a real node leaves by itself"
            case "join" if args.get("skip_assignment_supported") is False:
                yield "speaks an older JoinGroup version, whose clients cannot skip an assignment; over HTTP all can"
            case "offset_delete" if not args["partitions"]:
                yield "deletes the offsets of no partition; over HTTP a deletion names a topic"
            case "delete_topic_partitions" if not _are_whole_topics(scenario, args["partitions"]):
                yield "deletes single partitions of a topic; over HTTP a topic is deleted as a whole"
        yield from _unsayable(step, args)
    if "" in scenario.groups and _own_config(scenario):
        yield "changes settings of the group with the empty id, which has none over HTTP"
    if scenario.config["offsets.topic.num.partitions"] != SHARDS:
        yield "changes the number of shards, which is fixed for a database"


def _unsayable(step: Step, args: Step) -> Iterator[str]:
    """Yield the reasons for values that the HTTP API rejects by their form, before any rule of the protocol."""
    if args.get("generation", 0) < -1:
        yield "sends a generation below -1, which the API refuses by its form"
    if args.get("instance_id") == "" or any(each.get("instance_id") == "" for each in args.get("members", [])):
        yield "sends an empty instance id, which the API refuses by its form"
    rows = [*args.get("offsets", []), *(args.get("partitions") or [])] if step["op"] != "find_coordinator" else []
    if any(row["partition"] < 0 or row.get("offset", 0) < 0 or not row["topic"] for row in rows):
        yield "names a topic, partition or offset that the API refuses by its form"
    names = [each["name"] for each in args.get("protocols", [])]
    if len(names) != len(set(names)):
        yield "offers one protocol twice, which the API refuses by its form"


def _why_not_seen(step: Step) -> str | None:
    """Return why a step that only observes cannot be run, or None."""
    args = step.get("args", {})
    match step["op"]:
        case "list" if args.get("types"):
            return "filters by group type; over HTTP there are no types, every group is a classic one"
        case "find_coordinator" if args.get("partitions", SHARDS) != SHARDS:
            return f"asks for another number of shards than the {SHARDS} of the node's database"
        case "find_coordinator" if not args["key"]:
            return "asks for the coordinator of the empty group id, which the API refuses"
        case _:
            return None


def _is_mostly_skipped(scenario: Scenario, skipped_steps: dict[str, str]) -> bool:
    observations = [step for step in scenario.steps if step["op"] in LOOKS]
    return 2 * len(skipped_steps) > len(observations)


def _are_whole_topics(scenario: Scenario, partitions: list[Step]) -> bool:
    """Return whether every partition of these topics in the scenario is deleted."""
    gone = {(each["topic"], each["partition"]) for each in partitions}
    topics = {topic for topic, _ in gone}
    named = {
        (row["topic"], row["partition"])
        for step in scenario.steps
        if step["op"] in {"commit", "fetch", "offset_delete"}
        for row in [*step["args"].get("offsets", []), *(step["args"].get("partitions") or [])]
    }
    return {each for each in named if each[0] in topics} <= gone


def _own_config(scenario: Scenario) -> dict[str, Any]:
    return {
        key: value
        for key, value in scenario.config.items()
        if key in SETTINGS and value != scenario.default_config[key]
    }


# -- at what pace -----------------------------------------------------------------------------------------


def _slack_ms(scenario: Scenario) -> int | None:
    """Return the smallest distance between a step and a deadline, measured unless the file gives it."""
    if scenario.slack_ms is not None:
        return scenario.slack_ms
    machine = Machine(scenario.config)
    try:
        Interpreter(scenario, machine).run()
    except AssertionError:
        return machine.slack_ms  # It fails in process too, which reports it.
    return machine.slack_ms


def _is_about_retention(scenario: Scenario) -> bool:
    """Return whether offsets reach their retention, which is set in whole minutes and so cannot be scaled."""
    retention_minutes: int = scenario.config["offsets.retention.minutes"]
    return 0 < retention_minutes * MINUTE_MS <= scenario.total_ms


def _scale(scenario: Scenario, slack_ms: int | None) -> float:
    """Return how much faster than written the scenario runs; 1 if it is short enough."""
    if _is_about_retention(scenario):
        return 1.0
    scale = max(1.0, scenario.total_ms / 1000 / TARGET_S)
    if slack_ms is None or scenario.total_ms == 0:
        return scale
    return min(scale, max(1.0, slack_ms / SCALED_SLACK_MS), max(slack_ms, 1) / LEAST_SLACK_MS)


def _why_too_long(scenario: Scenario, slack_ms: int | None, scale: float, limit_s: float) -> str | None:
    real_s = scenario.total_ms / scale / 1000
    if _is_about_retention(scenario) and slack_ms is not None and slack_ms < LEAST_SLACK_MS:
        return f"has a step {slack_ms} ms from the end of a retention, which cannot be slowed down: it is whole minutes"
    if real_s <= limit_s:
        return None
    if _is_about_retention(scenario):
        return f"would take {real_s:.0f} s: retention is set in whole minutes, so its time cannot be scaled down"
    return f"has a step {slack_ms} ms from a deadline: at a pace that a machine can keep, it would take {real_s:.0f} s"
