"""The embedded Postgres starts as any user, keeps its data after a crash, and requires a password."""

import os
import pwd
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from muster import process_table
from muster.errors import UserError
from muster.local import child_entry, root_drop
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.local.embedded_roles import LOGINS
from muster.local.processes import Child, ChildSpec, RootDrop
from muster.local.root_drop import choose_root_drop
from muster.settings import psql_url
from tests.support.waiting import PATIENCE_S, poll_until

pytestmark = pytest.mark.postgres

FORGETFUL = {"fsync": "off", "full_page_writes": "off"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cluster for all tests of this file; its path is longer than a socket's may be."""
    return tmp_path_factory.mktemp("long-name-" + "x" * 120)


@pytest.fixture
def postgres(home: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(home, options=FORGETFUL) as postgres:
        yield postgres


def run_sql(url: str, statement: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(psql_url(url))
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def test_embedded_server_has_databases_for_groups_and_airflow(postgres: EmbeddedPostgres) -> None:
    assert run_sql(postgres.database_url(), "SELECT current_database()") == [("muster",)]
    assert run_sql(postgres.airflow_url(), "SELECT current_database()") == [("airflow",)]


def test_embedded_server_listens_on_loopback_only(postgres: EmbeddedPostgres) -> None:
    assert run_sql(postgres.database_url(), "SHOW listen_addresses") == [("127.0.0.1",)]
    assert run_sql(postgres.superuser_url("muster"), "SHOW unix_socket_directories") == [("",)]


def test_connection_without_password_is_rejected(postgres: EmbeddedPostgres, home: Path) -> None:
    password = (home / "postgres" / "muster_owner-password").read_text()
    with pytest.raises(psycopg2.OperationalError, match="authentication failed"):
        run_sql(postgres.database_url().replace(password, "guess"), "SELECT 1")


def test_the_password_is_readable_by_its_owner_only(postgres: EmbeddedPostgres, home: Path) -> None:
    secrets = list((home / "postgres").glob("*password"))
    assert len(secrets) == 5
    assert {file.stat().st_mode & 0o777 for file in secrets} == {0o600}
    assert (home / "postgres").stat().st_mode & 0o077 == 0


def test_server_never_runs_as_root(tmp_path: Path) -> None:
    root_drop = choose_root_drop(tmp_path, sys.executable)
    show_user = (sys.executable, "-c", "import os; print(os.geteuid())")
    log = tmp_path / "user.log"
    child = Child(ChildSpec("user", show_user, {}, log, root_drop=root_drop))
    process_table.wait_until_one_ends([child.key], PATIENCE_S)
    assert child.exit_code() == 0
    assert int(log.read_text()) != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root's server has to leave root behind.")
def test_root_server_runs_unprivileged_without_user_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a container. The directories above belong to root, and only root may enter them.
    assert Path(tmp_path.parent).stat().st_mode & 0o077 == 0
    monkeypatch.setattr(root_drop, "can_run", lambda root_drop, _: root_drop is RootDrop.ACCOUNT)
    with EmbeddedPostgres(tmp_path, options=FORGETFUL) as postgres:
        assert run_sql(postgres.database_url(), "SELECT 1") == [(1,)]
        assert postgres.child is not None
        status = Path(f"/proc/{postgres.child.pid}/status").read_text()
    assert f"\nUid:\t{pwd.getpwnam('nobody').pw_uid}\t" in status


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root's server has to leave root behind.")
def test_unprivileged_account_passes_access_checks_below_a_root_only_directory(tmp_path: Path) -> None:
    """`initdb` finds `postgres` with access(2), which ignores capabilities unless a securebit is set."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    tmp_path.chmod(0o700)

    check = f"import os, sys; sys.exit(not os.access({str(program)!r}, os.X_OK))"
    entry = [sys.executable, child_entry.__file__, str(os.getpid()), "9", RootDrop.ACCOUNT, sys.executable, "-c", check]

    assert subprocess.run(entry, check=False).returncode == 0


def test_second_start_uses_the_same_data_and_port(home: Path) -> None:
    with EmbeddedPostgres(home, options=FORGETFUL) as postgres:
        run_sql(postgres.database_url(), "CREATE TABLE kept AS SELECT 42 AS answer")
        url = postgres.database_url()
    with EmbeddedPostgres(home, options=FORGETFUL) as postgres:
        assert run_sql(url, "SELECT answer FROM kept") == [(42,)]
        run_sql(url, "DROP TABLE kept")


def test_after_a_stop_no_process_is_left(home: Path) -> None:
    postgres = EmbeddedPostgres(home, options=FORGETFUL)
    postgres.start()
    assert postgres.child is not None
    server = postgres.child.key
    family = process_table.family_of(server, process_table.all_processes())
    assert family
    postgres.stop()
    assert not any(process_table.is_alive(key) for key in (server, *family))
    assert not postgres.is_alive()


def test_stop_closes_open_connections(postgres: EmbeddedPostgres) -> None:
    connection = psycopg2.connect(psql_url(postgres.database_url()))
    postgres.stop()
    assert not postgres.is_alive()
    connection.close()


def test_killed_server_restarts_with_committed_rows(postgres: EmbeddedPostgres) -> None:
    run_sql(postgres.database_url(), "CREATE TABLE survivor AS SELECT 7 AS answer")
    url = postgres.database_url()
    assert postgres.child is not None
    os.kill(postgres.child.pid, signal.SIGKILL)
    poll_until(lambda: not postgres.is_alive())
    postgres.start()
    assert postgres.database_url() == url
    assert run_sql(url, "SELECT answer FROM survivor") == [(7,)]
    run_sql(url, "DROP TABLE survivor")


def test_pid_file_of_a_foreign_process_does_not_stop_a_start(home: Path) -> None:
    with EmbeddedPostgres(home, options=FORGETFUL) as postgres:
        url = postgres.database_url()
    with subprocess.Popen(["sleep", "1000"]) as foreign_process:
        try:
            (home / "postgres" / "data" / "postmaster.pid").write_text(f"{foreign_process.pid}\n")
            with EmbeddedPostgres(home, options=FORGETFUL):
                assert run_sql(url, "SELECT 1") == [(1,)]
        finally:
            foreign_process.kill()


@pytest.mark.parametrize("content", ["", "\0\0\0\0"])
def test_files_that_a_crash_of_the_machine_left_without_content_do_not_stop_a_start(home: Path, content: str) -> None:
    with EmbeddedPostgres(home, options=FORGETFUL):
        pass
    passwords = [f"{role}-password" for role in LOGINS]
    for name in ("port", "children.json", "data/postmaster.pid", *passwords):
        (home / "postgres" / name).write_text(content)
    with EmbeddedPostgres(home, options=FORGETFUL) as postgres:
        assert run_sql(postgres.database_url(), "SELECT 1") == [(1,)]


def test_foreign_server_is_left_running(postgres: EmbeddedPostgres, home: Path) -> None:
    (home / "postgres" / "children.json").unlink()
    with pytest.raises(UserError, match=r'lock file "postmaster\.pid" already exists'):
        EmbeddedPostgres(home, options=FORGETFUL).start()
    assert run_sql(postgres.database_url(), "SELECT 1") == [(1,)]


def test_another_port_is_chosen_if_the_former_one_is_in_use(home: Path) -> None:
    with EmbeddedPostgres(home, options=FORGETFUL) as postgres:
        last = postgres.port
    with socket.create_server(("127.0.0.1", last)), EmbeddedPostgres(home, options=FORGETFUL) as postgres:
        assert postgres.port != last


def test_requested_port_in_use_is_rejected_in_one_sentence(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UserError, match=f"^Port {port} is taken; .*MUSTER_POSTGRES_PORT"):
            EmbeddedPostgres(home, port=port, options=FORGETFUL).start()


def test_aborted_start_leaves_no_process(home: Path) -> None:
    class Impatient(Exception):
        pass

    def release_shards() -> None:
        raise Impatient

    postgres = EmbeddedPostgres(home, options=FORGETFUL)
    with pytest.raises(Impatient):
        postgres.start(on_wait=release_shards)
    assert postgres.child is None


def test_invalid_data_directory_is_rejected_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"is not a directory; choose another one with --data-dir\.$"):
        EmbeddedPostgres(tmp_path / "file").start()


def test_setting_rejected_by_postgres_is_reported_in_its_words(home: Path) -> None:
    with pytest.raises(UserError, match=r"Postgres did not start: .*shared_buffers"):
        EmbeddedPostgres(home, options={"shared_buffers": "many"}).start()
