"""Read compose.yaml with its override, and translate its services into arguments of podman.

Debian's podman runs no health checks without systemd, so podman-compose could not wait for them. What is not
translated is an error, so no key of compose.yaml is silently without effect.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Final

import yaml

VARIABLE: Final = re.compile(r"\$\{(\w+):\?[^}]*\}")
OPTIONS: Final = {
    "cap_drop": "--cap-drop",
    "mem_limit": "--memory",
    "pids_limit": "--pids-limit",
    "restart": "--restart",
    "security_opt": "--security-opt",
    "shm_size": "--shm-size",
    "tmpfs": "--tmpfs",
    "user": "--user",
}
"""Keys whose value, or each of whose values, is that of an option of podman."""
ELSEWHERE: Final = {"build", "command", "depends_on", "deploy", "healthcheck", "image", "logging", "profiles"}
"""Keys that are no option of podman. Health checks are run by those who wait for them; podman keeps its own logs."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service, as compose.yaml describes it with all variables filled in."""

    name: str
    described: dict[str, Any]
    directory: Path
    """Where compose.yaml is; paths of volumes are relative to it."""

    @property
    def image(self) -> str:
        return f"localhost/{self.described['image']}"

    @property
    def replicas(self) -> int:
        return int(self.described.get("deploy", {}).get("replicas", 1))

    @property
    def conditions(self) -> dict[str, str]:
        """Return the services that it waits for, each with what it waits for."""
        return {name: each["condition"] for name, each in self.described.get("depends_on", {}).items()}

    @property
    def health_check(self) -> list[str]:
        """Return the command that succeeds in a healthy container; empty for a task, which ends."""
        kind, *command = self.described["healthcheck"].get("test", ["NONE"])
        assert kind in {"CMD", "NONE"}, kind
        return [str(word) for word in command]

    def arguments(self, project: str) -> list[str]:
        """Return options, image and command for `podman run`."""
        options = [part for key, value in self.described.items() for part in self._options(key, value, project)]
        return [*options, self.image, *self.described.get("command", [])]

    def _options(self, key: str, value: Any, project: str) -> Iterator[str]:  # noqa: ANN401 - as YAML has it
        if key in OPTIONS:
            yield from (f"{OPTIONS[key]}={each}" for each in (value if isinstance(value, list) else [value]))
        elif key == "environment":
            yield from (f"--env={name}={text}" for name, text in value.items())
        elif key == "init":
            yield "--init"
        elif key == "ports":
            # Each on a free port of this machine.
            yield from (f"--publish=127.0.0.1::{port.rpartition(':')[2]}" for port in value)
        elif key == "read_only":
            yield from ("--read-only", "--read-only-tmpfs=false")
        elif key == "volumes":
            yield from (f"--volume={self._mounted(volume, project)}" for volume in value)
        else:
            assert key in ELSEWHERE, f"{self.name} has {key}, which is not translated"

    def _mounted(self, volume: str, project: str) -> str:
        if volume.startswith("./"):
            return str(self.directory / volume)
        return volume if volume.startswith("/") else f"{project}-{volume}"


def read_services(directory: Path, *overrides: str) -> dict[str, Service]:
    """Return the services of a folder's compose.yaml without those of a profile, each after those that it waits for."""
    lines = (directory / ".env").read_text().splitlines()
    variables = {name: value for name, _, value in (line.partition("=") for line in lines)}
    described: dict[str, dict[str, Any]] = {}
    for file in ("compose.yaml", *overrides):
        text = _filled((directory / file).read_text(), variables)
        for name, added in yaml.safe_load(text)["services"].items():
            described[name] = described.get(name, {}) | added
    services = {name: Service(name, each, directory) for name, each in described.items() if "profiles" not in each}
    order = TopologicalSorter({name: service.conditions for name, service in services.items()})
    return {name: services[name] for name in order.static_order()}


def _filled(text: str, variables: Mapping[str, str]) -> str:
    return VARIABLE.sub(lambda found: variables[found[1]], text)
