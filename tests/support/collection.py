"""Markers from the fixtures that tests use, and the order of files: the longest first."""

from collections.abc import Iterable
from typing import Final

import pytest

MARKERS_OF_FIXTURES: Final = {
    "databases": ("postgres",),
    "spark": ("jvm",),
    "kafka": ("jvm",),
    "airflow": ("airflow", "jvm"),
    "browser": ("browser",),
}

LONGEST_FIRST: Final = (
    "tests/system/e2e/test_local_platform.py",
    "tests/system/conformance/test_over_http.py",
    "tests/integration/spark/archive/test_reports_of_archived_days.py",
    "tests/integration/spark/test_rebalance_frequency_job.py",
    "tests/integration/spark/archive/test_archive_kill.py",
    "tests/integration/spark/archive/test_history_restore.py",
    "tests/integration/spark/test_timeout_advice.py",
    "tests/integration/cli/test_documented_commands.py",
    "tests/integration/spark/archive/test_history_archive.py",
    "tests/integration/airflow/test_proposal_dags.py",
    "tests/integration/cli/test_up.py",
    "tests/integration/cli/test_error_messages.py",
    "tests/system/simulation/test_mutations.py",
    "tests/system/simulation/test_failovers.py",
    "tests/system/simulation/test_seeds.py",
    "tests/system/e2e/stories/test_static_members.py",
)
"""The slowest files in the order of their measured time; if short files run last, no process is idle."""


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
