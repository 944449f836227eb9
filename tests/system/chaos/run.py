"""Run chaos: faults strike a platform for a while, then every promise is checked in the calm.

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
from tests.system.chaos.journal import read_journals
from tests.system.chaos.platform import Platform, Size, running_platform
from tests.system.chaos.verdict import Promise, agents_without_commits_since, judge

REST_BETWEEN_S = (1.0, 6.0)


def main() -> None:
    """Run, print, and exit with 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long faults strike (each at least once)")
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None, help="of the faults' order and times; None: a new one")
    options = parser.parse_args()
    seed = Random().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="muster-chaos-") as directory:
        size = Size(nodes=options.nodes, agents=options.agents)
        promises = run(Path(directory), size, Random(seed), options.minutes * 60, lambda line: print(line, flush=True))
    sys.exit(any(promise.broken for promise in promises))


def run(directory: Path, size: Size, random: Random, duration_s: float, say: Callable[[str], object]) -> list[Promise]:
    """Run once.

    Args:
        directory: for the database, the logs and the journals.
        size: how much of everything there is.
        random: where all chance of the faults comes from.
        duration_s: how long faults strike; every kind strikes once in any case.
        say: called with every fault, and with the verdict.

    Returns:
        Every promise, with where it was broken.
    """
    with running_platform(directory, size) as platform:
        say(f"{size.nodes} nodes; {size.agents} agents in groups of {size.members}")
        all_consume(platform, time.monotonic())
        say("all consume")
        _strike(platform, random, duration_s, say)
        calm_s = time.monotonic()
        all_consume(platform, calm_s)
        say(f"all consume again {time.monotonic() - calm_s:.1f} s after the last fault")
        platform.children.stop(30.0, {f"fleet-{number}" for number in range(size.processes)})
        with closing(psycopg2.connect(psql_url(platform.postgres.database_url()))) as connection:
            promises = [*judge(read_journals(directory), connection), _no_tracebacks(platform)]
    for promise in promises:
        say(f"{'kept' if not promise.broken else 'BROKEN':<8}{promise.name} ({promise.looked_at} looked at)")
        for where in promise.broken[:20]:
            say(f"        {where}")
    return promises


def _strike(platform: Platform, random: Random, duration_s: float, say: Callable[[str], object]) -> None:
    began_s = time.monotonic()
    to_come = random.sample(FAULTS, len(FAULTS))
    while to_come or time.monotonic() - began_s < duration_s:
        fault = to_come.pop() if to_come else random.choice(FAULTS)
        what = fault(platform, random)
        say(f"{time.monotonic() - began_s:6.1f} s  {what}")
        platform.let_pass(random.uniform(*REST_BETWEEN_S))


def all_consume(platform: Platform, since_s: float) -> None:
    """Wait until every agent has had a successful commit since then."""
    names = {f"agent-{number}" for number in range(platform.size.agents)}

    def is_so() -> bool:
        return not agents_without_commits_since(read_journals(platform.directory), names, since_s)

    platform.wait_for(is_so, "every agent's next commit")


def _no_tracebacks(platform: Platform) -> Promise:
    alarming = platform.tracebacks()
    return Promise("no node logs an unexpected error", platform.size.nodes, alarming)


if __name__ == "__main__":
    main()
