"""Commands of README.md, docs/maintenance.md and docs/runbook.md run as written, on a node, a database and Spark."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from structlog.testing import capture_logs

from coordinator_core.protocol.hashing import shard_of
from tests.support.certificates import Authority
from tests.support.corrupt_rows import SICK, eventually_quarantined, settle, spoil
from tests.support.databases import Databases
from tests.support.documented_commands import console_blocks, sessions
from tests.support.http_client import AS_JSON, Client, Group, Member, fresh_id, position
from tests.support.known_log_ends import end_is
from tests.support.muster_command import PATIENT, QUICK, Muster
from tests.support.nodes import Node, running_node
from tests.support.repository import ROOT

PAGES: Final = ("README.md", "docs/maintenance.md", "docs/runbook.md")

E2E: Final = "tests/system/e2e/test_local_platform.py"
CLUSTER: Final = "tests/integration/spark/test_standalone_cluster.py"
RESTORE: Final = "tests/integration/spark/archive/test_history_restore.py"
RUN_ELSEWHERE: Final = {
    ".venv/bin/muster runs list": E2E,
    ".venv/bin/muster sql 'SELECT group_id, topic": E2E,
    "kill -9 <": E2E,
    "muster airflow backfill create": E2E,
    "muster airflow dags list": E2E,
    "muster airflow tasks states-for-dag-run": E2E,
    "airflow pools set": E2E,
    "spark-submit --master": CLUSTER,
    "spark_jobs/jobs/history_restore.py --first-day": RESTORE,
}
"""Beginnings of commands, and the test that runs the page's words."""
MADE: Final = {
    "make docs": ("tests/unit/repository/test_docs_site.py", '"mkdocs", "build"'),
    "make run": (E2E, 'new_user(tmp_path / "data")'),
    "make run ARGS=--no-airflow": (E2E, 'new_user(tmp_path / "data", "--no-airflow")'),
    'make run ARGS="--nodes 3"': (
        "tests/integration/cli/test_up.py",
        '"up", "--no-airflow", "--no-demo", "--nodes", "3"',
    ),
    "make spark-package": (CLUSTER, "package.build(file)"),
}
"""Targets of make, and the test that runs their program with other files and ports, by these words."""
ENDLESS: Final = {
    "muster up": ("tests/system/e2e/terminal_user.py", '"muster", "up"'),
    "muster mirror": ("tests/support/mirror_process.py", '"muster", "mirror"'),
    "muster serve": ("tests/integration/cli/test_up.py", 'Run(tmp_path, "serve")'),
    "muster groups watch": ("tests/integration/cli/test_watch.py", '"groups", "watch"'),
}
"""Commands that run until they are stopped, and the test that runs them, by these words."""
NOT_RUN: Final = {
    "make setup": "has made the environment of this test",
    "make test": "runs this test",
    "make test TOOLS=": "runs this test",
    "python3 -m http.server --directory site": "is Python's own, and runs until it is stopped",
    "timedatectl": "needs systemd",
    **dict.fromkeys(
        (
            "kill -9",
            "make",
            "muster",
            "muster airflow",
            "muster airflow …",
            "muster config set",
            "muster groups",
            "muster job",
            "muster offset-log",
            "muster runs apply --wait",
            "muster runs candidates",
            "muster sql",
            "muster token new",
            "muster tokens",
            "spark-submit",
        ),
        "names a command, without its arguments",
    ),
}
"""Commands that no test runs, and why."""


def is_run_here(command: str) -> bool:
    return command not in MADE.keys() | ENDLESS.keys() | NOT_RUN.keys() and not command.startswith(tuple(RUN_ELSEWHERE))


