"""A failed command prints one sentence on stderr and exits with a code, without a traceback."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import make_url

from muster.data_dir import DatabaseUrls, DataDir
from muster.settings import ENVIRONMENT_PREFIX
from tests.support.fake_node import FakeNode
from tests.support.http_client import Json
from tests.support.muster_command import Muster
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S


def muster(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in an environment with the given settings only."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    return subprocess.run(
        [sys.executable, "-m", "muster", *arguments],
        env={**ours, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def complaint(ran: subprocess.CompletedProcess[str], exit_code: int) -> str:
    """Return the one sentence that a failed command has printed."""
    assert ran.returncode == exit_code, ran.stderr
    (line,) = ran.stderr.splitlines()
    assert line.startswith("muster: ")
    return line.removeprefix("muster: ")


def test_help_lists_the_commands() -> None:
    ran = muster()
    assert "database-url" in ran.stdout
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fly"], "No such command 'fly'."),
        (["serve", "--port", "x"], "Invalid value for '--port'"),
        (["up", "--port", "0"], "Invalid value for '--port'"),
        (["job"], "Missing argument"),
        (["token", "new", "--actor", "ada"], "Missing option '--role'. Choose from: agent, viewer, operator"),
    ],
)
def test_usage_error_is_one_sentence(arguments: list[str], words: str) -> None:
    assert words in complaint(muster(*arguments), 2)


def test_invalid_setting_is_reported_in_one_sentence() -> None:
    assert complaint(muster("serve", MUSTER_SHARDS="0"), 2) == ("MUSTER_SHARDS should be greater than or equal to 1.")


@pytest.mark.parametrize(
    "command", ["migrate", "serve", "tokens list", "changes export", "offset-log dump", "sql SELECT"]
)
def test_unreachable_database_is_reported_in_one_sentence(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url = f"postgresql://muster:hunter2@127.0.0.1:{port}/muster"
    said = complaint(muster(*command.split(), MUSTER_DATABASE_URL=url, MUSTER_HTTP_PORT=str(free_port())), 3)
    assert said.startswith("The database does not answer: ")
    assert said.endswith("; start it, or correct MUSTER_DATABASE_URL.")
    assert "hunter2" not in said


DATABASE_COMMANDS = ("migrate", "tokens list", "changes export", "offset-log dump", "sql SELECT")


@pytest.mark.parametrize("command", DATABASE_COMMANDS)
@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"password": "hunter2"}, "The database refuses: .* authentication failed .*; correct MUSTER_DATABASE_URL."),
        ({"database": "nodb"}, 'The database refuses: .* "nodb" does not exist; correct MUSTER_DATABASE_URL.'),
    ],
)
def test_refused_login_is_no_missing_answer(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch, command: str, part: Json, said: str
) -> None:
    url = make_url(database_url).set(**part).render_as_string(hide_password=False)
    monkeypatch.setenv("MUSTER_DATABASE_URL", url)
    assert re.fullmatch(said, bare_muster.refused(1, *command.split()))


@pytest.mark.parametrize("command", DATABASE_COMMANDS)
def test_value_of_the_url_that_the_client_library_refuses_is_a_usage_error(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", f"{database_url}?sslmode=maybe")
    assert bare_muster.refused(2, *command.split()) == 'MUSTER_DATABASE_URL: invalid sslmode value: "maybe".'


@pytest.mark.parametrize("command", DATABASE_COMMANDS[:-1])
def test_missing_permission_is_reported_in_one_sentence(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", f"{database_url}?options=-crole%3Dpg_monitor")
    said = bare_muster.refused(1, *command.split())
    assert said.startswith("The database refuses: permission denied for table ")


def in_shell(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in which "$@" is the command with these arguments."""
    words = ["sh", "-c", script, "sh", sys.executable, "-m", "muster", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["version"], ["groups", "--help"]])
def test_output_to_a_full_disk_is_one_sentence(tmp_path: Path, arguments: list[str]) -> None:
    # A file size limit simulates a full disk.
    ran = in_shell(f"ulimit -f 0; exec \"$@\" > '{tmp_path}/output'", *arguments)
    assert complaint(ran, 1) == "The output cannot be written (File too large)."


