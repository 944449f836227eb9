"""The commands of docs/consume.md do what the page says."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.support.documented_commands import console_blocks, sessions, typed
from tests.support.nodes import running_node
from tests.support.repository import ROOT
from tests.support.waiting import PATIENCE_S, poll_until

PAGE = (ROOT / "docs" / "consume.md").read_text()
INTERACTIVE_SHELL = ("setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i")
"""An interactive shell: after reporting the end of a job it numbers jobs from 1 again."""
PAGES_NODE = "http://127.0.0.1:8080"


def program() -> str:
    """Return the page's one program."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(code)


COMMANDS = [command for block in console_blocks(PAGE) for command in typed(block)]


class Terminal:
    """An interactive shell on a terminal of its own, in a folder that looks like the project's."""

    def __init__(self, folder: Path, node_url: str) -> None:
        self.folder = folder
        self._node_url = node_url
        self._typed = 0
        self._shown = bytearray()
        (folder / ".venv").symlink_to(sys.prefix)
        shutil.copytree(ROOT / "examples", folder / "examples")
        (folder / "read_letters.py").write_text(program().replace(PAGES_NODE, node_url))
        self._ours, theirs = pty.openpty()
        self._shell = subprocess.Popen([*INTERACTIVE_SHELL], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self._watching = Thread(target=self._watch, name="terminal")
        self._watching.start()

    def _watch(self) -> None:
        """Read the output until the last program has closed the terminal."""
        with suppress(OSError):
            while shown := os.read(self._ours, 65_536):
                self._shown += shown

    def type(self, command: str) -> None:
        """Run a command of the page, which must succeed, and await the prompt; no result depends on a wait's limit."""
        line = command.replace("consume orders-log", f"consume orders-log --url {self._node_url}")
        line = line.replace("timeout 60 ", f"timeout {PATIENCE_S} ")
        self._typed += 1
        prompt = self.folder / f"prompt-{self._typed}"
        self.send(line)
        self.send(f"echo $? > {prompt.name}")
        poll_until(lambda: prompt.exists() and prompt.read_text().endswith("\n"))
        assert prompt.read_text() == "0\n", f"{line!r} failed: {self._shown.decode(errors='replace')}"

    def send(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    def shows(self, *words: str) -> bool:
        """Return whether the terminal shows a line of these words."""
        return [*words] in [line.split() for line in self._shown.decode(errors="replace").splitlines()]

    def said(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def close(self) -> None:
        self.send("kill -9 $(jobs -p) 2> last.txt; exit 0")
        self._shell.wait(PATIENCE_S)
        self._watching.join(PATIENCE_S)
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path: Path, reader_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("MUSTER_DATABASE_URL", reader_database)
    monkeypatch.setenv("TERM", "dumb")
    with running_node(reader_database) as node:
        terminal = Terminal(tmp_path, node.url)
        yield terminal
        terminal.close()


@pytest.mark.slow
def test_commands_of_the_page_have_the_described_results(terminal: Terminal) -> None:
    for command in COMMANDS:
        terminal.type(command)
    read_first = sorted(line for line in terminal.said("first.txt") if " line " in line)
    read_second = sorted(line for line in terminal.said("second.txt") if " line " in line)

    assert terminal.said("first.txt")[0] == "assigned: letters-0 letters-1 letters-2"
    assert len(terminal.said("second.txt")[0].split()) in {2, 3}, "assigned one or two of the files"
    assert read_first == [f"letters-{n} line 0: the first line of file {n}" for n in range(3)]
    assert read_second == [f"letters-{n} line 1: a line written later" for n in range(3)]
    poll_until(lambda: all(terminal.shows(str(n), "2", "2") for n in range(3)))
    poll_until(lambda: terminal.shows("3", "session_expired", "1"))
    poll_until(lambda: terminal.shows("1000", "orders"))
    assert any(" owns orders-log-" in line for line in terminal.said("third.txt"))
    assert any(
        line.endswith(" owns orders-log-0 orders-log-1 orders-log-2 orders-log-3")
        for line in terminal.said("fourth.txt")
    )


def test_the_page_has_no_other_command_but_the_start_of_the_platform() -> None:
    others = {command for session in sessions("docs/consume.md") for command in session} - set(COMMANDS)

    assert others == {"make run", "make run ARGS=--no-airflow"}  # tests/system/e2e/test_local_platform.py


def test_program_of_the_page_is_short() -> None:
    _, _, loop = program().partition("    while True:\n")

    assert len(loop.splitlines()) <= 10


def test_links_of_the_page_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).resolve().exists(), target
