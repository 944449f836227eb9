"""PgBouncer in front of a Postgres server."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from sqlalchemy import make_url

from muster.local.embedded_postgres import HOST
from muster.local.ports import is_free_port
from muster.local.processes import Child, ChildSpec, stop_children
from tests.support.ports import free_port
from tests.support.tools import program
from tests.support.waiting import poll_until

SESSIONS = 100
STOP_S = 5.0


class PoolMode(StrEnum):
    """When PgBouncer takes a session of Postgres away from a client."""

    SESSION = "session"
    TRANSACTION = "transaction"


class Pooler:
    """A PgBouncer, which accepts any password for one database."""

    def __init__(self, directory: Path, database_url: str, mode: PoolMode) -> None:
        """Start it, and wait until it listens; without PgBouncer, skip the test."""
        url = make_url(database_url)
        self._port = free_port()
        self.url = url.set(port=self._port).render_as_string(hide_password=False)
        """The URL of the database by way of PgBouncer."""
        server = f"host={url.host} port={url.port} dbname={url.database} user={url.username} password={url.password}"
        settings = {
            "listen_addr": HOST,
            "listen_port": self._port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": mode,
            "default_pool_size": SESSIONS,
            "max_client_conn": SESSIONS,
        }
        lines = [
            "[databases]",
            f"{url.database} = {server}",
            "[pgbouncer]",
            *(f"{k} = {v}" for k, v in settings.items()),
        ]
        configuration = directory / "pgbouncer.ini"
        configuration.write_text("\n".join(lines))
        account = ("-u", "nobody") if os.geteuid() == 0 else ()
        self._spec = ChildSpec(
            name="pgbouncer",
            argv=(program("pgbouncer"), *account, str(configuration)),
            env={},
            log_file=directory / "pgbouncer.log",
        )
        self.start()

    def start(self) -> None:
        """Start it again after `kill`."""
        self._child = Child(self._spec)
        poll_until(lambda: not is_free_port(HOST, self._port))
        assert self._child.is_alive(), "another process has taken the port"

    def kill(self) -> None:
        """Kill it, with all connections."""
        os.kill(self._child.pid, signal.SIGKILL)
        poll_until(lambda: self._child.exit_code() is not None)

    def stop(self) -> None:
        """Stop it, if it runs."""
        stop_children([self._child], STOP_S)


@contextmanager
def pooled(directory: Path, database_url: str, mode: PoolMode) -> Iterator[Pooler]:
    """Run PgBouncer for the time of a block."""
    pooler = Pooler(directory, database_url, mode)
    try:
        yield pooler
    finally:
        pooler.stop()
