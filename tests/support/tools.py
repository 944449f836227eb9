"""Programs and libraries that tests need outside of the Python environment.

`scripts/install-tools.sh`, which `make test` runs, installs them where it may. A test that needs a missing one is
skipped, and fails with CI=true.
"""

import ctypes
import os
import shutil
from typing import Final, NoReturn

import pytest

from tests.support.fetched import TOOLS

PACKAGES: Final = {
    "chromium": "chromium",
    "curl": "curl",
    "haproxy": "haproxy",
    "kcat": "kcat",
    "pgbouncer": "pgbouncer",
    "libatomic.so.1": "libatomic1",
    "prometheus": "prometheus",
    "promtool": "prometheus",
}
"""The Debian package of each."""
DAEMONS: Final = "/usr/sbin"
"""Where Debian has programs that are not in everyone's PATH."""


def program(name: str) -> str:
    """Return the path of a program; without it, skip the test, or fail it with CI=true."""
    unpacked = TOOLS / PACKAGES[name] / "usr" / "bin" / name  # by scripts/install-tools.sh
    path = shutil.which(name) or shutil.which(name, path=DAEMONS) or (str(unpacked) if unpacked.is_file() else None)
    return path or _without(name)


def library(name: str) -> None:
    """Return if a shared library can be loaded; without it, skip the test, or fail it with CI=true."""
    try:
        ctypes.CDLL(name)
    except OSError:
        _without(name)


def _without(name: str) -> NoReturn:
    sentence = f"{name} is missing: install Debian's package {PACKAGES[name]} (apt-get install {PACKAGES[name]})."
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
