"""The `muster` command, run in this process, and its output."""

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from muster.cli.main import main
from tests.support.http_client import Group, Json

QUICK = {"group_initial_rebalance_delay_ms": 0}

PATIENT: Json = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
"""How members join that are waited for, however slow the machine is."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Output and exit code of a command."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever it printed
        """Return what it printed for programs."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """Return the words of every line but the headings."""
        return [line.split() for line in self.out.splitlines()[1:]]


class Muster:
    """The command, for one node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        """Run the command with these arguments."""
        self._monkeypatch.setattr(sys, "argv", ["muster", *arguments])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        return Ran(int(ended.value.code or 0), out, err)

    def ok(self, *arguments: str) -> Ran:
        """Run a command that must succeed."""
        ran = self(*arguments)
        assert (ran.exit_code, ran.err) == (0, ""), ran
        return ran

    def refused(self, exit_code: int, *arguments: str) -> str:
        """Run a command that must fail, and return its message on stderr."""
        ran = self(*arguments)
        assert ran.exit_code == exit_code, ran
        assert ran.err.startswith("muster: "), ran
        assert "Traceback" not in ran.err
        return ran.err.removeprefix("muster: ").rstrip("\n")


def undo_command(said: str) -> list[str]:
    """Return the arguments of the undo that a command printed last."""
    words = said.splitlines()[-1].removesuffix(" (when the run is applied)").split()
    assert words[:3] == ["Undo", "with:", "muster"], said
    return words[3:]


def commit(group: Group, *offsets: Json) -> None:
    """Commit as a consumer that is in no group."""
    body = {"generation": -1, "member_id": "", "offsets": list(offsets)}
    group.client.ok("POST", f"{group.path}/offsets", body)


def offsets_of(group: Group) -> dict[tuple[str, int], int]:
    """Return what a group has committed."""
    found = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    return {(each["topic"], each["partition"]): each["offset"] for each in found}
