"""The platform of compose.yaml in containers: start it, look at it, kill parts of it, stop it."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.support.repository import ROOT
from tests.support.waiting import poll_until
from tests.system.containers.compose import Service, read_services
from tests.system.containers.images import build
from tests.system.containers.podman import Podman

PROJECT: Final = "muster-test"
RESTARTS_MAX: Final = 3
"""Of a container that waits for another; one that ends more often is taken to be broken."""


class Platform:
    """All containers, in a network and with volumes of their own."""

    def __init__(self, podman: Podman, directory: Path) -> None:
        """Make new secrets in a copy of docker/, which the containers mount."""
        self.podman = podman
        self.directory = directory / "docker"
        shutil.copytree(ROOT / "docker", self.directory, ignore=shutil.ignore_patterns(".env*", "secrets*"))
        subprocess.run([self.directory / "new-secrets.sh"], check=True, capture_output=True)
        self.services = read_services(self.directory, "compose.debian.yaml")

    def start(self) -> None:
        """Start every service when those that it waits for are ready, and wait until all are."""
        self.podman("network", "create", PROJECT)
        for service in self.services.values():
            for name, condition in service.conditions.items():
                self._wait_for(self.services[name], condition)
            for container in containers(service):
                self.podman(
                    "run",
                    "--detach",
                    f"--name={container}",
                    f"--network={PROJECT}:alias={service.name}",
                    *service.arguments(PROJECT),
                )
        for service in self.services.values():
            self.wait_until_healthy(service.name)

    def remove(self) -> None:
        """Remove every container, volume and network, those of an earlier run too."""
        for kind, listed in (("container", "ps"), ("volume", "volume ls"), ("network", "network ls")):
            shown = "{{.Names}}" if kind == "container" else "{{.Name}}"
            everything = ["--all"] if kind == "container" else []
            found = self.podman(*listed.split(), *everything, f"--filter=name=^{PROJECT}", f"--format={shown}").split()
            if found:
                self.podman(kind, "rm", "--force", *found)

    def token(self, of: str) -> str:
        """Return the token of an operator or an agent."""
        return (self.directory / "secrets" / f"{of}-token").read_text().strip()

    def url(self, service: str, port: int) -> str:
        """Return where a service's published port is reached from this machine."""
        return f"http://{self.podman('port', f'{PROJECT}-{service}-1', f'{port}/tcp')}"

    def ask(self, service: str, *command: str) -> str:
        """Run a command in a service's first container, and return its output."""
        return self.podman("exec", f"{PROJECT}-{service}-1", *command)

    def sql(self, query: str, database: str = "muster") -> list[list[str]]:
        """Return the rows of a query, each value as text."""
        rows = self.ask("postgres", "psql", "--username=muster", f"--dbname={database}", "-At", f"--command={query}")
        return [row.split("|") for row in rows.splitlines()]

    def inspect(self, container: str) -> dict[str, Any]:
        """Return what podman knows of a container."""
        (described,) = json.loads(self.podman("container", "inspect", container))
        return dict(described)

    def log(self, service: str) -> str:
        """Return what a service's first container has printed."""
        ran = self.podman.attempt("logs", f"{PROJECT}-{service}-1")
        return ran.stdout + ran.stderr

    def wait_until_healthy(self, name: str) -> None:
        """Return when all containers of a service pass their health check; those of a task, when it has succeeded."""
        service = self.services[name]
        self._wait_for(service, "service_healthy" if service.health_check else "service_completed_successfully")

    def _wait_for(self, service: Service, condition: str) -> None:
        for container in containers(service):
            if condition == "service_completed_successfully":
                assert self.podman("wait", container) == "0", self.log(service.name)[-4000:]
            else:
                assert condition == "service_healthy", condition
                poll_until(partial(self._is_healthy, container, service.health_check))

    def _is_healthy(self, container: str, check: list[str]) -> bool:
        if self.podman.attempt("exec", container, *check).returncode == 0:
            return True
        described = self.inspect(container)
        is_failing = described["RestartCount"] > RESTARTS_MAX or described["State"]["Status"] == "exited"
        assert not is_failing, self.podman.attempt("logs", "--tail=50", container)
        return False


def containers(service: Service) -> list[str]:
    """Return the names of a service's containers."""
    return [f"{PROJECT}-{service.name}-{number}" for number in range(1, service.replicas + 1)]


@contextmanager
def running_platform(directory: Path) -> Iterator[Platform]:
    """Build all images and run the platform for the time of a block."""
    platform = Platform(Podman(), directory)
    platform.remove()
    build(platform.podman, platform.services.values(), directory)
    try:
        platform.start()
        yield platform
    finally:
        platform.remove()
