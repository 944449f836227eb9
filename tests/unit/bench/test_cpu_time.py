"""Processor time from /proc is summed over processes and divided by requests."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.cpu_time import TICKS_PER_S, CpuMeter, cpu_time_s, ticks_in

# Fields 1 to 22 of proc(5): utime 300, stime 40, cutime 5, cstime 1.
STAT = "4711 (a (bad) name) S 1 4711 4711 0 -1 4194560 100 200 0 0 300 40 5 1 20 0 1 0 9000"
USED_S = 0.2
USE = f"import time\nwhile time.process_time() < {USED_S}: pass\nprint('used', flush=True)\ninput()"
START = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {USE!r}])"
READING_ERROR_S = 2 / TICKS_PER_S


def test_ticks_include_ended_children_and_survive_a_name_with_parentheses() -> None:
    assert ticks_in(STAT) == 346


def test_children_count_while_they_run_and_after_they_ended() -> None:
    before_s = cpu_time_s(os.getpid())
    with process(USE):
        assert cpu_time_s(os.getpid()) - before_s >= USED_S - READING_ERROR_S
    assert cpu_time_s(os.getpid()) - before_s >= USED_S - READING_ERROR_S


def test_grandchildren_count() -> None:
    with process(START) as starter:
        assert cpu_time_s(starter) >= USED_S - READING_ERROR_S


def test_meter_sums_processes_since_its_creation_and_divides_by_requests() -> None:
    with process(USE) as earlier:
        meter = CpuMeter({"this": [os.getpid()], "both": [os.getpid(), earlier], "none": []})
        with process(USE):
            used_us = meter.us_per_request(requests=10)
    assert used_us["none"] == 0
    assert used_us["both"] - used_us["this"] <= READING_ERROR_S * 1e6 / 10, "the earlier process is idle since"
    assert used_us["this"] >= (USED_S - READING_ERROR_S) * 1e6 / 10


@contextmanager
def process(program: str) -> Iterator[int]:
    """Run a Python program; the block begins when it has used its processor time, and it ends with the block."""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"used\n"
        yield started.pid
        started.communicate(b"\n")
