"""Programs that tests need and the Python environment does not bring.

`scripts/install-tools.sh`, which `make test` runs, installs them where it may. A test that needs a missing program is
skipped, and fails with CI=true.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

PACKAGES: Final = {"chromium": "chromium", "prometheus": "prometheus", "promtool": "prometheus"}
"""The Debian package of each program."""
UNPACKED: Final = Path(__file__).resolve().parents[1] / ".tools"
"""Where `scripts/install-tools.sh` unpacks a package that it does not install."""


def program(name: str) -> str:
    """Return the path of a program; without it, skip the test, or fail it with CI=true."""
    package = PACKAGES[name]
    unpacked = UNPACKED / package / "usr" / "bin" / name
    path = shutil.which(name) or (str(unpacked) if unpacked.is_file() else None)
    if path is None:
        sentence = f"{name} is missing: install Debian's package {package} (apt-get install {package})."
        if os.environ.get("CI") == "true":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    return path
