"""Tests of `muster job`: it runs the job in a child process, and applies its proposal through a node."""

import datetime as dt
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.cli import jobs
from muster.cli.jobs import apply_by_any_node, run_job
from muster.errors import UserError
from muster.local.java import wheel_java
from muster.settings import Settings, load_settings
from spark_jobs.submit import maintenance_run_id
from tests.support.fake_maintenance_node import CHANGE_ID, FakeNode, Seen, running

pytestmark = pytest.mark.jvm

JOB = "offset_retention"
AS_OF = dt.datetime(2026, 11, 21, 12, 0, tzinfo=dt.UTC)
OFFSET = (
    "INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)"
    " VALUES ('old', 3, 'orders', 0, 5, timestamptz '2026-11-21 12:00Z' - interval '2 minutes')"
)
NODE = (
    "INSERT INTO nodes (node_id, listeners, version, started_at, expires_at)"
    " VALUES ('n1', jsonb_build_object('http', %s), '1', now(), now() + interval '1 hour'),"
    " ('dead', '{\"http\": \"http://127.0.0.1:1\"}', '1', now(), now())"
)


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with running(FakeNode(["applying", "applied"])) as node:
        yield node


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return load_settings(database_url=database_url, data_dir=tmp_path, offsets_retention_minutes=1)