SHOWS: Final = {
    "muster config undo --group GROUP": "session_timeout_ms restored",
    "muster groups describe GROUP --offsets": "LAG",
    "muster groups describe GROUP --state": "Stable",
    "muster groups rebalances GROUP": "member_joined",
    "muster groups remove-member GROUP MEMBER --execute": "was removed",
    "muster groups reset-offsets GROUP --topic TOPIC:PARTITION --shift-by 1": "5 6 1 partition of 1 group would",
    "muster groups sessions GROUP": "left",
    "muster job history_restore --interval 2026-10-01/2026-10-04": "3 days",
    "muster job history_restore --interval 2026-10-01 --table rebalances --execute": "restored rebalances 1 day",
    "muster offsets delete-log-ends --topic orders:0": "1 log end would be deleted",
    "muster runs candidates RUN": "simple_group",
    "muster job group_cleanup --dry-run": "group_cleanup: proposed run",
    "muster runs list --status proposed": "offset_retention",
    "muster runs reject RUN": "offset_retention as of",
    "muster runs show RUN": "rejected by ada at",
    "muster runs show 6ff3c9be-…": "UTC: the candidates are those of run 0b5f4f8e-…",
    'openssl x509 -noout -enddate -in "$MUSTER_TLS_CERTIFICATE_FILE"': "notAfter=",
}
"""What a page says that a command shows."""

SESSIONS: Final = {tuple(session): None for page in PAGES for session in sessions(page)}
"""Each once."""
(REPAIR,) = [session for session in SESSIONS if session[0].startswith("muster sql --write")]

RUN: Final = [
    pytest.param(
        [command for command in session if is_run_here(command)],
        marks=[pytest.mark.jvm, pytest.mark.slow] if session[0].startswith("muster job") else [],
        id=session[0],
    )
    for session in SESSIONS
    if session != REPAIR and any(map(is_run_here, session))
]

OLD_REBALANCES: Final = """
INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, started_at,
    completed_at, outcome, restarts, member_count_before, member_count_after, partitions_moved)
SELECT gen_random_uuid(), 'old', 3, day, 1, 'member_joined', day, day + interval '1 hour', 'completed', 0, 0, 1, 1
FROM generate_series(timestamptz '2026-10-01 00:00Z', timestamptz '2026-10-03 00:00Z', interval '1 day') AS day
"""

DUE_OFFSET: Final = """
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)
VALUES (%s, %s, 'orders', 0, 5, now() - interval '60 days')
"""

PROPOSAL: Final = """
INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)
VALUES (gen_random_uuid(), 'offset_retention', now(), 'proposed', '{"candidates": 1}')
"""


