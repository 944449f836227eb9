"""Run the short benchmarks, or the named ones, in order; write one JSON file each and print a table.

Run: python -m bench [NAME ...]
"""

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.figures import table
from muster.local.processes import tied_command

NAMES: Final = (
    "heartbeats",
    "commits",
    "rebalance",
    "groups",
    "recovery",
    "scale",
    "ledger",
    "assignors",
    "simulation",
)
LONG: Final = ("jobs", "expiries", "kafka", "bloat", "mirror", "tenants")
"""They take many minutes and run only if named."""
HELP: Final = f"{', '.join(NAMES)}; only if named (many minutes): {', '.join(LONG)}"
RESULTS: Final = Path(__file__).parent / "results"


def main() -> None:
    """Run the benchmarks; exit with 1 if one failed. A missed target is printed and is no failure."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", choices=(*NAMES, *LONG, []), metavar="NAME", help=HELP)
    names = parser.parse_args().names or NAMES
    RESULTS.mkdir(exist_ok=True)
    failed = [name for name in names if not _run(name)]
    done = [json.loads(_file(name).read_text()) for name in names if name not in failed]
    print(f"\n{table(done)}")
    for name in failed:
        print(f"{name} failed")
    sys.exit(bool(failed))


def _run(name: str) -> bool:
    print(f"-- {name}", flush=True)
    command = tied_command([sys.executable, "-m", f"bench.{name}", str(_file(name))], signal.SIGINT)
    with subprocess.Popen(command) as process:
        try:
            return process.wait() == 0
        except KeyboardInterrupt:
            process.wait()  # It stops its servers, and removes their data.
            raise


def _file(name: str) -> Path:
    return RESULTS / f"{name}.json"


if __name__ == "__main__":
    main()