def rows(connection: PsycopgConnection, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def test_job_proposes_and_a_running_node_applies(
    settings: Settings,
    sql_connection: PsycopgConnection,
    node: FakeNode,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    # The other tests use the system's Java if there is one, so this one uses the wheel's.
    monkeypatch.setenv("JAVA_HOME", str(wheel_java(tmp_path)))
    rows(sql_connection, OFFSET)
    rows(sql_connection, NODE, node.url)
    run_job(JOB, AS_OF, False, settings)
    run_id = maintenance_run_id(JOB, AS_OF.isoformat())
    assert rows(sql_connection, "SELECT run_id::text, group_id FROM expiry_candidates") == [(run_id, "old")]
    assert rows(sql_connection, "SELECT as_of, dry_run FROM maintenance_runs") == [(AS_OF, False)]
    assert node.calls() == ["POST apply", f"GET {run_id}", f"GET {run_id}"]
    assert node.seen[0].headers["X-Muster-Actor"] == "muster job"
    output = capsys.readouterr().out.splitlines()
    assert output[1:] == [
        f"offset_retention: proposed run {run_id}: candidates 1, groups 1, simple_group 1.",
        f"Run {run_id} is applied: 1 candidate.",
        f"Undo with: muster changes undo {CHANGE_ID}",
    ]


@pytest.mark.parametrize(("url", "why"), [(None, "No node runs"), ("http://127.0.0.1:1", "No node answers")])
def test_without_a_node_the_proposal_waits(
    database_url: str,
    sql_connection: PsycopgConnection,
    capsys: pytest.CaptureFixture[str],
    url: str | None,
    why: str,
) -> None:
    if url is not None:
        rows(sql_connection, NODE, url)
    apply_by_any_node("some-run", database_url, 10.0)
    output = capsys.readouterr().out
    assert output.startswith(why)
    assert output.endswith("The proposal waits: muster runs apply some-run --execute applies it.\n")


class LeavingNode(FakeNode):
    """Takes requests to apply, and ends before the next request."""

    def answer(self, request: Seen) -> tuple[int, dict[str, Any]]:
        if request.method == "GET":
            raise ConnectionResetError("the node has ended")
        return super().answer(request)


def test_another_node_applies_what_the_first_one_does_not_answer(
    database_url: str, sql_connection: PsycopgConnection, node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    rows(sql_connection, NODE, node.url)
    rows(sql_connection, "UPDATE nodes SET expires_at = now() + interval '1 hour'")
    apply_by_any_node("some-run", database_url, 10.0)
    assert node.calls()[0] == "POST apply"
    assert capsys.readouterr().out.startswith("Run some-run is applied")


def test_another_node_is_asked_when_the_one_that_applies_ends(
    database_url: str, sql_connection: PsycopgConnection, node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(LeavingNode()) as leaving:
        rows(sql_connection, NODE, node.url)
        rows(
            sql_connection,
            "UPDATE nodes SET listeners = %s::jsonb WHERE node_id = 'dead'",
            f'{{"http": "{leaving.url}"}}',
        )
        rows(sql_connection, "UPDATE nodes SET expires_at = now() + interval '1 hour'")
        apply_by_any_node("some-run", database_url, 10.0)
    assert (leaving.calls(), node.calls()[0]) == (["POST apply"], "GET some-run")
    assert capsys.readouterr().out.startswith("Run some-run is applied")


@pytest.mark.parametrize(("candidates", "undoes"), [(1, 1), (0, 0)])
def test_undo_is_printed_for_an_applied_run_with_candidates(
    database_url: str,
    sql_connection: PsycopgConnection,
    capsys: pytest.CaptureFixture[str],
    candidates: int,
    undoes: int,
) -> None:
    with running(FakeNode(counts={"candidates": candidates})) as node:
        rows(sql_connection, NODE, node.url)
        apply_by_any_node("some-run", database_url, 10.0)

    assert capsys.readouterr().out.splitlines()[1:] == [f"Undo with: muster changes undo {CHANGE_ID}"] * undoes


def test_rejection_is_reported_in_the_words_of_the_node(
    database_url: str, sql_connection: PsycopgConnection, node: FakeNode
) -> None:
    rows(sql_connection, NODE, node.url)
    node.refusals = [(409, {"code": "INVALID_REQUEST", "detail": "an operator rejected it"})]
    with pytest.raises(UserError, match=r"refused to apply run some-run: .*an operator rejected it"):
        apply_by_any_node("some-run", database_url, 10.0)


def test_run_that_exceeds_the_timeout_is_reported_and_continues(
    database_url: str, sql_connection: PsycopgConnection
) -> None:
    with running(FakeNode(["applying"])) as slow:
        rows(sql_connection, NODE, slow.url)

        with pytest.raises(UserError) as refused:
            apply_by_any_node("some-run", database_url, 0.0)

    assert refused.value.exit_code == 1
    assert refused.value.sentence.startswith("Run some-run is not completed after 0 s; it continues")
    assert "muster runs show some-run" in refused.value.sentence


def test_run_whose_nodes_end_while_it_is_applied_continues(
    database_url: str, sql_connection: PsycopgConnection, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(LeavingNode()) as leaving:
        rows(sql_connection, NODE, leaving.url)
        with pytest.raises(UserError, match="Run some-run is not completed after 1 s; it continues"):
            apply_by_any_node("some-run", database_url, 1.0)
    assert "The proposal waits" not in capsys.readouterr().out


@pytest.mark.usefixtures("jobs_in_warm_spark")
@pytest.mark.slow
def test_failed_job_reports_reason_and_log_file(
    settings: Settings, sql_connection: PsycopgConnection, tmp_path: Path
) -> None:
    rows(sql_connection, "ALTER TABLE offsets RENAME TO mislaid")
    with pytest.raises(UserError) as failure:
        run_job(JOB, AS_OF, True, settings)
    assert failure.value.sentence.startswith("The job offset_retention failed")
    log = tmp_path / "logs" / f"job-offset_retention-{os.getpid()}.log"
    assert str(log) in failure.value.sentence
    assert failure.value.exit_code == 1
    assert 'relation "offsets" does not exist' in log.read_text()


def test_job_deletes_logs_of_finished_jobs_only(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    over = subprocess.Popen(["true"])
    over.wait()
    names = (f"{JOB}-{os.getppid()}", f"{JOB}-{over.pid}", f"{JOB}-{os.getpid()}", JOB, "group_cleanup-1")
    for name in names:
        (logs / f"job-{name}.log").touch()
    assert jobs.new_log_file(JOB, tmp_path) == logs / f"job-{JOB}-{os.getpid()}.log"
    assert {log.stem for log in logs.iterdir()} == {f"job-{JOB}-{os.getppid()}", "job-group_cleanup-1"}


def test_unknown_job_is_rejected_with_the_list_of_jobs(settings: Settings) -> None:
    with pytest.raises(UserError, match="There is no job tidy_up; there are: offset_retention, group_cleanup"):
        run_job("tidy_up", None, True, settings)
