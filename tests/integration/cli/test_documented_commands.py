"""Commands of README.md, docs/maintenance.md and docs/runbook.md run as written, on a node, a database and Spark."""

import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from structlog.testing import capture_logs

from coordinator_core.protocol.hashing import shard_of
from tests.support.corrupt_rows import SICK, eventually_quarantined, settle, spoil
from tests.support.databases import Databases
from tests.support.documented_commands import languages, sessions
from tests.support.http_client import Client, Group, Member, fresh_id, position
from tests.support.known_log_ends import end_is
from tests.support.muster_command import PATIENT, QUICK, Muster
from tests.support.nodes import Node, running_node

PAGES: Final = ("README.md", "docs/maintenance.md", "docs/runbook.md")
LANGUAGES: Final = {"console", "http", "python", "sql", "text"}

PLATFORM: Final = "starts everything: tests/system/e2e/test_local_platform.py"
AIRFLOW: Final = "needs an Airflow: tests/system/e2e/test_local_platform.py and tests/integration/airflow run others"
OTHER_AIRFLOW: Final = "is for an Airflow that is not ours"
NAME: Final = "names a command, without its arguments"
NOT_RUN: Final = {
    "make run": PLATFORM,
    "make run ARGS=--no-airflow": PLATFORM,
    'make run ARGS="--nodes 3"': PLATFORM,
    "muster up": PLATFORM,
    "muster mirror": "runs until it is stopped: tests/integration/mirror/test_killed_mirror.py",
    "muster serve": "runs until it is stopped: tests/integration/http/test_node_process.py",
    "muster groups watch": "runs until Ctrl-C: tests/integration/cli/test_watch.py",
    "make docs": "writes into the checkout: tests/unit/repository/test_docs_site.py",
    "make test": "runs this test",
    "make test TOOLS=": "runs this test",
    "kill -9 <a pid from the table>": "needs the consumers of a platform: tests/system/chaos kills consumers",
    "make spark-package": "writes into the checkout: tests/integration/spark/test_standalone_cluster.py",
    "spark-submit --master spark://host:7077 --py-files dist/muster_spark.zip --jars postgresql.jar"
    " spark_jobs/jobs/offset_retention.py --run-id … --as-of 2026-11-21T12:00:00Z": (
        "needs a cluster: tests/integration/spark/test_standalone_cluster.py"
    ),
    "muster airflow backfill create --dag-id rebalance_frequency_report"
    " --from-date 2026-11-01 --to-date 2026-11-14": AIRFLOW,
    "muster airflow dags list": AIRFLOW,
    "muster airflow tasks states-for-dag-run …": AIRFLOW,
    'airflow pools set muster_spark 1 "…"': OTHER_AIRFLOW,
    'airflow pools set muster_spark_reports 2 "…"': OTHER_AIRFLOW,
    "muster runs show 6ff3c9be-…": "needs a run that a DAG rejected: tests/integration/airflow/test_proposal_dags.py",
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
"""Commands that are not run, and why."""

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
    "muster runs list --status proposed": "offset_retention",
}
"""What a page says that a command shows."""

SESSIONS: Final = {tuple(session): None for page in PAGES for session in sessions(page)}
"""Each once."""
(REPAIR,) = [session for session in SESSIONS if session[0].startswith("muster sql --write")]

RUN: Final = [
    pytest.param(
        [command for command in session if command not in NOT_RUN],
        marks=[pytest.mark.jvm, pytest.mark.slow] if session[0].startswith("muster job") else [],
        id=session[0],
    )
    for session in SESSIONS
    if session != REPAIR and not NOT_RUN.keys() >= set(session)
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


class World:
    """A group with a member and a committed offset on a node; names of the pages stand for them."""

    def __init__(self, muster: Muster, client: Client, rows: PsycopgConnection, *, node: Node) -> None:
        self.group: Group = client.group(fresh_id("billing-"))
        self.topic = fresh_id("orders-")
        self.member: Member = self.group.stable(self.topic, **PATIENT)
        self.member.commit(position(5, topic=self.topic, log_end_offset=12))
        self._muster = muster
        self._rows = rows
        self._port = node.settings.http_port

    def run(self, command: str) -> str:
        """Run a command, which must succeed without a warning, and return its output."""
        if "|" in command:
            command = command.replace(":8080", f":{self._port}")
            return subprocess.run(
                ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=True
            ).stdout
        program, *arguments = shlex.split(command, comments=True)
        assert program.removeprefix(".venv/bin/") == "muster", command
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
        assert "is applied: candidates 3" in self.run("muster job history_archive")

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
        return self._run_id() if argument == "RUN" else names.get(argument, argument)

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
}
"""What happens before a command that begins so."""


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
    muster: Muster, client: Client, node: Node, rows: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> World:
    assert node.settings.database_url is not None
    monkeypatch.setenv("MUSTER_DATABASE_URL", node.settings.database_url.get_secret_value())
    monkeypatch.setenv("MUSTER_ARCHIVE_URI", node.settings.archive_uri or "")
    return World(muster, client, rows, node=node)


@pytest.mark.parametrize("session", RUN)
def test_a_documented_command_runs(world: World, session: list[str]) -> None:
    for beginning, prepare in PREPARED.items():
        if session[0].startswith(beginning):
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
def test_every_block_of_a_page_has_a_language(page: str) -> None:
    assert languages(page) <= LANGUAGES


def test_lists_of_commands_are_up_to_date() -> None:
    commands = {command for session in SESSIONS for command in session}
    assert NOT_RUN.keys() | SHOWS.keys() <= commands
    assert [start for start in PREPARED if not any(command.startswith(start) for command in commands)] == []
