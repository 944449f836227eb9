"""With a full disk of tables nothing answered is lost; nodes go on by themselves when there is space again."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest
import urllib3

from muster.local.embedded_postgres import EmbeddedPostgres
from muster.settings import psql_url
from tests.support.waiting import PATIENCE_S
from tests.system.chaos.invariants import check_invariants
from tests.system.chaos.journal import read_journals
from tests.system.chaos.link import HOST
from tests.system.chaos.platform import DURABLE, Platform, Size, running
from tests.system.chaos.run import wait_until_all_commit

SMALL = Size(nodes=2, agents=12, members=6, processes=1, lease_ttl_ms=2_000)
DISK_BYTES = 64 * 1024 * 1024
FULL = "the disk of the database is full"
COMMIT = {"generation": -1, "member_id": "", "offsets": [{"topic": "t", "partition": 0, "offset": 1}]}
FAILURES_A_LOG_LINE = 5

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def test_full_disk_of_tables_loses_nothing_and_nodes_go_on_when_there_is_space(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, EmbeddedPostgres(tmp_path / "database", options=DURABLE) as postgres:
        move_database(postgres, disk)
        platform = Platform(tmp_path, SMALL, postgres)
        with running(platform):
            wait_until_all_commit(platform, time.monotonic())
            fill(disk / "filler")
            platform.wait_for(lambda: f"writes fail: {FULL}" in platform.reasons(), "a reason in /readyz")
            platform.wait_for(lambda: is_commit_refused(platform), "a refused commit")
            platform.wait_for(lambda: are_failures_logged_once(platform), "failures that are not logged again")
            (disk / "filler").unlink()
            freed_s = time.monotonic()
            platform.wait_for(platform.are_nodes_ready, "every node's readiness")
            wait_until_all_commit(platform, freed_s)
            platform.stop_agents()
            with closing(psycopg2.connect(psql_url(postgres.database_url()))) as connection:
                invariants = check_invariants(read_journals(tmp_path), connection)
    assert [invariant for invariant in invariants if invariant.violations] == []
    assert all(invariant.checked for invariant in invariants)
    assert platform.unexpected_errors() == []


def is_commit_refused(platform: Platform) -> bool:
    """Return whether a commit is refused for the full disk; some bytes may still find room in a page."""
    url = f"http://{HOST}:{platform.node_ports[0]}/v1/groups/simple/offsets"
    answer = urllib3.request("POST", url, json=COMMIT, timeout=PATIENCE_S, retries=False)
    if answer.status == 200:
        return False
    assert answer.status == 503
    refusal = answer.json()
    assert refusal["action"] == "retry"
    return FULL in refusal["detail"]


def are_failures_logged_once(platform: Platform) -> bool:
    """Return whether a node's writes have failed many times for each line that its log has about them."""
    for number, port in enumerate(platform.node_ports):
        metrics = urllib3.request("GET", f"http://{HOST}:{port}/metrics", timeout=PATIENCE_S).data.decode()
        failed = float(re.findall(r"^muster_batches_failed_total (\S+)", metrics, re.MULTILINE)[0])
        log = (platform.directory / f"node-{number}.log").read_text()
        lines = sum(log.count(f'"event": "{event}"') for event in ("batch_failed", "shard_unloaded", "shards_acquired"))
        if failed > FAILURES_A_LOG_LINE * lines:
            return True
    return False


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """Mount a file system of few bytes, or skip the test."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "muster-chaos", str(directory)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system, which is to be full")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def move_database(postgres: EmbeddedPostgres, disk: Path) -> None:
    """Move the database `muster`, with its catalogs, to a tablespace on this file system; the log stays where it is."""
    place = disk / "tablespace"
    place.mkdir(mode=0o700)
    with closing(psycopg2.connect(psql_url(postgres.superuser_url("postgres")))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
            cursor.execute("ALTER DATABASE muster SET TABLESPACE small")


def fill(path: Path) -> None:
    """Write a file that takes all the space that is left."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return
