"""The commands of docs/consume.md do what the page says."""

from __future__ import annotations

import json
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
import urllib3

from tests.support.documented_commands import console_blocks, sessions, typed
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
        """Run the page's next command, which must begin so and succeed, and wait for the prompt."""
        assert COMMANDS[self._typed].startswith(command), f"the page goes on with {COMMANDS[self._typed]!r}"
        line = COMMANDS[self._typed].replace("consume orders-log", f"consume orders-log --url {self._node_url}")
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

    def is_at_the_end(self) -> bool:
        return self._typed == len(COMMANDS)

    def close(self) -> None:
        self.send("kill -9 $(jobs -p) 2> last.txt; exit 0")
        self._shell.wait(PATIENCE_S)
        self._watching.join(PATIENCE_S)
        os.close(self._ours)


@pytest.fixture
def terminal(
    tmp_path: Path, reader_node: str, reader_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("MUSTER_DATABASE_URL", reader_database)
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal(tmp_path, reader_node)
    yield terminal
    terminal.close()


def committed(node_url: str, group_id: str) -> dict[int, tuple[int, int]]:
    with urllib3.PoolManager() as http:
        answer = json.loads(http.request("GET", f"{node_url}/v1/groups/{group_id}/offsets").data)
    return {each["partition"]: (each["offset"], each["log_end_offset"]) for each in answer.get("offsets", [])}


@pytest.mark.slow
def test_commands_of_the_page_have_the_described_results(terminal: Terminal, reader_node: str) -> None:
    terminal.type("mkdir")
    terminal.type("for n in 0 1 2")
    terminal.type(".venv/bin/python read_letters.py > first.txt")
    poll_until(lambda: committed(reader_node, "readers") == dict.fromkeys(range(3), (1, 1)))
    terminal.type(".venv/bin/python read_letters.py > second.txt")
    poll_until(lambda: any(line.startswith("assigned: letters-") for line in terminal.said("second.txt")))
    terminal.type("kill -9 $first")
    terminal.type("for n in 0 1 2")
    poll_until(lambda: committed(reader_node, "readers") == dict.fromkeys(range(3), (2, 2)))
    terminal.type(".venv/bin/muster sql")
    poll_until(lambda: all(terminal.shows(str(n), "2", "2") for n in range(3)))
    terminal.type(".venv/bin/muster sql")
    poll_until(lambda: terminal.shows("3", "session_expired", "1"))
    terminal.type("kill $second")
    read_first = sorted(line for line in terminal.said("first.txt") if " line " in line)
    read_second = sorted(line for line in terminal.said("second.txt") if " line " in line)

    assert terminal.said("first.txt")[0] == "assigned: letters-0 letters-1 letters-2"
    assert read_first == [f"letters-{n} line 0: the first line of file {n}" for n in range(3)]
    assert read_second == [f"letters-{n} line 1: a line written later" for n in range(3)]

    terminal.type(".venv/bin/python -m examples.word_count produce orders-log")
    terminal.type(".venv/bin/python -m examples.word_count consume orders-log > third.txt")
    terminal.type(".venv/bin/python -m examples.word_count consume orders-log > fourth.txt")
    terminal.type("until grep -q ' owns ' fourth.txt")
    terminal.type("kill -9 $third")
    terminal.type(".venv/bin/python -m examples.word_count produce orders-log")
    ends = {n: (terminal.folder / "orders-log" / f"orders-log-{n}.log").stat().st_size for n in range(4)}
    poll_until(lambda: committed(reader_node, "word-count") == {n: (end, end) for n, end in ends.items()})
    terminal.type(".venv/bin/python -m examples.word_count total orders-log")
    poll_until(lambda: terminal.shows("1000", "orders"))
    terminal.type("kill $fourth")

    assert terminal.is_at_the_end()


def test_the_page_has_no_other_command_but_the_start_of_the_platform() -> None:
    others = {command for session in sessions("docs/consume.md") for command in session} - set(COMMANDS)

    assert others == {"make run", "make run ARGS=--no-airflow"}  # tests/system/e2e/test_local_platform.py


def test_program_of_the_page_is_short() -> None:
    _, _, loop = program().partition("    while True:\n")

    assert len(loop.splitlines()) <= 10


def test_links_of_the_page_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).resolve().exists(), target
