"""Run podman with storage and settings of its own, beside whatever else this machine runs."""

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

CONTAINERS_CONF: Final = """\
[containers]
# Limits of open files are those of this process: it may be forbidden to raise them.
default_ulimits = []
log_driver = "k8s-file"

[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
# crun refuses machines that have both versions of cgroups.
runtime = "runc"

[network]
network_config_dir = "{directory}/networks"
"""
STORAGE: Final = Path(os.environ.get("MUSTER_CONTAINERS_DIR") or ROOT / ".tools" / "containers")
"""Where images, containers and volumes are stored; images stay there, so that the next build is short."""


class Podman:
    """The command, on one storage."""

    def __init__(self, storage: Path = STORAGE) -> None:
        storage.mkdir(parents=True, exist_ok=True)
        configuration = storage / "containers.conf"
        configuration.write_text(CONTAINERS_CONF.format(directory=storage))
        self._command = ["podman", f"--root={storage}/images", f"--runroot={storage}/run"]
        self._environment = {**os.environ, "CONTAINERS_CONF": str(configuration)}

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        """Run one command of podman, with this text as its input, and return its output.

        Raises:
            AssertionError: it failed; the message has its output.
        """
        ran = self.attempt(*arguments, text=text)
        assert ran.returncode == 0, f"podman {' '.join(arguments)}: {ran.stdout[-4000:]}{ran.stderr[-4000:]}"
        return ran.stdout.strip()

    def attempt(self, *arguments: str, text: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run one command of podman that may fail."""
        return subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
