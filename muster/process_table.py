"""Processes identified by pid and start time, so that a signal never reaches a process that reused the pid.

Linux only: everything is read from /proc and sent through pidfds.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
KILL_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class ProcessKey:
    """Identifies a process until the next boot; `started_at_ticks` counts clock ticks since boot."""

    pid: int
    started_at_ticks: int


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """The state of a process at one time, from /proc."""

    key: ProcessKey
    parent_pid: int
    session_id: int
    is_zombie: bool


def boot_id() -> str:
    """Return the id of this boot; start times of other boots are not comparable."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def find_process(pid: int) -> ProcessRow | None:
    """Return a process; None if no process has this pid."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="latin-1")  # A name may hold any bytes.
    except OSError:
        return None
    # The program's name stands in parentheses and may hold some too, so read from the last one on.
    state, parent, _group, session, *rest = stat.rpartition(")")[2].split()
    return ProcessRow(ProcessKey(pid, int(rest[15])), int(parent), int(session), state in "ZX")


def this_process() -> ProcessKey:
    """Return the key of this process."""
    row = find_process(os.getpid())
    assert row is not None, "a process that runs has a row in /proc"
    return row.key


def is_alive(key: ProcessKey) -> bool:
    """Return whether the process still runs; a zombie does not."""
    row = find_process(key.pid)
    return row is not None and row.key == key and not row.is_zombie


def all_processes() -> list[ProcessRow]:
    """Return all processes of the machine, in no order."""
    pids = (int(entry.name) for entry in os.scandir(PROC) if entry.name.isdigit())
    return [row for row in map(find_process, pids) if row is not None]


def is_directory_in_use(directory: Path) -> bool:
    """Return whether the directory is the working directory of a visible process."""
    return any(_working_directory(row.key.pid) == directory for row in all_processes())


def family_of(root: ProcessKey, rows: Sequence[ProcessRow]) -> set[ProcessKey]:
    """Return the running descendants of `root` and the other processes of its session.

    Empty when `root` is gone altogether; while it is a zombie its number still means it, and its session is found.
    """
    if not any(row.key == root for row in rows):
        return set()
    return _closure(root, [row for row in rows if row.session_id == root.pid], rows)


def descendants_of(root: ProcessKey, rows: Sequence[ProcessRow]) -> set[ProcessKey]:
    """Return the children of `root`, their children and so on, without `root` itself."""
    return _closure(root, [], rows)


def send_signal(key: ProcessKey, number: signal.Signals) -> bool:
    """Send a signal to the process; return False if it has ended, or may not be signalled."""
    with _pidfd(key) as pidfd:
        if pidfd is None:
            return False
        try:
            signal.pidfd_send_signal(pidfd, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def kill_all(keys: Iterable[ProcessKey]) -> None:
    """Kill the processes, and wait for their end.

    Returns after KILL_TIMEOUT_S in any case: the kernel may hold one that waits for a disk.
    """
    left = {key for key in keys if send_signal(key, signal.SIGKILL)}
    deadline_s = time.monotonic() + KILL_TIMEOUT_S
    while (left := {key for key in left if is_alive(key)}) and time.monotonic() < deadline_s:
        wait_until_one_ends(left, deadline_s - time.monotonic())


def wait_until_one_ends(keys: Iterable[ProcessKey], timeout_s: float) -> None:
    """Wait until one of the processes has ended, for `timeout_s` at most."""
    with contextlib.ExitStack() as open_files:
        poll = select.poll()
        for key in keys:
            pidfd = open_files.enter_context(_pidfd(key))
            if pidfd is None:
                return
            poll.register(pidfd, select.POLLIN)
        poll.poll(max(0.0, timeout_s) * 1000)


@contextlib.contextmanager
def _pidfd(key: ProcessKey) -> Iterator[int | None]:
    try:
        pidfd = os.pidfd_open(key.pid)
    except OSError:
        yield None
        return
    try:
        # The handle is taken before the look, so what was looked at is what the handle means.
        yield pidfd if is_alive(key) else None
    finally:
        os.close(pidfd)


def _working_directory(pid: int) -> Path | None:
    try:
        return (PROC / str(pid) / "cwd").readlink()
    except OSError:  # It has ended, or is another user's.
        return None


def _closure(root: ProcessKey, seeds: Sequence[ProcessRow], rows: Sequence[ProcessRow]) -> set[ProcessKey]:
    children: dict[int, list[ProcessRow]] = {}
    for row in rows:
        children.setdefault(row.parent_pid, []).append(row)
    found: dict[ProcessKey, ProcessRow] = {}
    queue = [*seeds, *children.get(root.pid, [])]
    while queue:
        row = queue.pop()
        if row.key != root and row.key not in found:
            found[row.key] = row
            queue += children.get(row.key.pid, [])
    return {key for key, row in found.items() if not row.is_zombie}
