"""Processor time that servers use, read from /proc; a process counts with its children, also those that ended."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.process_table import PROC, all_processes, descendants_of, find_process

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
TIMES: Final = slice(11, 15)
"""Positions of `utime`, `stime`, `cutime` and `cstime` behind the program's name in /proc/PID/stat."""


Pids = Mapping[str, Sequence[int]]
"""Processes to measure, by the name under which their sum is reported."""


class CpuMeter:
    """Measures the processor time of servers from its creation on."""

    def __init__(self, pids: Pids) -> None:
        self._pids = pids
        self._began_s = self._read_s()

    def us_per_request(self, requests: float) -> dict[str, float]:
        """Return the microseconds of processor time a request (or a row) since the creation, by name."""
        return {name: (now_s - self._began_s[name]) * 1e6 / requests for name, now_s in self._read_s().items()}

    def details(self, requests: float) -> dict[str, float]:
        """Return the microseconds a request as details of a figure."""
        return {f"{name}_cpu_us": used_us for name, used_us in self.us_per_request(requests).items()}

    def _read_s(self) -> dict[str, float]:
        # Each process is read once: reading uses time too, by which sums with a process in common would differ.
        used_s = {pid: cpu_time_s(pid) for pid in set().union(*self._pids.values())}
        return {name: sum(used_s[pid] for pid in pids) for name, pids in self._pids.items()}


def cpu_time_s(pid: int) -> float:
    """Return the user and system time of a process and of all its descendants, in seconds."""
    root = find_process(pid)
    assert root is not None, f"process {pid} has ended"
    family = descendants_of(root.key, all_processes())
    return sum(_ticks(each) for each in (pid, *(key.pid for key in family))) / TICKS_PER_S


def postmaster_pid(connection: PsycopgConnection) -> int:
    """Return the process id of a Postgres on this machine, of which each backend is a child."""
    backend = find_process(connection.info.backend_pid)
    assert backend is not None, "Postgres runs on this machine"
    return backend.parent_pid


def ticks_in(stat: str) -> int:
    """Return the clock ticks of a process and of its ended children from the text of its /proc/PID/stat."""
    return sum(int(field) for field in stat.rpartition(")")[2].split()[TIMES])


def _ticks(pid: int) -> int:
    try:
        return ticks_in((PROC / str(pid) / "stat").read_text())
    except OSError:
        return 0  # It has just ended: its parent counts it.
