"""Nodes of the last release and of this checkout serve one database, and replace each other while agents consume."""

import importlib.metadata
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from muster.node.schema import upgrade
from tests.support.releases import Release, last_release
from tests.system.chaos.invariants import check_invariants
from tests.system.chaos.journal import Event, OffsetsFetched, read_journals
from tests.system.chaos.platform import Platform, Size, running_platform
from tests.system.chaos.run import wait_until_all_commit

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SIZE = Size(nodes=3, agents=12, members=4, processes=2, lease_ttl_ms=2_000)
REBALANCES = "SELECT count(*) FROM rebalances"
VERSIONS = "SELECT count(*), count(DISTINCT version) FROM nodes WHERE expires_at > clock_timestamp()"


@pytest.fixture
def release() -> Release:
    found = last_release()
    if found is None:
        pytest.skip("this checkout's history has no release: no tag v*, and no commit 'Release <version>'")
    return found


@pytest.fixture
def old_root(release: Release, tmp_path: Path) -> Path:
    directory = tmp_path / "release"
    directory.mkdir()
    return release.extract(directory)


@pytest.fixture
def platform(old_root: Path, tmp_path: Path) -> Iterator[Platform]:
    """Run a platform whose schema and nodes are the last release's, with this checkout's agents."""
    directory = tmp_path / "platform"
    directory.mkdir()
    with running_platform(directory, SIZE, old_root) as platform:
        wait_until_all_commit(platform, time.monotonic())
        yield platform


def test_nodes_are_replaced_one_by_one_and_back(platform: Platform, release: Release, old_root: Path) -> None:
    mixed = (3, len({release.version, importlib.metadata.version("muster")}))
    rebalances = ask(platform, REBALANCES)
    upgrade(platform.postgres.database_url())

    stops = [stop_old(platform, 0)]
    wait_until_all_commit(platform, time.monotonic())
    assert ask(platform, VERSIONS) == mixed

    node = platform.node(1)
    assert node is not None
    os.kill(node.pid, signal.SIGKILL)  # It starts again, as the last release, on the newest schema.
    platform.run_for(SIZE.lease_ttl_ms / 1000)
    platform.wait_for(lambda: ask(platform, VERSIONS) == mixed, "three live nodes of both releases")
    wait_until_all_commit(platform, time.monotonic())

    stops += [stop_old(platform, 1), stop_old(platform, 2)]
    wait_until_all_commit(platform, time.monotonic())
    assert ask(platform, VERSIONS) == (3, 1)

    platform.replace_node(2, root=old_root)
    wait_until_all_commit(platform, time.monotonic())
    assert ask(platform, VERSIONS) == mixed

    assert ask(platform, REBALANCES) == rebalances, "a group rebalanced"
    platform.stop_agents()
    events = read_journals(platform.directory)
    if release.version == "0.1.0":
        events = without_fetches_during(stops, events)
    with platform.database() as connection:
        found = check_invariants(events, connection)
    assert [invariant for invariant in found if invariant.violations] == []
    assert platform.unexpected_errors() == []


def stop_old(platform: Platform, number: int) -> tuple[float, float]:
    """Replace a node of the last release by one of this checkout; return when that began and ended."""
    began_s = time.monotonic()
    platform.replace_node(number, root=None)
    return began_s, time.monotonic()


def without_fetches_during(stops: Sequence[tuple[float, float]], events: Iterable[Event]) -> list[Event]:
    """Return the events without fetches while a node of 0.1.0 stopped: it may not return its newest commits then."""
    return [
        event
        for event in events
        if not isinstance(event, OffsetsFetched)
        or all(event.at_s < began_s or event.began_s > ended_s for began_s, ended_s in stops)
    ]


def ask(platform: Platform, query: str) -> tuple[int, ...]:
    with platform.database() as connection, connection.cursor() as cursor:
        cursor.execute(query)
        (row,) = cursor.fetchall()
        return tuple(row)
