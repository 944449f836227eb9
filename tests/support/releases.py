"""The last release, from the history of this checkout: its tag, or else its commit `Release <version>`."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

RELEASE_COMMIT: Final = re.compile(r"(?P<commit>\w+) Release (?P<version>\d+\.\d+\.\d+)")
RELEASE_TAG: Final = re.compile(r"v(?P<version>\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Release:
    """A release in the history."""

    version: str
    commit: str
    """Whatever names the commit to git."""

    def extract(self, directory: Path) -> Path:
        """Write its files to a directory, from which they run in the environment of the checkout, and return that."""
        archive = subprocess.run(["git", "archive", self.commit], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "--extract", "--directory", directory], input=archive, check=True)
        # What importlib.metadata finds before the distribution of the checkout.
        metadata = directory / f"muster-{self.version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.4\nName: muster\nVersion: {self.version}\n")
        return directory


def last_release() -> Release | None:
    """Return the last release before or at this commit; None if the history has none, as in an export of the files."""
    tags = _git("tag", "--merged", "HEAD", "--sort=-version:refname")
    for tag in filter(None, map(RELEASE_TAG.fullmatch, tags)):
        return Release(tag["version"], tag[0])
    commits = _git("log", "--format=%H %s", "--extended-regexp", "--grep=^Release [0-9.]+$")
    for commit in filter(None, map(RELEASE_COMMIT.fullmatch, commits)):
        return Release(commit["version"], commit["commit"])
    return None


def _git(*arguments: str) -> list[str]:
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.splitlines()
