"""Limits of file and function lengths; CONTRIBUTING.md describes every folder of tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT, written

FILE_LINES: Final = 600
FUNCTION_LINES: Final = 70

CODE = written(".py", ".js", ".css", ".html", ".sql", ".sh")


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each function of a file of Python, and how many lines it takes, decorators and docstring included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(part.lineno for part in (node, *node.decorator_list))
            yield node.name, (node.end_lineno or first) - first + 1


def test_no_file_is_longer_than_600_lines() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in CODE}

    assert lengths
    assert {str(path): lines for path, lines in lengths.items() if lines > FILE_LINES} == {}


def test_no_function_is_longer_than_70_lines() -> None:
    lengths = {(path.name, name): lines for path in written(".py") for name, lines in functions(path)}

    assert lengths
    assert {function: lines for function, lines in lengths.items() if lines > FUNCTION_LINES} == {}


def test_every_test_folder_is_described_in_contributing() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## Tests")[1].split("\n## ")[0]
    places = {path.parent.relative_to(ROOT / "tests").parts for path in (ROOT / "tests").rglob("test_*.py")}
    folders = {"/".join(place[: 1 if place[0] == "unit" else 2]) for place in places}

    assert {folder for folder in folders if f"`tests/{folder}`" not in section} == set()
