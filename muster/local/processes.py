"""Child processes that never outlive the run that started them.

Four things see to that, each for the case that the one before cannot cover:

1. A stop asks every child, waits until a deadline, then kills what is left of the child and of everything it started.
2. A child whose parent is killed gets a signal from the kernel (`child_entry.py`).
3. What a dead child leaves behind comes to us, and is killed in the end (`orphans.py`).
4. Every child stands in a file with its pid and start time, so the next run stops what a killed one left, and
   signals no foreign process (`child_registry.py`).
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from muster import process_table
from muster.process_table import ProcessKey, ProcessRow

SHORT_LIFE_S = 30.0
LONGEST_BACK_OFF_S = 30.0
FAMILY_SCAN_INTERVAL_S = 2.0
STOP_POLL_S = 0.2
LOG_FILE_MAX_BYTES = 32 * 1024 * 1024


class RootDrop(StrEnum):
    """How a child process that refuses to run as root drops root."""

    KEEP = "keep"
    NAMESPACE = "namespace"
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How to start a child process, and what to do when it ends.

    `env` is the child's whole environment. `restart_delay_s` is the first pause before a dead child is started
    again; it doubles while the child keeps dying young.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    log_file: Path
    restart: bool = False
    restart_delay_s: float = 0.5
    stop_signal: signal.Signals = signal.SIGTERM
    root_drop: RootDrop = RootDrop.KEEP


@dataclass(frozen=True, slots=True)
class ChildDeath:
    """A child ended unexpectedly; `restart_in_s` is None if it is not restarted."""

    name: str
    exit_code: int
    restart_in_s: float | None
    log_file: Path

    def __str__(self) -> str:
        code = self.exit_code
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        after = "" if self.restart_in_s is None else f"; it starts again in {self.restart_in_s:g} s"
        return f"{self.name} {how}{after} ({self.log_file})."


class Child:
    """A process that was started from a spec, in a session of its own."""

    def __init__(self, spec: ChildSpec) -> None:
        """Start the process; its output is appended to the log file.

        Must be called on the main thread: the kernel ties the child to the thread that starts it.
        """
        assert threading.current_thread() is threading.main_thread(), "a child would end with this thread"
        self.spec = spec
        self.started_at_s = time.monotonic()
        self._process = _spawn(spec)
        row = process_table.find_process(self._process.pid)
        assert row is not None, "a child that was not waited for has a row in /proc"
        self.key = row.key
        self.family: set[ProcessKey] = set()
        self._asked_family = False

    @property
    def pid(self) -> int:
        """The child's process id, which is also the id of its session."""
        return self.key.pid

    def is_alive(self) -> bool:
        """Return whether the child itself still runs."""
        return process_table.is_alive(self.key)

    def exit_code(self) -> int | None:
        """Return its exit code (a negative signal number if it was killed); None while it runs.

        The kernel reports the end when the first thread has ended, and the exit status when the last one has.
        """
        return self._process.poll() if self.is_alive() else self._process.wait()

    def living(self, rows: Sequence[ProcessRow]) -> set[ProcessKey]:
        """Return the child and its descendants, as far as they still run."""
        self.note_family(rows)
        return {key for key in (self.key, *self.family) if process_table.is_alive(key)}

    def note_family(self, rows: Sequence[ProcessRow]) -> None:
        """Record the descendants of the child, which cannot be found any more after its end."""
        still = {key for key in self.family if process_table.is_alive(key)}
        self.family = still | process_table.family_of(self.key, rows)

    def ask_to_stop(self) -> None:
        """Send the child its stop signal."""
        process_table.send_signal(self.key, self.spec.stop_signal)

    def ask_family_to_stop(self) -> None:
        """Send SIGTERM to the descendants of an ended child, once; while the child runs, it stops them itself."""
        if self._asked_family or self.is_alive():
            return
        self._asked_family = True
        for key in self.family:
            process_table.send_signal(key, signal.SIGTERM)


class Register(Protocol):
    """An observer of the set of child processes."""

    def write(self, children: Collection[Child]) -> None:
        """Record the current children."""


