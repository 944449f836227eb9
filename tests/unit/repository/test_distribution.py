"""Texts install Muster from its folder: in package indexes its name is that of another project."""

import re
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT, written

FROM_AN_INDEX: Final = re.compile(r"install[^\n.]*\bmuster\[")
"""A distribution with extras, by its name."""


def test_no_text_installs_muster_by_its_name() -> None:
    texts = {path for path in written(".md", ".py") if path != Path(__file__)}

    assert FROM_AN_INDEX.search('pip install "muster[server]"')
    assert [str(path.relative_to(ROOT)) for path in texts if FROM_AN_INDEX.search(path.read_text())] == []
