"""The consumer of docs/consume.md in containers: it reads a folder that they share with the test."""

import re
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT
from tests.system.containers.platform import PROJECT, Platform

PARTITIONS: Final = range(3)
PAGES_NODE: Final = "http://127.0.0.1:8080"
LOAD_BALANCER: Final = "http://load-balancer:8080"


class Readers:
    """Consumers of one group, which begin at the load balancer as the page's do at `make run`."""

    def __init__(self, platform: Platform, directory: Path) -> None:
        self._platform = platform
        self._directory = directory
        self._started = 0
        directory.chmod(0o755)  # The containers' user may read it.
        (directory / "letters").mkdir()
        page = (ROOT / "docs" / "consume.md").read_text()
        (code,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
        assert PAGES_NODE in code
        # The page's node requires no token.
        code = code.replace(PAGES_NODE, LOAD_BALANCER).replace(
            '["letters"], ', f'["letters"], token="{platform.token("agent")}", '
        )
        (directory / "read_letters.py").write_text(code)

    def write(self, line: str) -> None:
        """Append a line to the file of each partition."""
        for partition in PARTITIONS:
            with (self._directory / "letters" / f"{partition}.log").open("a") as file:
                file.write(f"{line}\n")

    def start(self) -> str:
        """Start one more consumer, and return the name of its container."""
        self._started += 1
        name = f"{PROJECT}-reader-{self._started}"
        where = ("--volume", f"{self._directory}:/work", "--workdir=/work")
        node = self._platform.services["node-1"].image
        self._platform.podman(
            "run", "--detach", f"--name={name}", f"--network={PROJECT}", *where, node, "python", "read_letters.py"
        )
        return name

    def kill(self, name: str) -> None:
        """Kill a consumer, as `kill -9` does."""
        self._platform.podman("kill", "--signal=KILL", name)

    def remove(self) -> None:
        """Remove all consumers, those that were killed too."""
        names = [f"{PROJECT}-reader-{number + 1}" for number in range(self._started)]
        self._platform.podman("rm", "--force", *names)

    def printed(self, name: str) -> list[str]:
        """Return the lines that a consumer has printed."""
        return self._platform.podman("logs", name).splitlines()

    def lines_read(self, name: str, text: str) -> int:
        """Return how many lines of this text a consumer has read."""
        return sum(line.endswith(f": {text}") for line in self.printed(name))