class ChildProcesses:
    """The child processes of a run: started in order, restarted when they end, stopped together."""

    def __init__(self, registry: Register, log_file_max_bytes: int = LOG_FILE_MAX_BYTES) -> None:
        self._registry = registry
        self._log_file_max_bytes = log_file_max_bytes
        self._children: dict[str, Child] = {}
        self._due: dict[str, _Restart] = {}
        self._back_off_s: dict[str, float] = {}
        self._dismissed: set[str] = set()
        self._scanned_at_s = 0.0

    def start(self, spec: ChildSpec) -> Child:
        """Start a child, whose name must be unique; keep its previous log as `….1`."""
        assert spec.name not in self._children, f"two children named {spec.name}"
        rotate_log(spec.log_file)
        return self._start(spec)

    def find(self, name: str) -> Child | None:
        """Return the running child of this name."""
        child = self._children.get(name)
        return child if child is not None and child.is_alive() else None

    def names(self) -> set[str]:
        """Return the names of all children, including those that will be restarted."""
        return set(self._children) | set(self._due)

    def pids(self) -> set[int]:
        """Return the children's process ids."""
        return {child.pid for child in self._children.values()}

    def tick(self) -> list[ChildDeath]:
        """Reap ended children and restart those that are due; call it a few times a second."""
        deaths = [self._on_death(child) for child in list(self._children.values()) if not child.is_alive()]
        news = [death for death in deaths if death.name not in self._dismissed]
        self._dismissed -= {death.name for death in deaths}
        now_s = time.monotonic()
        for restart in [due for due in self._due.values() if due.at_s <= now_s]:
            self._start(restart.spec)
        if now_s - self._scanned_at_s >= FAMILY_SCAN_INTERVAL_S:
            self._scan(now_s)
        return news

    def dismiss(self, name: str) -> None:
        """Ask a child to end; `tick` waits for that, does not restart it, and does not report its end."""
        self._due.pop(name, None)
        child = self._children.get(name)
        if child is not None:
            self._dismissed.add(name)
            child.ask_to_stop()

    def stop(self, timeout_s: float, names: Collection[str] | None = None) -> None:
        """Stop the named children (all when None) and everything they started.

        Children that still run after `timeout_s` are killed. None is restarted.
        """
        chosen = [name for name in self._children if names is None or name in names]
        for name in list(self._due) if names is None else names:
            self._due.pop(name, None)
        stop_children([self._children[name] for name in chosen], timeout_s)
        for name in chosen:
            del self._children[name]
        self._registry.write(self._children.values())

    def _start(self, spec: ChildSpec) -> Child:
        child = Child(spec)
        self._children[spec.name] = child
        self._due.pop(spec.name, None)
        self._registry.write(self._children.values())
        return child

    def _on_death(self, child: Child) -> ChildDeath:
        process_table.kill_all(child.living(process_table.all_processes()))
        del self._children[child.spec.name]
        code = child.exit_code()
        assert code is not None, "a process that is not alive has an exit code"
        is_wanted = child.spec.restart and child.spec.name not in self._dismissed
        delay_s = self._plan_restart(child) if is_wanted else None
        self._registry.write(self._children.values())
        return ChildDeath(child.spec.name, code, delay_s, child.spec.log_file)

    def _plan_restart(self, child: Child) -> float:
        name, first_s = child.spec.name, child.spec.restart_delay_s
        died_young = time.monotonic() - child.started_at_s < SHORT_LIFE_S
        longest_s = max(first_s, LONGEST_BACK_OFF_S)
        delay_s = min(self._back_off_s.get(name, first_s / 2) * 2, longest_s) if died_young else first_s
        self._back_off_s[name] = delay_s
        self._due[name] = _Restart(child.spec, time.monotonic() + delay_s)
        return delay_s

    def _scan(self, now_s: float) -> None:
        self._scanned_at_s = now_s
        rows = process_table.all_processes()
        for child in self._children.values():
            child.note_family(rows)
            shorten_log(child.spec.log_file, self._log_file_max_bytes)
        self._registry.write(self._children.values())


def stop_children(children: Sequence[Child], timeout_s: float) -> None:
    """Ask all children to stop, and kill those that still run, with their descendants, after `timeout_s`."""
    for child in children:
        child.note_family(process_table.all_processes())
        child.ask_to_stop()
    deadline_s = time.monotonic() + timeout_s
    while left := _living(children):
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            process_table.kill_all(left)
            break
        for child in children:
            child.ask_family_to_stop()
        process_table.wait_until_one_ends(left, min(remaining_s, STOP_POLL_S))
    for child in children:
        child.exit_code()


def rotate_log(log_file: Path) -> None:
    """Rename the log of the last run to `….1`."""
    if log_file.exists():
        log_file.replace(log_file.with_name(log_file.name + ".1"))


def shorten_log(log_file: Path, max_bytes: int) -> None:
    """Copy a log that is too long to `….1`, and truncate it; its writer appends, so it continues at the start.

    It is truncated too if its disk is full, and its copy then not complete.
    """
    if log_file.exists() and log_file.stat().st_size > max_bytes:
        try:
            shutil.copyfile(log_file, log_file.with_name(log_file.name + ".1"))
        finally:
            os.truncate(log_file, 0)


@dataclass(frozen=True, slots=True)
class _Restart:
    spec: ChildSpec
    at_s: float


def _living(children: Sequence[Child]) -> set[ProcessKey]:
    rows = process_table.all_processes()
    return {key for child in children for key in child.living(rows)}


def tied_command(
    argv: Sequence[str], stop_signal: signal.Signals = signal.SIGTERM, root_drop: RootDrop = RootDrop.KEEP
) -> list[str]:
    """Return the command line of a child that the kernel sends `stop_signal` when the thread that started it ends."""
    entry = str(Path(__file__).with_name("child_entry.py"))
    contract = [str(os.getpid()), str(int(stop_signal)), root_drop.value]
    return [sys.executable, "-I", "-S", entry, *contract, *argv]


def _spawn(spec: ChildSpec) -> subprocess.Popen[bytes]:
    with spec.log_file.open("ab") as log:
        return subprocess.Popen(
            tied_command(spec.argv, spec.stop_signal, spec.root_drop),
            env=dict(spec.env),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
