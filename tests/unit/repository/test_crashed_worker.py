"""A test process that dies ends `make test` with an error that names its test and the signal; it is not replaced.

A replaced process may wait for ever for work of the file that it takes over.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT
from tests.support.waiting import PATIENCE_S

FILES = {
    "conftest.py": "from tests.support.worker_exit import pytest_testnodedown\n",
    "test_dies.py": "import os\n\ndef test_before(): pass\ndef test_dies(): os.kill(os.getpid(), 9)\n",
    **{f"test_{letter}.py": "def test_one(): pass\ndef test_two(): pass\n" for letter in "abcdef"},
}


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run_with_the_name_of_its_test(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    makefile = (ROOT / "Makefile").read_text().replace("$(TEST_PROCESSES)", "2")
    options = re.search(r"^PYTEST := \S+ (.*)$", makefile, re.MULTILINE)
    assert options is not None
    ran = subprocess.run(
        [sys.executable, *options[1].split(), "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=PATIENCE_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "crashed while running 'test_dies.py::test_dies'" in ran.stdout
    assert re.search(r"gw\d ended by SIGKILL", ran.stdout)
