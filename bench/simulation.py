"""Measure how many seeds of the simulation a core runs in a second of processor time.

Run: python -m bench.simulation [FILE]
"""

import gc
import os
from statistics import median
from time import process_time

from bench.figures import Figure, run_benchmark
from tests.system.simulation.seeds import END_S, Outcome, run_seed

SEEDS = int(os.environ.get("MUSTER_BENCH_SEEDS", "12"))
WANTED_A_SECOND = 1.0


def main() -> None:
    """Measure, print, and write the figures if a path is given."""
    run_benchmark("simulation", "Time seeds of the simulation.", measure)


def measure() -> list[Figure]:
    """Run the first seeds one after the other.

    Raises:
        RuntimeError: a seed violates an invariant.
    """
    took_s, steps = zip(*(_timed(seed) for seed in range(1, SEEDS + 1)), strict=True)
    seed_s = median(took_s)
    return [
        Figure("seeds, on one core", 1 / seed_s, "a second", "the target", WANTED_A_SECOND, wanted=1.0),
        Figure("processor time of a seed", seed_s * 1000, "ms"),
        Figure("steps of a seed: decisions, answers and writes", median(steps), "steps"),
        Figure("simulated time to processor time", END_S / seed_s, "s a second"),
    ]


def _timed(seed: int) -> tuple[float, int]:
    """Return a seed's processor time in seconds, and its steps."""
    gc.collect()
    began_s = process_time()
    outcome = run_seed(seed)
    if outcome.violation is not None:
        raise RuntimeError(f"seed {seed} fails: {outcome.violation.invariant}; make sim SEED={seed}")
    return process_time() - began_s, _steps(outcome)


def _steps(outcome: Outcome) -> int:
    return sum(outcome.sums[kind] for kind in ("decisions", "answers", "writes"))


if __name__ == "__main__":
    main()
