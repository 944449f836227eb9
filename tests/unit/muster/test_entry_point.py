"""The entry point of the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

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


def run(*arguments: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """Run a command in a folder, without settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    command = [sys.executable, "-m", "muster", *arguments]
    return subprocess.run(command, cwd=folder, env=inherited | environment, capture_output=True, check=False)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_is_utf_8_whatever_the_locale_says(encoding: str, tmp_path: Path) -> None:
    ran = run("offsets", "show", "--help", folder=tmp_path, PYTHONIOENCODING=encoding)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert "≥" in ran.stdout.decode()
    refused = run("offsets", "import", "größe.csv", folder=tmp_path, PYTHONIOENCODING=encoding)
    assert (refused.returncode, refused.stderr.decode()) == (2, "muster: There is no file größe.csv.\n")


COMMANDS = [("sql", "SELECT 1"), ("groups", "list"), ("doctor",)]


@pytest.mark.parametrize("command", COMMANDS)
def test_data_directory_of_an_unknown_user_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    ran = run(*command, folder=tmp_path, MUSTER_DATA_DIR="~no-such-user/muster")
    said = ran.stderr.decode() + ran.stdout.decode()
    assert ran.returncode != 0
    assert "The data directory ~no-such-user/muster is unknown (Could not determine home directory.)" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", COMMANDS)
def test_working_directory_that_was_deleted_is_reported_in_one_sentence(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    ran = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "muster", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0
    assert "The data directory .muster is unknown ([Errno 2] No such file or directory)" in ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr
