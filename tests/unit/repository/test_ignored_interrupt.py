"""Tests of Ctrl-C also work where a shell has started the tests in the background, which ignores SIGINT."""

import subprocess
import sys

from tests.support.repository import ROOT

CHECK = "import signal, tests.conftest; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"


def test_an_ignored_interrupt_is_handled_again() -> None:
    subprocess.run(["sh", "-c", 'trap "" INT; exec "$0" -c "$1"', sys.executable, CHECK], cwd=ROOT, check=True)
