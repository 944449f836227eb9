"""Run chaos: inject faults into a platform for a while, then check every invariant.

Run: python -m tests.system.chaos.run [--minutes 5] [--agents 200] [--nodes 3] [--seed 1]
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import psycopg2

from muster.settings import psql_url
from tests.system.chaos.faults import FAULTS
from tests.system.chaos.invariants import Invariant, agents_without_commits_since, check_invariants
from tests.system.chaos.journal import read_journals
from tests.system.chaos.platform import Platform, Size, running_platform

PAUSE_BETWEEN_FAULTS_S = (1.0, 6.0)


def main() -> None:
    """Run, print, and exit with 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="time of fault injection (each fault at least once)")
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None, help="of the faults' order and times; None: a new one")
    options = parser.parse_args()
    seed = Random().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="muster-chaos-") as directory:
        size = Size(nodes=options.nodes, agents=options.agents)
        invariants = run(
            Path(directory), size, Random(seed), options.minutes * 60, lambda line: print(line, flush=True)
        )
    sys.exit(any(invariant.violations for invariant in invariants))


def run(
    directory: Path, size: Size, random: Random, duration_s: float, report: Callable[[str], object]
) -> list[Invariant]:
    """Run once.

    Args:
        directory: for the database, the logs and the journals.
        size: numbers of processes and agents.
        random: determines the order and times of faults.
        duration_s: time of fault injection; every fault is injected at least once.
        report: called with each line of the report.

    Returns:
        Every invariant, with its violations.
    """
    with running_platform(directory, size) as platform:
        report(f"{size.nodes} nodes; {size.agents} agents in groups of {size.members}")
        wait_until_all_commit(platform, time.monotonic())
        report("all consume")
        _inject_faults(platform, random, duration_s, report)
        faults_ended_s = time.monotonic()
        platform.wait_for(platform.are_nodes_ready, "every node's readiness")
        wait_until_all_commit(platform, faults_ended_s)
        report(f"all consume again {time.monotonic() - faults_ended_s:.1f} s after the last fault")
        platform.stop_agents()
        with closing(psycopg2.connect(psql_url(platform.postgres.database_url()))) as connection:
            invariants = [*check_invariants(read_journals(directory), connection), _no_unexpected_errors(platform)]
    for invariant in invariants:
        report(
            f"{'holds' if not invariant.violations else 'VIOLATED':<10}{invariant.name} ({invariant.checked} checked)"
        )
        for violation in invariant.violations[:20]:
            report(f"        {violation}")
    return invariants


def _inject_faults(platform: Platform, random: Random, duration_s: float, report: Callable[[str], object]) -> None:
    began_s = time.monotonic()
    remaining = random.sample(FAULTS, len(FAULTS))
    while remaining or time.monotonic() - began_s < duration_s:
        fault = remaining.pop() if remaining else random.choice(FAULTS)
        what = fault(platform, random)
        report(f"{time.monotonic() - began_s:6.1f} s  {what}")
        platform.run_for(random.uniform(*PAUSE_BETWEEN_FAULTS_S))


def wait_until_all_commit(platform: Platform, since_s: float) -> None:
    """Wait until every agent has had a successful commit since then."""
    names = {f"agent-{number}" for number in range(platform.size.agents)}

    def all_have_committed() -> bool:
        return not agents_without_commits_since(read_journals(platform.directory), names, since_s)

    platform.wait_for(all_have_committed, "every agent's next commit")


def _no_unexpected_errors(platform: Platform) -> Invariant:
    unexpected_errors = platform.unexpected_errors()
    return Invariant("no node logs an unexpected error", platform.size.nodes, unexpected_errors)


if __name__ == "__main__":
    main()