def test_long_output_on_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    groups = [{"group_id": f"group-{number}"} for number in range(1_000)]
    with closing(FakeNode()) as node:
        node.says(200, {"groups": groups, "next_cursor": None})
        listing = ("groups", "list", "--json", "--url", node.url)
        ran = in_shell(f"ulimit -f 0; exec \"$@\" > '{tmp_path}/output'", *listing)
    assert complaint(ran, 1) == "The output cannot be written (File too large)."


def test_command_completes_if_its_output_is_closed() -> None:
    with closing(FakeNode()) as node:
        node.says(200, {"groups": [], "next_cursor": None})
        ran = in_shell('exec "$@" >&- <&-', "groups", "list", "--url", node.url)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert node.seen[0][0].startswith("/v1/groups?")


def test_file_on_a_full_disk_is_named(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    ran = in_shell(f"ulimit -f 0; exec \"$@\" --data-dir '{data_dir}'", "up", "--no-airflow")
    assert str(data_dir) in complaint(ran, 1)


@pytest.mark.parametrize("size", ["2m", "20m", "39m"])
def test_full_disk_is_named_however_far_the_first_start_gets(tmp_path: Path, size: str) -> None:
    """With 20 MB a part of a block is written; with 39 MB the server starts, and has no space for its databases."""
    mount = f"mount -t tmpfs -o size={size} tmpfs '{tmp_path}'"
    if subprocess.run(["unshare", "--mount", "sh", "-c", mount], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a file system")
    words = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-m", "muster", "migrate"]
    environment = {**os.environ, "MUSTER_MIN_FREE_DISK_MB": "0", "MUSTER_DATA_DIR": str(tmp_path / "data")}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert complaint(ran, 1) == f"The disk of {tmp_path}/data/postgres is full; make room and start again."


def test_traceback_of_an_unexpected_error_is_in_the_data_directory(tmp_path: Path) -> None:
    data_dir = tmp_path / "not" / "yet"
    with closing(FakeNode()) as node:
        node.says(200, {"groups": [[]], "next_cursor": None})
        ran = muster("groups", "list", "--url", node.url, MUSTER_DATA_DIR=str(data_dir))
    file = data_dir / "crash.log"
    said = complaint(ran, 1)
    assert said.startswith("Unexpected error (TypeError: list indices must be ")
    assert said.endswith(f"; the traceback is in {file}.")
    assert "TypeError" in file.read_text()


def test_a_command_that_is_interrupted_exits_as_the_shell_expects(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        command = [sys.executable, "-m", "muster", "groups", "list", "--url", url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            asked, _ = server.accept()
            with asked:
                asked.recv(1)  # The command waits for the response now.
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (130, "")


@pytest.mark.parametrize("command", [["serve"], ["mirror", "--bootstrap", "127.0.0.1:1"]])
def test_ctrl_c_ends_a_node_that_starts_as_it_ends_one_that_serves(command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgresql://ada@127.0.0.1:{server.getsockname()[1]}/muster"
        environment = {**os.environ, "MUSTER_DATABASE_URL": url}
        arguments = [sys.executable, "-m", "muster", *command, "--port", str(free_port())]
        with subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, text=True) as process:
            asked, _ = server.accept()
            with asked:
                process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, "")


def test_database_url_is_unknown_if_nothing_runs_in_the_directory(tmp_path: Path) -> None:
    assert complaint(muster("database-url", "--data-dir", str(tmp_path)), 1).startswith(f"Nothing runs in {tmp_path};")


def test_the_url_of_a_named_database_is_printed_as_psql_reads_it() -> None:
    ran = muster("database-url", MUSTER_DATABASE_URL="postgresql+psycopg2://muster:hunter2@db/muster")
    assert ran.stdout == "postgresql://muster:hunter2@db/muster\n"


def test_the_url_in_use_opens_the_database_of_the_run(tmp_path: Path, database_url: str) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.create()
    with data_dir.locked("up") as lock:
        said = complaint(muster("database-url", "--data-dir", str(tmp_path)), 3)
        assert said == f"muster up (pid {os.getpid()}) is still starting its database; try again in a moment."
        lock.publish_database_urls(
            DatabaseUrls(database_url, "postgresql+psycopg2://jobs@db/muster", "postgresql://reader@db/muster")
        )
        url = muster("database-url", "--data-dir", str(tmp_path)).stdout.strip()
        jobs = muster("database-url", "--role", "jobs", "--data-dir", str(tmp_path)).stdout
        reader = muster("database-url", "--role", "reader", "--data-dir", str(tmp_path)).stdout
    assert (jobs, reader) == ("postgresql://jobs@db/muster\n", "postgresql://reader@db/muster\n")
    psycopg2.connect(url).close()


def test_a_directory_in_use_is_refused_to_a_second_run(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.create()
    with data_dir.locked("serve"):
        for command in (["up", "--no-airflow"], ["serve"]):
            said = complaint(muster(*command, "--data-dir", str(tmp_path)), 1)
            assert said.startswith(f"muster serve (pid {os.getpid()}) is using {tmp_path};")


def test_full_disk_is_rejected_before_start(tmp_path: Path) -> None:
    ran = muster("up", "--no-airflow", "--data-dir", str(tmp_path), MUSTER_MIN_FREE_DISK_MB="1000000000")
    assert complaint(ran, 1).startswith(f"The disk of {tmp_path} has ")
    assert not (tmp_path / "postgres").exists()


def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for command in (["up", "--no-airflow"], ["serve"]):
            said = complaint(muster(*command, "--port", str(port), "--data-dir", str(tmp_path)), 1)
            assert said.startswith(f"Port {port} on 127.0.0.1 is taken by ")
    assert not (tmp_path / "postgres").exists()


def test_up_does_not_use_a_foreign_database(tmp_path: Path) -> None:
    ran = muster("up", "--data-dir", str(tmp_path), MUSTER_DATABASE_URL="postgresql://db/muster")
    assert "unset MUSTER_DATABASE_URL" in complaint(ran, 1)


def test_a_database_is_migrated_once(empty_database_url: str) -> None:
    first, second = (muster("migrate", MUSTER_DATABASE_URL=empty_database_url).stdout for _ in range(2))
    assert "now (was empty)" in first
    assert second.endswith(" already.\n")


def test_new_database_gets_the_requested_number_of_shards(empty_database_url: str) -> None:
    muster("migrate", MUSTER_DATABASE_URL=empty_database_url, MUSTER_SHARDS="7")
    with psycopg2.connect(empty_database_url.replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT shard_count FROM versions")
        assert cursor.fetchone() == (7,)
    connection.close()


@pytest.mark.parametrize("command", ["migrate", "serve"])
def test_incompatible_schema_of_a_newer_release_is_rejected(database_url: str, command: str) -> None:
    with psycopg2.connect(database_url.replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE alembic_version SET version_num = '9999'")
        cursor.execute("UPDATE versions SET oldest_compatible_schema = '9998'")
    connection.close()
    said = complaint(muster(command, MUSTER_DATABASE_URL=database_url, MUSTER_HTTP_PORT=str(free_port())), 1)
    assert said.startswith("The database has schema 9999 and this program needs ")
    assert said.endswith(": use a newer program.")


def test_compatible_schema_of_a_newer_release_is_not_migrated(database_url: str) -> None:
    with psycopg2.connect(database_url.replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    ran = muster("migrate", MUSTER_DATABASE_URL=database_url)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("The schema is 9999, newer than this program's ")


@pytest.mark.parametrize("command", ["migrate", "serve"])
def test_database_from_before_the_first_release_is_rejected_in_one_sentence(database_url: str, command: str) -> None:
    with psycopg2.connect(database_url.replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE alembic_version SET version_num = '0011'")
    connection.close()
    said = complaint(muster(command, MUSTER_DATABASE_URL=database_url, MUSTER_HTTP_PORT=str(free_port())), 1)
    assert said == (
        "The database has schema 0011, from before release 0.1.0, which cannot be upgraded:"
        " use a new database, or another --data-dir."
    )