class World:
    """A group with a member and a committed offset on a node; names of the pages stand for them."""

    def __init__(
        self, muster: Muster, client: Client, rows: PsycopgConnection, *, request: pytest.FixtureRequest, folder: Path
    ) -> None:
        self.group: Group = client.group(fresh_id("billing-"))
        self.topic = fresh_id("orders-")
        self.member: Member = self.group.stable(self.topic, **PATIENT)
        self.member.commit(position(5, topic=self.topic, log_end_offset=12))
        self._certificate = Authority(folder).path
        self._client = client
        self._muster = muster
        self._rows = rows
        self._request = request

    def run(self, command: str) -> str:
        """Run a command, which must succeed without a warning, and return its output."""
        if "|" in command or "$" in command:
            node: Node = self._request.getfixturevalue("node")
            command = command.replace(":8080", f":{node.settings.http_port}")
            shell = ["bash", "-o", "pipefail", "-c", command]
            environment = {**os.environ, "MUSTER_TLS_CERTIFICATE_FILE": str(self._certificate)}
            return subprocess.run(shell, env=environment, capture_output=True, text=True, check=True).stdout
        program, *arguments = shlex.split(command, comments=True)
        assert program.removeprefix(".venv/bin/") == "muster", command
        if arguments[:1] == ["job"]:
            self._request.getfixturevalue("jobs_in_warm_spark")
        return self._muster.ok(*map(self._with_names, arguments)).out

    def leave(self) -> None:
        """Let the member leave its group."""
        self.group.post("leave", {"members": [{"member_id": self.member.member_id}]})

    def wait_for_log_end(self) -> None:
        """Wait until the log end that the member reported is stored."""
        end_is(self._rows, self.topic, 12)

    def add_due_offset(self) -> None:
        """Add an offset that expires at once, of a group of its own: another run may still be applied."""
        group_id = fresh_id("due-")
        with self._rows.cursor() as cursor:
            cursor.execute(DUE_OFFSET, (group_id, shard_of(group_id, 50)))

    def archive_three_days(self) -> None:
        """Add three days of October, and have a run archive them."""
        with self._rows.cursor() as cursor:
            cursor.execute(OLD_REBALANCES)
        assert "is applied: 3 dropped" in self.run("muster job history_archive")

    def propose(self) -> None:
        """Add a run that waits for a decision."""
        with self._rows.cursor() as cursor:
            cursor.execute(PROPOSAL)

    def reject_the_candidates(self) -> None:
        """Have a job propose the candidates, and an operator reject them."""
        self.run("muster job offset_retention --dry-run")
        self.run("muster runs reject RUN --reason 'too many'")

    def reject_twice(self) -> None:
        """Add two runs: one that an operator rejects, and one that a DAG rejects for the same candidates."""
        held = "the candidates are those of run 0b5f4f8e-…"
        for actor, reason in (("airflow:ada", "too many"), ("dag:offset_retention", held)):
            self.propose()
            path = f"/v1/maintenance/runs/{self._run_id()}/reject"
            headers = {**AS_JSON, "X-Muster-Actor": actor}
            assert self._client.send("POST", path, json.dumps({"reason": reason}).encode(), headers).status == 200

    def _with_names(self, argument: str) -> str:
        names = {
            "GROUP": self.group.group_id,
            "MEMBER": self.member.member_id,
            "TOPIC": self.topic,
            "TOPIC:PARTITION": f"{self.topic}:0",
            "OFFSET": "4",
            "orders:0": f"{self.topic}:0",
            "NAME": "group_cleanup",
            "REPORTER": "reporter",
        }
        return self._run_id() if argument in {"RUN", "6ff3c9be-…"} else names.get(argument, argument)

    def _run_id(self) -> str:
        with self._rows.cursor() as cursor:
            cursor.execute("SELECT run_id::text FROM maintenance_runs ORDER BY created_at DESC LIMIT 1")
            ((run_id,),) = cursor.fetchall()
        return str(run_id)


PREPARED: Final[dict[str, Callable[[World], object]]] = {
    "muster config undo": lambda world: world.run(
        'muster config set GROUP session_timeout_ms=9000 --reason "a mistake"'
    ),
    "muster groups reset-offsets": World.leave,
    "muster groups sessions": World.leave,
    "muster job history_restore": World.archive_three_days,
    "muster job offset_retention": World.add_due_offset,
    "muster offsets delete-log-ends": World.wait_for_log_end,
    "muster runs reject": World.propose,
    "muster runs show 6ff3c9be-…": World.reject_twice,
    "muster runs show RUN": World.reject_the_candidates,
}
"""What happens before a session with a command that begins so, in this order."""


