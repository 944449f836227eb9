"""The child registry: a run records its child processes, so that the next run stops those of a killed one.

A process is recorded with its pid, its start time and the boot id; one that has the pid but not the rest is another
process.
"""

import json
import signal
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from muster import process_table
from muster.data_dir import write_private
from muster.errors import UserError
from muster.local.processes import Child
from muster.process_table import ProcessKey


@dataclass(frozen=True, slots=True)
class Leftover:
    """A child process of an ended run, with the descendants that were recorded."""

    name: str
    stop_signal: signal.Signals
    key: ProcessKey
    family: frozenset[ProcessKey]

    def living(self) -> set[ProcessKey]:
        """Return the processes that still run, including descendants that were started after they were recorded."""
        seen = {key for key in (self.key, *self.family) if process_table.is_alive(key)}
        rows = process_table.all_processes()
        return seen.union(*(process_table.family_of(key, rows) for key in seen))

    def ask_to_stop(self, living: set[ProcessKey]) -> None:
        """Signal the child alone, which stops its own children; if it has ended, signal its descendants."""
        if self.key in living:
            process_table.send_signal(self.key, self.stop_signal)
            return
        for key in living:
            process_table.send_signal(key, signal.SIGTERM)


class ChildRegistry:
    """The file that lists every child process of a run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = ""

    def write(self, children: Collection[Child]) -> None:
        """Write the list in one step, if it has changed."""
        text = json.dumps(
            {
                "boot_id": process_table.boot_id(),
                "supervisor": asdict(process_table.this_process()),
                "children": [_as_json(child) for child in children],
            }
        )
        if text == self._written:
            return
        write_private(self._path, text)
        self._written = text

    def stop_leftovers(self, timeout_s: float) -> list[str]:
        """Stop the processes of a killed run; those that still run after `timeout_s` are killed.

        Returns:
            The names of what was stopped, in the order in which it was started.

        Raises:
            UserError: the run that started them is still there.
        """
        leftovers = [(leftover, living) for leftover in self._read() if (living := leftover.living())]
        for leftover, living in leftovers:
            leftover.ask_to_stop(living)
        _wait_then_kill([leftover for leftover, _ in leftovers], timeout_s)
        self._path.unlink(missing_ok=True)
        return [leftover.name for leftover, _ in leftovers]

    def _read(self) -> list[Leftover]:
        try:
            state = json.loads(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return []
        if state["boot_id"] != process_table.boot_id():
            return []
        supervisor = ProcessKey(**state["supervisor"])
        if supervisor != process_table.this_process() and process_table.is_alive(supervisor):
            raise UserError(f"Another muster (pid {supervisor.pid}) is using {self._path.parent}; stop it first.")
        return [_from_json(entry) for entry in state["children"]]


def _wait_then_kill(leftovers: list[Leftover], timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while left := {key for leftover in leftovers for key in leftover.living()}:
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            process_table.kill_all(left)
            return
        process_table.wait_until_one_ends(left, remaining_s)


def _as_json(child: Child) -> dict[str, Any]:
    return {
        "name": child.spec.name,
        "stop_signal": int(child.spec.stop_signal),
        "key": asdict(child.key),
        "family": [asdict(key) for key in sorted(child.family, key=lambda key: key.pid)],
    }


def _from_json(entry: dict[str, Any]) -> Leftover:
    family = frozenset(ProcessKey(**key) for key in entry["family"])
    return Leftover(entry["name"], signal.Signals(entry["stop_signal"]), ProcessKey(**entry["key"]), family)
