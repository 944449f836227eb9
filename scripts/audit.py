"""Look up the locked packages in PyPI's advisories; exits with 1 for a known vulnerability, with 3 if it cannot."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

LOCK: Final = Path(__file__).resolve().parent.parent / "requirements.lock"
VULNERABLE: Final = 1
UNAVAILABLE: Final = 3

Package = Mapping[str, Any]
"""A package as pip-audit reports it."""


def main() -> int:
    """Audit requirements.lock, print what was found, and return the exit status."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    found = subprocess.run([*command, "--format", "json", "-r", str(LOCK)], capture_output=True, text=True, check=False)
    try:
        packages: Sequence[Package] = json.loads(found.stdout)["dependencies"]
    except ValueError:
        packages = ()
        print(*found.stderr.strip().splitlines()[-1:], sep="\n", file=sys.stderr)  # the reason, if it gives one
    status, sentences = verdict(packages)
    print(*sentences, sep="\n", file=sys.stderr if status else sys.stdout)
    return status


def verdict(packages: Sequence[Package]) -> tuple[int, list[str]]:
    """Return the exit status and what to print: one line for each vulnerability, or one sentence.

    Args:
        packages: the report of pip-audit; empty if it made none.
    """
    vulnerable = [(each, fault) for each in packages for fault in each.get("vulns", ())]
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    lines = [_line(package, fault) for package, fault in vulnerable]
    if skipped or not packages:
        named = f"{len(skipped)} of {len(packages)} packages" if packages else "any package"
        lines.append(f"audit: the advisory service cannot be reached, or does not know {named}: these are not audited.")
    if vulnerable:
        return VULNERABLE, lines
    if lines:
        return UNAVAILABLE, lines
    return 0, [f"audit: no known vulnerability in {len(packages)} packages."]


def _line(package: Package, fault: Mapping[str, Any]) -> str:
    fixed_in = ", ".join(fault["fix_versions"]) or "no version"
    return f"{package['name']} {package['version']}: {fault['id']}, fixed in {fixed_in}"


if __name__ == "__main__":
    sys.exit(main())
