"""Markers from the fixtures that tests use, and the order of files: the longest first."""

from collections.abc import Iterable
from typing import Final

import pytest

MARKERS_OF_FIXTURES: Final = {
    "databases": ("postgres",),
    "spark": ("jvm",),
    "airflow": ("airflow", "jvm"),
    "browser": ("browser",),
}

LONGEST_FIRST: Final[tuple[str, ...]] = ()
"""Files that take longest, in the order of their measured time; a short file that runs last leaves no process idle."""


def mark_by_fixtures(items: Iterable[pytest.Item]) -> None:
    """Mark each test by the systems that its fixtures start."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for fixture, markers in MARKERS_OF_FIXTURES.items():
            if fixture in fixtures:
                for marker in markers:
                    item.add_marker(marker)


def put_longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the rank of their file; the order within a file stays."""
    ranks = {path: rank for rank, path in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.location[0], len(ranks)))
