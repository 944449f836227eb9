"""A `muster mirror` process, which tests kill and start again."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import psycopg2
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name

from muster.local.processes import Child, ChildSpec, stop_children
from muster.settings import ENVIRONMENT_PREFIX, psql_url
from tests.support.ports import free_port
from tests.support.waiting import poll_until

QUICK: Final = {
    "MUSTER_LEASE_TTL_MS": "1000",
    "MUSTER_MIRROR_POLL_INTERVAL_MS": "200",
    "MUSTER_OFFSETS_CHECKPOINT_INTERVAL_MS": "200",
}
PARTITIONS: Final = 4
"""Partitions of `__consumer_offsets` in the clusters of tests."""
STOP_S: Final = 10.0


class MirrorProcess:
    """A mirror; it is started when it is made."""

    def __init__(self, bootstrap: str, database_url: str, directory: Path, name: str = "mirror") -> None:
        argv = (sys.executable, "-m", "muster", "mirror", f"--bootstrap={bootstrap}", f"--port={free_port()}")
        own = {"MUSTER_DATABASE_URL": psql_url(database_url), "MUSTER_DATA_DIR": str(directory), **QUICK}
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(ENVIRONMENT_PREFIX)}
        self.spec: Final = ChildSpec(name, argv, inherited | own, directory / f"{name}.log")
        self.child = Child(self.spec)

    def log_text(self) -> str:
        """Return what it has logged."""
        return self.spec.log_file.read_text() if self.spec.log_file.exists() else ""

    def times_reached(self) -> int:
        """Return how often it has begun to follow the cluster."""
        return self.log_text().count("mirrored_cluster_reached")

    def kill(self) -> None:
        """Kill it as if the machine had failed, and start it again."""
        os.kill(self.child.pid, signal.SIGKILL)
        poll_until(lambda: self.child.exit_code() is not None)
        self.restart()

    def restart(self) -> None:
        """Start it again, unless it runs."""
        if self.child.exit_code() is not None:
            self.child = Child(self.spec)

    def stop(self) -> None:
        """Stop it, if it runs."""
        stop_children([self.child], STOP_S)


@contextmanager
def running_mirror(
    bootstrap: str, database_url: str, directory: Path, partitions: int = PARTITIONS
) -> Iterator[tuple[MirrorProcess, Connection]]:
    """Run a mirror until the block ends; yield it, and a connection to its database, when its first read is over."""
    mirror = MirrorProcess(bootstrap, database_url, directory)
    try:
        poll_until(lambda: mirror.times_reached() or not mirror.child.is_alive())
        assert mirror.child.is_alive(), mirror.log_text()[-2000:]
        with closing(psycopg2.connect(psql_url(database_url))) as rows:
            rows.autocommit = True
            poll_until(lambda: partitions_read(rows) == partitions)
            yield mirror, rows
    finally:
        mirror.stop()


def partitions_read(rows: Connection) -> int:
    """Return of how many partitions the first read is over: what comes later is history."""
    with rows.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM mirror_positions")
        return int(cursor.fetchall()[0][0])
