"""docs/simulation.md lists exactly the invariants that the simulation checks."""

import re
from pathlib import Path

from tests.support.repository import ROOT

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "simulation.md"
NAME = r"[A-Z][A-Za-z]+"


def test_the_page_lists_every_invariant_and_no_other() -> None:
    code = "\n".join(path.read_text() for path in sorted(HERE.glob("*.py")) if not path.name.startswith("test_"))
    checked = set(re.findall(rf"fail\(\s*\"({NAME})\"", code)) | {"StoredBeforeReply"}
    table = PAGE.read_text().split("## Invariants")[1].split("## Faults")[0]
    first_cells = re.findall(r"^\| (`.*?`) \|", table, flags=re.MULTILINE)
    assert set(re.findall(rf"`({NAME})`", " ".join(first_cells))) == checked
