"""The scenario file, read: every scenario was checked against Kafka's own coordinator.

The file is data and stays as it is; its grammar is that of `interpreter`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("scenarios.json")

Json = Any


@dataclass(frozen=True, slots=True)
class Scenario:
    """One story: steps in order, and what each must show."""

    scenario_id: str
    title: str
    tags: tuple[str, ...]
    config: dict[str, Json]
    consumers: dict[str, dict[str, Json]]
    default_consumer: dict[str, Json]
    group: str
    steps: tuple[dict[str, Json], ...]

    def consumer(self, name: str) -> dict[str, Json]:
        """Return what a consumer joins with; a name that is not listed has the defaults."""
        return {"client_id": name} | self.default_consumer | self.consumers.get(name, {})


def load_scenarios() -> list[Scenario]:
    """Return every scenario of the file, in its order."""
    content = json.loads(FILE.read_text())
    defaults = content["defaults"]
    return [
        Scenario(
            scenario_id=one["id"],
            title=one["title"],
            tags=tuple(one["tags"]),
            config=defaults["config"] | one.get("config", {}),
            consumers=one.get("consumers", {}),
            default_consumer=defaults["consumer"],
            group=defaults["group"],
            steps=tuple(one["steps"]),
        )
        for one in content["scenarios"]
    ]
