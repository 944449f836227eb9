"""All benchmarks but the longest, or those that are named, one after the other; a JSON of each, and one table.

Run: python -m bench [NAME ...]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.figures import table

NAMES: Final = ("heartbeats", "commits", "rebalance", "groups", "recovery", "scale", "ledger", "assignors")
LONG: Final = ("jobs", "expiries")
"""These take many minutes, and run only if they are named."""
HELP: Final = f"{', '.join(NAMES)}; and, only if named, because they take many minutes: {', '.join(LONG)}"
RESULTS: Final = Path(__file__).parent / "results"


def main() -> None:
    """Run them; exit with 1 if one broke off. A figure that is not as wanted is told, and breaks nothing."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", choices=(*NAMES, *LONG, []), metavar="NAME", help=HELP)
    names = parser.parse_args().names or NAMES
    RESULTS.mkdir(exist_ok=True)
    broken = [name for name in names if not _run(name)]
    done = [json.loads(_file(name).read_text()) for name in names if name not in broken]
    print(f"\n{table(done)}")
    for name in broken:
        print(f"{name} broke off")
    sys.exit(bool(broken))


def _run(name: str) -> bool:
    print(f"-- {name}", flush=True)
    return subprocess.run([sys.executable, "-m", f"bench.{name}", str(_file(name))], check=False).returncode == 0


def _file(name: str) -> Path:
    return RESULTS / f"{name}.json"


if __name__ == "__main__":
    main()
