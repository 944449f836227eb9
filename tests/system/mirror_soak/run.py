"""Run the soak of the mirror: inject faults while groups work, then compare the rows with the log and the members.

Run: python -m tests.system.mirror_soak.run [--minutes 60] [--seed 1] [--kinds java,sarama]
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tests.support.go_members import GO_LIBRARIES, GoUnavailable, go_member
from tests.system.mirror_soak.checks import Check, checks
from tests.system.mirror_soak.faults import FAULTS
from tests.system.mirror_soak.groups import KINDS
from tests.system.mirror_soak.platform import Platform, running_platform

PAUSE_BETWEEN_FAULTS_S = (2.0, 15.0)
VIOLATIONS_SHOWN_MAX = 20
UNEXPECTED = ("Traceback", "invariant_violated", "request_failed")
OF_AIOKAFKA = '"event": "Unexpected exception in AIOKafkaConnection"'
"""A connection attempt that aiokafka 0.14 leaves open when it is cancelled, as the garbage collector finds it."""


def main() -> None:
    """Run, print, and exit with 1 if a comparison has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="time of faults (each fault at least once)")
    parser.add_argument("--seed", type=int, default=None, help="of members, faults and times; None: a new one")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of members, each in a group of its own")
    parser.add_argument("--directory", type=Path, default=None, help="of logs and data; kept if it is given or needed")
    options = parser.parse_args()
    seed = Random().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    directory = options.directory or Path(tempfile.mkdtemp(prefix="muster-mirror-soak-"))
    directory.mkdir(parents=True, exist_ok=True)
    found = run(directory, options.kinds.split(","), Random(seed), options.minutes * 60, _print)
    is_violated = any(check.violations for check in found)
    if is_violated:
        print(f"logs and data are in {directory}", flush=True)
    elif options.directory is None:
        shutil.rmtree(directory)
    sys.exit(is_violated)


def run(
    directory: Path, kinds: Sequence[str], random: Random, duration_s: float, report: Callable[[str], object]
) -> list[Check]:
    """Run once.

    Args:
        directory: for data and logs.
        kinds: kinds of members; those that cannot be had are left out, with a line.
        random: determines members, faults and their times.
        duration_s: time of faults; every fault is injected at least once.
        report: called with each line of the report.

    Returns:
        Every comparison, with its violations.

    Raises:
        KafkaUnavailable: the cluster cannot be had.
    """
    with running_platform(directory, _available(directory, kinds, report), random) as platform:
        report("the mirrors have caught up")
        _inject_faults(platform, random, duration_s, report)
        report("the members leave")
        platform.groups.end()
        report(f"members: {_counts(platform)}")
        platform.cluster.wait_until_replicated()
        report("the rows are compared")
        with platform.database() as rows:
            events = platform.members.events()
            found = checks(platform.cluster.bootstrap, rows, events, platform.restart_mirrors)
            found.append(_no_errors(platform))
    for check in found:
        report(f"{'VIOLATED' if check.violations else 'holds':<10}{check.name} ({check.checked} checked)")
        for violation in check.violations[:VIOLATIONS_SHOWN_MAX]:
            report(f"        {violation}")
    return found


def _available(directory: Path, kinds: Sequence[str], report: Callable[[str], object]) -> list[str]:
    """Return the kinds of members that can be had."""
    available = []
    for kind in kinds:
        try:
            if kind in GO_LIBRARIES:
                go_member(directory, kind)
            available.append(kind)
        except GoUnavailable as why:
            report(f"without {kind}: {why}")
    return available


def _inject_faults(platform: Platform, random: Random, duration_s: float, report: Callable[[str], object]) -> None:
    began_s = time.monotonic()
    remaining = random.sample(FAULTS, len(FAULTS))
    while remaining or time.monotonic() - began_s < duration_s:
        platform.work_for(random.uniform(*PAUSE_BETWEEN_FAULTS_S))
        fault = remaining.pop() if remaining else random.choice(FAULTS)
        what = fault(platform, random)
        report(f"{time.monotonic() - began_s:6.1f} s  {what} ({_counts(platform)})")


def _counts(platform: Platform) -> str:
    return ", ".join(f"{count} {what}" for what, count in platform.groups.done.items())


def _no_errors(platform: Platform) -> Check:
    """Check that no mirror has logged an unexpected error."""
    lines = [line for mirror in platform.mirrors for line in mirror.log_text().splitlines()]
    return Check(
        "no mirror logs an unexpected error",
        len(lines),
        [each for each in lines if OF_AIOKAFKA not in each and any(word in each for word in UNEXPECTED)],
    )


def _print(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