@pytest.fixture(scope="module")
def node(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    url = databases.create()
    archive = f"file://{tmp_path_factory.mktemp('archive')}"
    # The node's log would be mixed with the command's output.
    with capture_logs(), running_node(url, archive_uri=archive, offsets_checkpoint_interval_ms=50, **QUICK) as node:
        yield node
    databases.drop(url)


@pytest.fixture
def world(
    muster: Muster,
    client: Client,
    node: Node,
    rows: PsycopgConnection,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> World:
    assert node.settings.database_url is not None
    monkeypatch.setenv("MUSTER_DATABASE_URL", node.settings.database_url.get_secret_value())
    monkeypatch.setenv("MUSTER_ARCHIVE_URI", node.settings.archive_uri or "")
    return World(muster, client, rows, request=request, folder=tmp_path)


@pytest.mark.parametrize("session", RUN)
def test_a_documented_command_runs(world: World, session: list[str]) -> None:
    for beginning, prepare in PREPARED.items():
        if any(command.startswith(beginning) for command in session):
            prepare(world)
    for command in session:
        assert SHOWS.get(command, "") in " ".join(world.run(command).split())


def test_the_documented_repair_of_a_quarantined_group_works(
    bare_muster: Muster, database_url: str, sql_connection: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs(), running_node(database_url, **QUICK) as node, closing(Client(node.url)) as client:
        settle(client.group(SICK))
    spoil(sql_connection, "UPDATE groups SET state = 'stable'", "groups_state")
    with capture_logs(), running_node(database_url, **QUICK) as node, closing(Client(node.url)) as client:
        monkeypatch.setenv("MUSTER_URL", node.url)
        monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
        eventually_quarantined(client)
        assert SICK in bare_muster.ok("groups", "quarantined").out
        for command in REPAIR:
            bare_muster.ok(*shlex.split(command.replace("billing", SICK))[1:])
        offsets = client.ok("GET", f"{client.group(SICK).path}/offsets")["offsets"]
        assert [each["offset"] for each in offsets] == [41]
        assert client.group(SICK).stable().generation > 1


@pytest.mark.parametrize("page", PAGES)
def test_no_comment_of_a_block_has_a_command_that_no_test_runs(page: str) -> None:
    assert re.findall(r"# or\b.*", "".join(console_blocks((ROOT / page).read_text()))) == []


def test_lists_of_commands_are_up_to_date() -> None:
    commands = {command for session in SESSIONS for command in session}
    assert MADE.keys() | ENDLESS.keys() | NOT_RUN.keys() | SHOWS.keys() <= commands
    starts = [*PREPARED, *RUN_ELSEWHERE]
    assert [start for start in starts if not any(command.startswith(start) for command in commands)] == []


@pytest.mark.parametrize(("beginning", "file"), RUN_ELSEWHERE.items())
def test_command_that_is_not_run_here_is_run_from_the_page_elsewhere(beginning: str, file: str) -> None:
    assert re.search(rf"the_command\([^)]*f?[\"']{re.escape(beginning)}", (ROOT / file).read_text())


@pytest.mark.parametrize(("command", "where"), [*MADE.items(), *ENDLESS.items()])
def test_command_with_other_files_and_ports_is_run_elsewhere(command: str, where: tuple[str, str]) -> None:
    file, words = where
    assert words in (ROOT / file).read_text(), command


RECIPES: Final = {
    "make docs": [
        ".venv/bin/python -m scripts.reference_pages",
        "NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build",
    ],
    "make run": ["exec .venv/bin/muster up"],
    "make run ARGS=--no-airflow": ["exec .venv/bin/muster up --no-airflow"],
    'make run ARGS="--nodes 3"': ["exec .venv/bin/muster up --nodes 3"],
    "make spark-package": [".venv/bin/python -m spark_jobs.package dist/muster_spark.zip"],
}
"""What a target runs, after `make setup`."""


@pytest.mark.parametrize("command", [each for each in NOT_RUN if each.startswith("muster") and "…" not in each])
def test_a_command_that_is_only_named_exists(bare_muster: Muster, command: str) -> None:
    bare_muster.ok(*command.split()[1:], "--help")


@pytest.mark.parametrize("command", MADE)
def test_a_target_runs_the_program_that_is_tested(command: str) -> None:
    words = [*shlex.split(command), "--dry-run"]
    # The tests may have been started by make, whose variables one that it starts would use too.
    environment = {
        key: value for key, value in os.environ.items() if key not in {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    }
    planned = subprocess.check_output(words, cwd=ROOT, text=True, env=environment).splitlines()
    assert [line.strip() for line in planned if ".venv/bin/" in line] == RECIPES[command]
