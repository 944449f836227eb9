"""The audit of the locked packages, and their bill of materials."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import audit
from scripts.bootstrap import lock_entries
from tests.support.repository import ROOT

SOUND: dict[str, Any] = {"name": "sound", "version": "1.0", "vulns": []}
SKIPPED: dict[str, Any] = {"name": "unknown", "skip_reason": "not found"}
VULNERABLE: dict[str, Any] = {
    "name": "bad",
    "version": "2.0",
    "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}, {"id": "CVE-2", "fix_versions": []}],
}
FOUND = ["bad 2.0: CVE-1, fixed in 2.1", "bad 2.0: CVE-2, fixed in no version"]


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ([SOUND], 0, ["audit: no known vulnerability in 1 packages."]),
        ([SOUND, VULNERABLE], audit.VULNERABLE, FOUND),
        ([VULNERABLE, SKIPPED], audit.VULNERABLE, [*FOUND, "does not know 1 of 2 packages"]),
        ([SOUND, SKIPPED], audit.UNAVAILABLE, ["does not know 1 of 2 packages"]),
        ([], audit.UNAVAILABLE, ["the advisory service cannot be reached"]),
    ],
)
def test_audit_reports_what_is_known(packages: list[dict[str, Any]], status: int, said: list[str]) -> None:
    found, lines = audit.verdict(packages)
    assert found == status
    assert [expected in line for expected, line in zip(said, lines, strict=True)] == [True] * len(said)


def test_audit_that_cannot_begin_reports_the_reason() -> None:
    audit_nothing = "from scripts import audit; audit.LOCK = '/nothing'; raise SystemExit(audit.main())"
    run = subprocess.run([sys.executable, "-c", audit_nothing], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == audit.UNAVAILABLE
    assert "/nothing" in run.stderr


def test_bill_of_materials_has_every_locked_package(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    subprocess.run(["make", "sbom", f"SBOM={file}"], cwd=ROOT, check=True, capture_output=True)
    bill = json.loads(file.read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "muster")
    locked = {entry.split()[0] for entry in lock_entries((ROOT / "requirements.lock").read_text())}
    assert {f"{each['name']}=={each['version']}" for each in bill["components"]} == locked
