"""The entry point of the command line."""

import subprocess
import sys

INTERRUPTED_WHILE_IMPORTING = """
import sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == "muster.cli.main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
sys.argv = ["muster", "groups", "list"]
from muster.__main__ import main
main()
"""


def test_ctrl_c_while_the_command_line_is_loaded_prints_no_traceback() -> None:
    command = [sys.executable, "-c", INTERRUPTED_WHILE_IMPORTING]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "muster: Stopped.\n")
