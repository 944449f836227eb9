"""Loader of scenario files. `scenarios.json` was checked against Kafka's own coordinator and is never edited."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.system.conformance.grammar import MalformedScenarios, check_file

KAFKAS: Final = Path(__file__).with_name("scenarios.json")
OURS: Final = Path(__file__).with_name("more_scenarios.json")

Json = Any


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario: steps in order, and their expectations."""

    scenario_id: str
    title: str
    tags: tuple[str, ...]
    config: dict[str, Json]
    default_config: dict[str, Json]
    consumers: dict[str, dict[str, Json]]
    default_consumer: dict[str, Json]
    group: str
    steps: tuple[dict[str, Json], ...]
    slack_ms: int | None
    """The smallest distance between a step and a deadline, if the file has it."""

    @property
    def area(self) -> str:
        """Return the scenario's area, its first tag."""
        return self.tags[0] if self.tags else "other"

    def consumer(self, name: str) -> dict[str, Json]:
        """Return what a consumer joins with; a name that is not listed has the defaults."""
        return {"client_id": name} | self.default_consumer | self.consumers.get(name, {})

    @property
    def groups(self) -> tuple[str, ...]:
        """Return every group that a step names, the default one first."""
        named = [self.group]
        for step in self.steps:
            args = step.get("args", {})
            named += [args["group"]] if "group" in args else []
            named += args["groups"] if step["op"] == "delete_group" else []
        return tuple(dict.fromkeys(named))

    @property
    def total_ms(self) -> int:
        """Return how much time passes in the scenario."""
        return sum(
            step.get("ms", 0) if step["op"] == "advance_clock" else step.get("args", {}).get("for_ms", 0)
            for step in self.steps
        )


def load_scenarios(*files: Path) -> list[Scenario]:
    """Return every scenario of the files (those of the project when none is named), in their order.

    Raises:
        MalformedScenarios: a file cannot be read, or does not follow the grammar; one sentence says where.
    """
    return [scenario for file in files or (KAFKAS, OURS) for scenario in _load(file)]


def _load(file: Path) -> list[Scenario]:
    try:
        content = json.loads(file.read_text())
        check_file(content)
    except OSError as failure:
        raise MalformedScenarios(f"{file} cannot be read: {failure.strerror}.") from failure
    except ValueError as failure:
        raise MalformedScenarios(f"{file} is not JSON: {failure}.") from failure
    except MalformedScenarios as failure:
        raise MalformedScenarios(f"{file}: {failure}.") from None
    return [_scenario(one, content["defaults"]) for one in content["scenarios"]]


def _scenario(one: Json, defaults: Json) -> Scenario:
    return Scenario(
        scenario_id=one["id"],
        title=one["title"],
        tags=tuple(one["tags"]),
        config=defaults["config"] | one.get("config", {}),
        default_config=defaults["config"],
        consumers=one.get("consumers", {}),
        default_consumer=defaults["consumer"],
        group=defaults["group"],
        steps=tuple(one["steps"]),
        slack_ms=one.get("min_slack_ms"),
    )
