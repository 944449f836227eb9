"""Every `match` in the core names the cases that it ignores, so that mypy reports new ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.repository import ROOT, written

CORE = [path for path in written(".py") if path.is_relative_to(ROOT / "coordinator_core")]


def silent_ends(source: str) -> Iterator[int]:
    """Yield the line of each `case _:` that does nothing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.match_case) and ast.unparse(node.pattern) == "_" and isinstance(node.body[0], ast.Pass):
            yield node.body[0].lineno


def test_no_match_in_the_core_ignores_remaining_cases() -> None:
    assert CORE
    assert [f"{path.relative_to(ROOT)}:{line}" for path in CORE for line in silent_ends(path.read_text())] == []
