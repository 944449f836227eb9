"""Markers from the fixtures that tests use, the order of files (the longest first), and which files share a process."""

from collections.abc import Iterable
from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

MARKERS_OF_FIXTURES: Final = {
    "databases": ("postgres",),
    "spark": ("jvm",),
    "warm_spark": ("jvm",),
    "kafka": ("jvm",),
    "airflow": ("airflow", "jvm"),
    "browser": ("browser",),
}

QUICK_IN_A_BROWSER: Final = "tests/integration/console/test_operator_tasks.py"
"""The tests in a browser that `make test` runs: all others are slow, since they would take a third of its time."""

LONGEST_FIRST: Final = (
    "tests/integration/spark/archive/test_reports_of_archived_days.py",
    "tests/system/e2e/test_local_mirror.py",
    "tests/system/conformance/test_over_http.py",
    "tests/integration/console/test_operator_tasks.py",
    "tests/integration/airflow/test_provider_services.py",
    "tests/system/e2e/test_local_platform.py",
    "tests/system/conformance/test_over_kafka.py",
    "tests/integration/cli/test_documented_commands.py",
    "tests/integration/bench/test_benchmarks.py",
    "tests/integration/cli/test_up.py",
    "tests/system/mirror_soak/test_soak.py",
    "tests/system/simulation/test_mutations.py",
    "tests/integration/cli/test_error_messages.py",
    "tests/system/kafka_faults/test_faults.py",
    "tests/system/e2e/stories/test_static_members.py",
    "tests/system/chaos/test_chaos.py",
    "tests/system/chaos/test_promotion.py",
    "tests/integration/postgres/test_failover.py",
    "tests/system/e2e/stories/test_rebalance_triggers.py",
    "tests/integration/kafka/test_clients.py",
    "tests/integration/bench/test_kafka_benchmark.py",
    "tests/integration/kafka/test_consumer_groups_tool.py",
)
"""The slowest files, and the first of each system, in the order of their measured time: short files run last."""

SHARED_SYSTEMS: Final = {
    "tests/integration/spark/": "spark",
    "tests/system/e2e/sick_groups/test_reported_numbers.py": "spark",
    "tests/integration/airflow/": "airflow",
    "tests/integration/console/": "browser",
    "tests/integration/mirror/": "kafka",
    "tests/system/e2e/test_local_mirror.py": "kafka",
}
"""Files and folders whose tests run in one process, so that their Spark, Airflow, browser or Kafka is started once."""


class SharingSchedule(LoadFileScheduling):  # type: ignore[misc]  # without types
    """Gives a process all tests of one file, or of the files that share a system."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """Return what runs in one process with a test: its file, or the system that several files share."""
    path = nodeid.partition("::")[0]
    return next((system for start, system in SHARED_SYSTEMS.items() if path.startswith(start)), path)


def mark_by_fixtures(items: Iterable[pytest.Item]) -> None:
    """Mark each test by the systems that its fixtures start, and those in a browser as slow."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for fixture, markers in MARKERS_OF_FIXTURES.items():
            if fixture in fixtures:
                for marker in markers:
                    item.add_marker(marker)
        if "browser" in fixtures and item.location[0] != QUICK_IN_A_BROWSER:
            item.add_marker("slow")


def put_longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the rank of their file; the order within a file stays."""
    ranks = {path: rank for rank, path in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.location[0], len(ranks)))
