"""The page that takes a reader to her first consumer does what it says, command by command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from tests.waiting import poll_until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "consume.md").read_text()
PAGES_NODE = "http://127.0.0.1:8080"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    """Return what a reader types, each command in one piece."""
    return [found.replace("\\\n", " ") for found in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, flags=re.MULTILINE)]


COMMANDS = [command for block in blocks("console") for command in commands(block)]


class Terminal:
    """A shell with jobs, in a folder that looks like the project's."""

    def __init__(self, folder: Path, node_url: str) -> None:
        self.folder = folder
        self._node_url = node_url
        self._typed = 0
        (folder / ".venv").symlink_to(sys.prefix)
        shutil.copytree(ROOT / "examples", folder / "examples")
        (code,) = blocks("python")
        (folder / "read_letters.py").write_text(code.replace(PAGES_NODE, node_url))
        self.shell = subprocess.Popen(["bash", "-m"], cwd=folder, stdin=subprocess.PIPE, text=True)

    def type(self, command: str) -> None:
        """Run the page's next command, which must be this one, and wait until the prompt is back."""
        assert COMMANDS[self._typed].startswith(command), f"the page goes on with {COMMANDS[self._typed]!r}"
        line = COMMANDS[self._typed].replace("consume orders-log", f"consume orders-log --url {self._node_url}")
        self._typed += 1
        prompt = self.folder / f"prompt-{self._typed}"
        self.send(f"{line}\ntouch {prompt.name}")
        poll_until(prompt.exists)

    def skip(self, command: str) -> None:
        """Go past a command that needs what only `make run` has."""
        assert COMMANDS[self._typed].startswith(command)
        self._typed += 1

    def send(self, line: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(line + "\n")
        self.shell.stdin.flush()

    def said(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def is_at_the_end(self) -> bool:
        return self._typed == len(COMMANDS)

    def close(self) -> None:
        self.send("kill -9 $(jobs -p) 2> last.txt; exit 0")
        self.shell.wait()
        assert self.shell.stdin is not None
        self.shell.stdin.close()


@pytest.fixture
def terminal(tmp_path: Path, reader_node: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    terminal = Terminal(tmp_path, reader_node)
    yield terminal
    terminal.close()


def committed(node_url: str, group_id: str) -> dict[int, tuple[int, int]]:
    with urllib3.PoolManager() as http:
        answer = json.loads(http.request("GET", f"{node_url}/v1/groups/{group_id}/offsets").data)
    return {each["partition"]: (each["offset"], each["log_end_offset"]) for each in answer.get("offsets", [])}


def test_a_reader_who_follows_the_page_sees_what_it_says(terminal: Terminal, reader_node: str) -> None:
    terminal.type("mkdir")
    terminal.type("for n in 0 1 2")
    terminal.type(".venv/bin/python read_letters.py > first.txt")
    poll_until(lambda: committed(reader_node, "readers") == dict.fromkeys(range(3), (1, 1)))
    terminal.type(".venv/bin/python read_letters.py > second.txt")
    poll_until(lambda: any(line.startswith("mine now: letters-") for line in terminal.said("second.txt")))
    terminal.type("kill -9 %1")
    terminal.type("for n in 0 1 2")
    poll_until(lambda: committed(reader_node, "readers") == dict.fromkeys(range(3), (2, 2)))
    terminal.skip("psql")
    terminal.skip("psql")
    terminal.type("kill %2")
    read_first = sorted(line for line in terminal.said("first.txt") if " line " in line)
    read_second = sorted(line for line in terminal.said("second.txt") if " line " in line)

    assert terminal.said("first.txt")[0] == "mine now: letters-0 letters-1 letters-2"
    assert read_first == [f"letters-{n} line 0: the first line of file {n}" for n in range(3)]
    assert read_second == [f"letters-{n} line 1: a line written later" for n in range(3)]

    terminal.type(".venv/bin/python -m examples.word_count produce orders-log")
    terminal.type(".venv/bin/python -m examples.word_count consume orders-log > third.txt")
    terminal.type(".venv/bin/python -m examples.word_count consume orders-log > fourth.txt")
    poll_until(lambda: any(" owns orders-log-" in line for line in terminal.said("fourth.txt")))
    terminal.type("kill -9 %3")
    terminal.type(".venv/bin/python -m examples.word_count produce orders-log")
    ends = {n: (terminal.folder / "orders-log" / f"orders-log-{n}.log").stat().st_size for n in range(4)}
    poll_until(lambda: committed(reader_node, "word-count") == {n: (end, end) for n, end in ends.items()})
    terminal.send("exec > totals.txt")
    terminal.type(".venv/bin/python -m examples.word_count total orders-log")
    terminal.type("kill %4")

    assert terminal.said("totals.txt")[0].split() == ["1000", "orders"]
    assert terminal.is_at_the_end()


def test_the_readers_program_is_as_short_as_the_page_promises() -> None:
    (code,) = blocks("python")
    _, _, loop = code.partition("    while True:\n")

    assert len(loop.splitlines()) <= 10


def test_every_command_and_file_that_the_page_names_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).resolve().exists(), target
