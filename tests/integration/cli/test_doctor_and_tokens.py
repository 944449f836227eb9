"""`muster doctor`, and tokens that a node accepts."""

import datetime as dt
import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from structlog.testing import capture_logs

from agent import ConsumerAgent, RequestError
from muster.cli import jobs
from muster.cli.doctor import command
from muster.data_dir import DataDir
from muster.errors import UserError
from muster.node_client import NodeClient
from muster.settings import psql_url
from tests.support.databases import Databases
from tests.support.fake_node import FakeNode
from tests.support.http_client import Client, Json, fresh_id, position
from tests.support.muster_command import QUICK, Muster
from tests.support.nodes import CLUSTER_SECRET, Node, running_node

# -- doctor -------------------------------------------------------------------------------------------------


def findings(muster: Muster, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the exit code, and each check's verdict and what it saw."""
    ran = muster("doctor", *arguments, "--json")
    return ran.exit_code, {each["check"]: (each["status"], each["message"]) for each in ran.json["checks"]}


def test_doctor_passes_for_a_healthy_node_and_database(muster: Muster, database_in_use: str) -> None:
    assert database_in_use
    _, found = findings(muster)

    for check in ("settings", "disk", "schema", "leases", "node", "tokens"):
        assert found[check][0] == "ok", (check, found[check])
    # These may warn on a busy machine.
    assert "error" not in {found[check][0] for check in ("Postgres", "clocks", "node's clock")}
    assert "50 shards of 50 have an owner; 1 node alive" in found["leases"][1]
    assert {"Java", "JDBC driver", "Airflow", "node's port", "Airflow's port"} <= found.keys()


def test_doctor_reports_what_to_start_if_nothing_runs(bare_muster: Muster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

    ran = bare_muster("doctor", "--url", url)

    assert (ran.exit_code, ran.err) == (1, "muster: 2 checks failed.\n")
    lines = {line.split()[0]: line for line in ran.out.splitlines()}
    assert "Nothing runs in " in lines["Postgres"]
    assert lines["Postgres"].endswith("start muster up, or set MUSTER_DATABASE_URL")
    assert f"no node answers at {url}" in lines["node"]


def test_doctor_fails_for_a_schema_of_another_release(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    for revision, advice in (("0000", "use a new database, or another --data-dir"), ("9999", "use a newer program")):
        with closing(psycopg2.connect(psql_url(database_url))) as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE alembic_version SET version_num = %s", (revision,))
            cursor.execute("UPDATE versions SET oldest_compatible_schema = %s", (revision,))
            connection.commit()
        (found,) = [each for each in bare_muster("doctor", "--json").json["checks"] if each["check"] == "schema"]
        assert (found["status"], found["advice"]) == ("error", advice)


def test_doctor_does_not_advise_a_second_node_on_the_database_that_no_node_uses(
    muster: Muster, node: Node, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a promotion, when the former primary is back: a node that is started there would serve it, too."""
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    found = {each["check"]: each for each in muster("doctor", "--url", node.url, "--json").json["checks"]}
    assert (found["node"]["status"], found["leases"]["status"]) == ("ok", "error")
    assert "if a node runs, it uses another database or server" in found["leases"]["advice"]


def test_doctor_names_a_misspelled_setting(bare_muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_SESION_TIMEOUT_MS", "5000")
    said = "MUSTER_SESION_TIMEOUT_MS is no setting, and MUSTER_SESSION_TIMEOUT_MS is one"
    assert findings(bare_muster)[1]["settings"] == ("warning", said)


def test_doctor_names_a_read_only_database(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {connection.info.dbname} SET default_transaction_read_only = on")
        connection.commit()

    status, message = findings(bare_muster)[1]["Postgres"]

    assert status == "error"
    assert message.endswith("; it is read-only")


@pytest.mark.parametrize(
    ("statement", "message", "advice"),
    [
        ("SELECT", "it is empty, and this program needs ", "run muster migrate"),
        (
            "CREATE TABLE invoices (id int)",
            "the database has tables of another program (invoices)",
            "create an empty one for Muster, and name it in MUSTER_DATABASE_URL",
        ),
    ],
)
def test_doctor_fails_once_for_a_database_without_the_tables_of_muster(
    bare_muster: Muster,
    empty_database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    message: str,
    advice: str,
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", empty_database_url)
    with closing(psycopg2.connect(psql_url(empty_database_url))) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        connection.commit()

    ran = bare_muster("doctor", "--json")

    assert ran.exit_code == 1
    found = {each["check"]: each for each in ran.json["checks"]}
    assert "leases" not in found
    assert found["Postgres"]["status"] != "error"
    assert found["schema"]["message"].startswith(message)
    assert found["schema"]["advice"] == advice


def test_doctor_names_a_superuser_and_accepts_the_jobs_role(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)

    found = findings(bare_muster)[1]

    assert found["database role"][0] == "warning"
    assert found["database role"][1].startswith("muster is a superuser")
    assert found["jobs role"][0] == "ok"
    assert "muster_jobs_login" in found["jobs role"][1]


def test_doctor_lists_excess_privileges_of_jobs(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection, connection.cursor() as cursor:
        cursor.execute(
            "GRANT UPDATE (status) ON maintenance_runs TO muster_jobs; GRANT DELETE ON offsets TO muster_jobs"
        )

    verdict, saw = findings(bare_muster)[1]["jobs role"]

    assert verdict == "error"
    assert "can write maintenance_runs, offsets" in saw


def test_doctor_fails_if_every_role_can_create_what_the_functions_of_jobs_would_use(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Postgres 15 it is the default, and the owner of the database cannot revoke it."""
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection, connection.cursor() as cursor:
        cursor.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")

    verdict, saw = findings(bare_muster)[1]["jobs role"]

    assert (verdict, saw) == (
        "error",
        "every role can create operators in the schema public, which jobs run as the owner",
    )


def test_doctor_fails_for_shards_without_an_owner(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)

    verdict, saw = findings(bare_muster)[1]["leases"]

    assert verdict == "error"
    assert "0 nodes alive" in saw


def test_doctor_makes_every_check_where_the_data_directory_cannot_be_used(
    bare_muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))  # Without a Java of the system, so that a shim is made.
    (tmp_path / "file").touch()

    found = findings(bare_muster, "--data-dir", str(tmp_path / "file" / "data"))[1]

    assert f"{tmp_path / 'file' / 'data' / 'lock'} is not a directory" in found["Postgres"][1]
    others = {"disk", "node's port", "Airflow's port", "node", "tokens", "TLS", "Java", "JDBC driver", "Airflow"}
    assert others <= found.keys()


def test_doctor_names_the_process_that_uses_a_port(bare_muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("MUSTER_HTTP_PORT", str(port))
        verdict, saw = findings(bare_muster)[1]["node's port"]

    assert verdict == "warning"
    assert f"{port} is taken by " in saw
    assert f"(pid {os.getpid()})" in saw


def test_doctor_accepts_ports_that_the_run_itself_uses(
    bare_muster: Muster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.create()
    with socket.create_server(("127.0.0.1", 0)) as server, data_dir.locked("up"):
        monkeypatch.setenv("MUSTER_HTTP_PORT", str(server.getsockname()[1]))
        found = findings(bare_muster, "--data-dir", str(tmp_path))[1]

    assert found["node's port"][0] == "ok"
    assert f"and muster up (pid {os.getpid()}) runs" in found["node's port"][1]


def test_doctor_checks_airflow_at_the_port_of_the_run(bare_muster: Muster, fake: FakeNode, tmp_path: Path) -> None:
    healthy = {"status": "healthy"}
    fake.says(200, {"metadatabase": healthy, "scheduler": healthy, "dag_processor": healthy})
    data_dir = DataDir(tmp_path)
    data_dir.create()
    with data_dir.locked("up") as lock:
        lock.publish_airflow(fake.url, "postgresql://no-database")
        verdict, saw = findings(bare_muster, "--data-dir", str(tmp_path))[1]["Airflow"]

    assert verdict == "ok"
    assert saw.endswith(f" is healthy at {fake.url}")
    assert fake.seen[0][0] == "/api/v2/monitor/health"


@pytest.mark.parametrize(
    ("variable", "value", "check", "said"),
    [
        ("MUSTER_SHARDS", "0", "settings", "MUSTER_SHARDS should be greater than or equal to 1."),
        ("MUSTER_MIN_FREE_DISK_MB", "1000000000", "disk", "MB free at "),
        ("MUSTER_TOKENS_FILE", "/nowhere/tokens.json", "tokens", "/nowhere/tokens.json cannot be read"),
        ("MUSTER_JDBC_JAR", "/nowhere/driver.jar", "JDBC driver", "/nowhere/driver.jar, which is not a readable file"),
        ("MUSTER_DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/m", "Postgres", "Connection refused"),
    ],
)
def test_doctor_names_each_problem(
    bare_muster: Muster, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, check: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)

    exit_code, found = findings(bare_muster)

    assert exit_code == 1
    assert found[check][0] == "error"
    assert said in found[check][1]
    assert "hunter2" not in str(found)


def test_doctor_misses_no_driver_where_spark_is_not_installed(
    bare_muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _name: None)
    monkeypatch.setenv("MUSTER_JDBC_JAR", "/nowhere/driver.jar")

    _, found = findings(bare_muster)

    assert found["Java"][:2] == ("warning", "Spark is not installed here")
    assert "JDBC driver" not in found


# -- tokens -------------------------------------------------------------------------------------------------


def new_token(muster: Muster, file: Path, role: str, *prefixes: str) -> str:
    """Create a token and add its entry to the file."""
    flags = [part for prefix in prefixes for part in ("--prefix", prefix)]
    made = muster.ok("token", "new", "--actor", f"the {role}", "--role", role, *flags, "--add-to", str(file), "--json")
    token: str = made.json["token"]
    return token


def test_a_token_is_printed_once_with_its_entry(bare_muster: Muster) -> None:
    made = bare_muster.ok("token", "new", "--actor", "ada", "--role", "viewer", "--json").json

    assert made["token"].startswith("muster_")
    assert made["entry"].keys() == {"sha256", "actor", "role"}
    said = bare_muster.ok("token", "new", "--actor", "ada", "--role", "agent", "--prefix", "billing-").out
    entry = json.loads(said.splitlines()[-1])
    assert (entry["actor"], entry["role"], entry["prefixes"]) == ("ada", "agent", ["billing-"])


def test_expiring_token_is_reported_by_the_doctor(
    bare_muster: Muster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.json"
    monkeypatch.setenv("MUSTER_TOKENS_FILE", str(file))
    monkeypatch.setenv("MUSTER_CLUSTER_SECRET", CLUSTER_SECRET)
    flags = ["token", "new", "--actor", "ada", "--role", "viewer", "--add-to", str(file)]
    bare_muster.ok(*flags, "--days", "90")
    assert findings(bare_muster)[1]["tokens"][0] == "ok"

    bare_muster.ok(*flags, "--days", "6")

    verdict, saw = findings(bare_muster)[1]["tokens"][:2]
    assert verdict == "warning"
    assert saw.startswith("1 token of 2 expired or will within a week, the first at ")


def test_invalid_token_file_is_left_unchanged(bare_muster: Muster, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text("{")

    flags = ["token", "new", "--actor", "ada", "--role", "viewer", "--add-to", str(file)]
    assert bare_muster.refused(2, *flags) == f"{file} is not JSON; nothing was added."
    assert file.read_text() == "{"
    assert bare_muster.refused(2, *flags[:-1], str(tmp_path)) == f"{tmp_path} is no file; nothing was added."
    assert bare_muster.refused(2, "token", "new", "--actor", "", "--role", "viewer").startswith("--actor: a name has 1")
    assert "Invalid value for '--role'" in bare_muster.refused(2, "token", "new", "--actor", "a", "--role", "root")


def test_entry_is_added_to_a_linked_file_and_its_mode_kept(bare_muster: Muster, tmp_path: Path) -> None:
    file, link = tmp_path / "tokens-2.json", tmp_path / "tokens.json"
    new_token(bare_muster, file, "viewer")
    file.chmod(0o640)
    link.symlink_to(file)

    new_token(bare_muster, link, "agent")

    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert len(json.loads(file.read_text())["tokens"]) == 2


@pytest.fixture
def guarded(databases: Databases, bare_muster: Muster, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Serve a node with a token of each role created by the command; yield its URL and the tokens."""
    file = tmp_path / "tokens.json"
    tokens = {role: new_token(bare_muster, file, role, "mine-") for role in ("agent", "viewer", "operator")}
    assert file.stat().st_mode & 0o777 == 0o600
    assert not any(token in file.read_text() for token in tokens.values())
    url = databases.create()
    with capture_logs(), running_node(url, **QUICK, tokens_file=str(file), cluster_secret=CLUSTER_SECRET) as node:
        yield node.url, tokens
    databases.drop(url)


def test_agent_operator_and_viewer_tokens_are_accepted(
    guarded: tuple[str, dict[str, str]], bare_muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, tokens = guarded
    monkeypatch.setenv("MUSTER_URL", url)
    group_id = fresh_id("mine-")
    options: Json = {"partitions_of": lambda _: 2, "auto_offset_reset": "earliest", "token": tokens["agent"]}
    with ConsumerAgent(url, group_id, ["orders"], **options) as agent:
        while not agent.poll(timeout_s=0.1):
            pass
        agent.commit()
        monkeypatch.setenv("MUSTER_TOKEN", tokens["viewer"])
        assert [row[:2] for row in bare_muster.ok("groups", "list").rows] == [[group_id, "Stable"]]
    with pytest.raises(RequestError, match="GROUP_AUTHORIZATION_FAILED"):
        ConsumerAgent(url, fresh_id("other"), ["orders"], **options).poll(timeout_s=5.0)

    reset = ["groups", "reset-offsets", group_id, "--all-topics", "--to-offset", "0", "--execute"]
    assert "the token does not allow RESET on this group" in bare_muster.refused(1, *reset)
    monkeypatch.setenv("MUSTER_TOKEN", tokens["operator"])
    bare_muster.ok(*reset)
    assert bare_muster.ok("changes", "list", group_id).rows[0][2:4] == ["the", "operator"]
    monkeypatch.setenv("MUSTER_TOKEN", "nobody's")
    source = "it is read from MUSTER_TOKEN (SASL_AUTHENTICATION_FAILED)."
    assert bare_muster.refused(1, *reset) == f"{group_id}: the bearer token is unknown; {source}"
    monkeypatch.delenv("MUSTER_TOKEN")
    assert bare_muster.refused(1, "groups", "list") == f"a bearer token is needed; {source}"


def test_doctor_reports_a_token_that_the_node_does_not_accept(
    guarded: tuple[str, dict[str, str]], bare_muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, tokens = guarded
    monkeypatch.setenv("MUSTER_URL", url)
    refused, source = "the node refuses requests:", "it is read from MUSTER_TOKEN"
    assert findings(bare_muster)[1]["token"] == ("warning", f"{refused} a bearer token is needed; {source}")
    monkeypatch.setenv("MUSTER_TOKEN", "an unknown one")
    assert findings(bare_muster)[1]["token"] == ("error", f"{refused} the bearer token is unknown; {source}")
    monkeypatch.setenv("MUSTER_TOKEN", tokens["agent"])
    assert findings(bare_muster)[1]["token"] == ("ok", "the node accepts MUSTER_TOKEN")


def test_muster_up_requires_a_token_if_tokens_are_configured(
    bare_muster: Muster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MUSTER_TOKENS_FILE", str(tmp_path / "tokens.json"))

    said = bare_muster.refused(1, "up", "--no-airflow", "--data-dir", str(tmp_path / "data"))

    assert said.startswith(
        "Requests need tokens (MUSTER_TOKENS_FILE, MUSTER_REQUIRE_TOKENS), so muster up needs an operator's"
    )
    assert not (tmp_path / "data").exists()


def test_demo_topics_are_stored_with_the_token(
    guarded: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = guarded
    monkeypatch.setenv("MUSTER_TOKEN", "nobody's")

    with pytest.raises(UserError, match="SASL_AUTHENTICATION_FAILED"):
        NodeClient(url).put("/v1/topics/orders", {"partitions": 3})
    monkeypatch.delenv("MUSTER_TOKEN")
    with pytest.raises(UserError, match="a bearer token is needed"):
        NodeClient(url).put("/v1/topics/orders", {"partitions": 3})


def test_node_without_tokens_requires_none(client: Client) -> None:
    group_id = fresh_id()
    client.ok("POST", f"/v1/groups/{group_id}/offsets", {"generation": -1, "member_id": "", "offsets": [position(1)]})

    assert client.send("GET", f"/v1/groups/{group_id}", None, {"Authorization": "Bearer whatever"}).status == 200


# -- job ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21T02:13:00", dt.datetime(2026, 11, 21, 2, 13, tzinfo=dt.UTC)),
        ("2026-11-21T02:13:00.25Z", dt.datetime(2026, 11, 21, 2, 13, 0, 250_000, tzinfo=dt.UTC)),
        ("2026-11-21T02:13:00+01:00", dt.datetime(2026, 11, 21, 1, 13, tzinfo=dt.UTC)),
        ("2026-11-21", dt.datetime(2026, 11, 21, tzinfo=dt.UTC)),
    ],
)
def test_job_accepts_as_of_in_every_time_format(
    bare_muster: Muster, monkeypatch: pytest.MonkeyPatch, text: str, moment: dt.datetime
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(jobs, "run_job", lambda _, as_of, *__: asked.append(as_of))

    bare_muster.ok("job", "offset_retention", "--as-of", text)

    assert asked == [moment]


@pytest.mark.parametrize("text", ["yesterday", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_invalid_as_of_is_reported_in_one_sentence(bare_muster: Muster, text: str) -> None:
    assert bare_muster.refused(2, "job", "offset_retention", "--as-of", text).startswith(
        f"--as-of {text}: a time looks like 2026-11-21T02:13:00"
    )


def test_interval_beyond_the_last_date_is_reported_in_one_sentence(bare_muster: Muster) -> None:
    said = bare_muster.refused(2, "job", "assignment_balance_audit", "--interval", "9999-12-31")
    assert said.startswith("9999-12-31 is no interval: give a day or START/END")
