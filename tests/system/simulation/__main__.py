"""`python -m tests.system.simulation --seeds 1000` runs seeds on all cores; `--seed 7` runs one and prints events.

A run goes on when a seed fails, up to a limit; it prints the seed at once, and all of them at the end. One that was
interrupted goes on with `--first`.

With `--losses` the database goes back some transactions now and then (`failovers`), and with `--unreadable` some stored
groups cannot be read for a while (`unreadable`).
"""

import argparse
import gc
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import Pool

from tests.system.simulation.failovers import run_lossy_seed
from tests.system.simulation.faults import FAULTS, LOSSES, UNREADABLE
from tests.system.simulation.seeds import END_S, Outcome, run_seed, run_unreadable_seed
from tests.system.simulation.world import Violation

ENOUGH_SEEDS = 1_000
"""A run of so many seeds in which a fault never struck has not tried what it should have, and fails."""
PROGRESS_EVERY = 50
FAILURES_MAX = 10
"""After so many seeds that fail a run ends: what they have found is likely one fault."""
SEEDS_A_PROCESS = 200
"""Then another process takes its place, so that memory does not grow."""
RUNS: Mapping[str, Callable[[int], Outcome]] = {
    "": run_seed,
    "losses": run_lossy_seed,
    "unreadable": run_unreadable_seed,
}
"""By the mode that the arguments choose."""


def main() -> int:
    """Run what the arguments ask for; 0 if every invariant held."""
    asked = _arguments()
    if asked.seed is not None:
        return _run_one(asked.seed, asked.mode)
    return _run_many(range(asked.first, asked.first + asked.seeds), asked.jobs, asked.mode)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.system.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one only")
    mode = parser.add_mutually_exclusive_group()
    losses, unreadable = (
        "let the database go back some transactions",
        "let some stored groups be unreadable for a while",
    )
    mode.add_argument("--losses", dest="mode", action="store_const", const="losses", help=losses)
    mode.add_argument("--unreadable", dest="mode", action="store_const", const="unreadable", help=unreadable)
    parser.set_defaults(mode="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    asked = parser.parse_args()
    if min(asked.seeds, asked.jobs) < 1:
        parser.error("--seeds and --jobs must be at least 1")
    return asked


def _run_one(seed: int, mode: str) -> int:
    began_s = time.monotonic()
    outcome = RUNS[mode](seed)
    _print_failure(outcome, mode)
    looked_at = ", ".join(f"{count} {what}" for what, count in outcome.sums.items())
    log_line(f"seed {seed}: {looked_at}; {time.monotonic() - began_s:.1f} s; trace {outcome.fingerprint}")
    _print_faults(outcome.struck)
    return int(outcome.violation is not None)


def _run_many(seeds: range, jobs: int, mode: str) -> int:
    """Run seeds until many have failed, all have run, or Ctrl-C is pressed; then print a summary.

    Returns:
        0 if every seed has run, and every invariant held.
    """
    run = Run(time.monotonic(), jobs, mode)
    with Pool(jobs, _begin_process, maxtasksperchild=SEEDS_A_PROCESS) as pool:
        try:
            for outcome in pool.imap(partial(_run_apart, mode=mode), seeds):
                run.take(outcome)
                if len(run.failed) == FAILURES_MAX:
                    break
        except KeyboardInterrupt:
            log_line("interrupted")
    return finish(run, seeds, mode)


def finish(run: "Run", seeds: range, mode: str) -> int:
    """Print a summary, and how to go on with seeds that have not run; return the exit code."""
    run.print_summary()
    if run.done < len(seeds):
        flags = f"--first {seeds.start + run.done}{f' --{mode}' if mode else ''}"
        log_line(f'to go on: make sim SEEDS={len(seeds) - run.done} ARGS="{flags}"')
        return 1
    if run.failed or mode:
        return int(bool(run.failed))
    return missing(run.struck, run.done)


class Run:
    """What came of the seeds so far."""

    def __init__(self, began_s: float, jobs: int, mode: str) -> None:
        self.done = 0
        self.struck: Counter[str] = Counter()
        self.failed: list[Outcome] = []
        self._sums: Counter[str] = Counter()
        self._began_s = began_s
        self._jobs = jobs
        self._mode = mode

    def take(self, outcome: Outcome) -> None:
        """Take note of a seed."""
        self.done += 1
        self.struck.update(outcome.struck)
        self._sums.update(outcome.sums)
        if outcome.violation is not None:
            self.failed.append(outcome)
            _print_failure(outcome, self._mode)
        if self.done % PROGRESS_EVERY == 0:
            found = f", {len(self.failed)} failed" if self.failed else ""
            log_line(f"{self.done} seeds, the last is {outcome.seed}, {self.done / self._took_s:.2f} a second{found}")

    def print_summary(self) -> None:
        """Print the number of seeds, their speed, what was checked, and which faults struck."""
        elapsed = f"{self._took_s:.0f} s: {self.done / self._took_s:.2f} a second on {self._jobs} cores"
        log_line(f"{self.done} seeds ({self.done * END_S / 3600:.0f} simulated hours) in {elapsed}")
        log_line("looked at " + ", ".join(f"{count} {what}" for what, count in self._sums.items()))
        _print_faults(self.struck)
        for outcome in self.failed:
            log_line(f"failed: {_repeat(outcome, self._mode)}")

    @property
    def _took_s(self) -> float:
        return time.monotonic() - self._began_s


def _begin_process() -> None:
    """Leave Ctrl-C to the parent, and what is imported out of every collection: that takes as long as 5 % of a seed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()


def _run_apart(seed: int, mode: str) -> Outcome:
    """Run a seed; an error of the simulation itself is an outcome, too."""
    try:
        outcome = RUNS[mode](seed)
    except Exception:  # noqa: BLE001 - the simulation itself is at fault; other seeds go on
        outcome = Outcome(seed, Violation("NoUnhandledErrors", traceback.format_exc(), 0.0, None), Counter(), "")
    return outcome


def _print_faults(struck: Counter[str]) -> None:
    for name in (*FAULTS, *(name for name in (*LOSSES, *UNREADABLE) if struck[name])):
        log_line(f"  {struck[name]:9} {name}")


def missing(struck: Counter[str], seeds: int) -> int:
    """Print which faults never struck; return 1 if there are any and the run was long enough for them."""
    never = [name for name in FAULTS if not struck[name]]
    if never and seeds >= ENOUGH_SEEDS:
        log_line(f"these never struck: {', '.join(never)}")
        return 1
    return 0


def _print_failure(outcome: Outcome, mode: str) -> None:
    violation = outcome.violation
    if violation is None:
        return
    for line in outcome.transcript:
        log_line(line)
    log_line(f"\nseed {outcome.seed} fails: {violation.invariant} at {violation.at_s:.4f} s")
    log_line(f"  group {violation.group_id}: {violation.detail}")
    log_line(f"  to repeat it: {_repeat(outcome, mode)}")


def _repeat(outcome: Outcome, mode: str) -> str:
    return f"make sim SEED={outcome.seed}{f' ARGS=--{mode}' if mode else ''}"


def log_line(line: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
