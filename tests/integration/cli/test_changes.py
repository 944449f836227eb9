"""Settings, changes and maintenance runs on the command line: actor, reason and undo."""

import json
import re
from collections.abc import Iterator
from typing import cast
from urllib.parse import quote
from uuid import uuid4

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from structlog.testing import capture_logs

from muster import node_client
from muster.cli import runs
from muster.cli.changes import undo_change
from muster.cli.runs import apply_timeout_s
from muster.node_client import Json
from muster.node_client import NodeClient as Asked
from muster.settings import psql_url
from spark_jobs import submit
from tests.support.databases import Databases
from tests.support.http_client import Client, Group, fresh_id, position
from tests.support.muster_command import Muster, Ran, commit, offsets_of, undo_command
from tests.support.nodes import Node, hanging_node, running_node
from tests.support.offset_log import wait_for_checkpoint

# -- config -------------------------------------------------------------------------------------------------


def effective(muster: Muster, key: str, *group: str) -> tuple[object, str]:
    values = muster.ok("config", "get", *group, "--key", key, "--json").json["values"]
    return values[key]["value"], values[key]["source"]


@pytest.mark.parametrize("how", [["GROUP", "KEY"], ["KEY", "--group", "GROUP"]])
def test_setting_is_changed_and_undone(muster: Muster, group: Group, how: list[str]) -> None:
    words = {"GROUP": group.group_id, "KEY": "group_max_size=7"}

    said = muster.ok("config", "set", *(words.get(word, word) for word in how), "--reason", "it is small").out

    assert said.splitlines()[1].split() == ["group_max_size", "10000", "7", "group"]
    assert effective(muster, "group_max_size", group.group_id) == (7, "group")
    (change,) = muster.ok("changes", "list", group.group_id, "--json").json["changes"]
    assert (change["actor"], change["reason"]) == ("ada", "it is small")
    assert undo_command(said) == ["changes", "undo", change["change_id"]]
    muster.ok("config", "undo", "--group", group.group_id)
    assert effective(muster, "group_max_size", "--group", group.group_id) == (10000, "default")
    assert "No change of settings" in muster.refused(1, "config", "undo", "--group", group.group_id)


def test_undo_finds_a_change_behind_others(muster: Muster, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_client, "PAGE", 2)
    muster.ok("config", "set", "group_max_size=77")
    for size in range(5):
        muster.ok("config", "set", group.group_id, f"group_max_size={size + 5}")

    assert "group_max_size  restored" in muster.ok("config", "undo").out


def test_undo_that_restores_nothing_fails(muster: Muster, group: Group) -> None:
    first, _ = (muster.ok("config", "set", group.group_id, f"group_max_size={size}") for size in (7, 8))

    said = muster(*undo_command(first.out))

    assert said.exit_code == 1
    assert said.out.splitlines()[1:] == ["group_max_size  newer_there  8"]
    assert said.err == "muster: Nothing was restored; OUTCOME says why.\n"


def test_several_settings_are_set_and_reset_to_default(muster: Muster, group: Group) -> None:
    muster.ok("config", "set", group.group_id, "session_timeout_ms=9000", "group_sync_timeout_scope=dynamic")
    changed = muster.ok("config", "set", group.group_id, "session_timeout_ms=", "--json").json

    assert changed["values"] == {
        "session_timeout_ms": {
            "before": {"value": 9000, "source": "group"},
            "after": {"value": None, "source": "default"},
        }
    }
    assert effective(muster, "group_sync_timeout_scope", group.group_id) == ("dynamic", "group")


def test_cluster_settings_are_changed(muster: Muster, group: Group) -> None:
    muster.ok("config", "set", "offsets_retention_minutes=5")
    try:
        assert effective(muster, "offsets_retention_minutes", group.group_id) == (5, "cluster")
    finally:
        muster.ok("config", "undo")
    assert effective(muster, "offsets_retention_minutes") == (10_080, "default")
    assert len(muster.ok("config", "get").rows) == 17


def test_nodes_that_have_not_confirmed_a_setting_are_named(bare_muster: Muster, databases: Databases) -> None:
    url = databases.create()
    with capture_logs(), running_node(url) as node:

        def config(*words: str) -> Ran:
            return bare_muster.ok("config", *words, "--url", node.url)

        with hanging_node(url) as hanging:
            text = f"Not confirmed by {hanging}: a node applies the change when it renews its leases"
            assert text in config("set", "group_max_size=7").out
            assert text in config("get").out
            assert config("get", "--json").json["unconfirmed_nodes"] == [hanging]
            assert text in config("undo").out
            assert config("set", "group_max_size=", "--json").json["unconfirmed_nodes"] == [hanging]
        assert "Not confirmed" not in config("get").out
    databases.drop(url)


@pytest.mark.parametrize(
    ("exit_code", "words", "said"),
    [
        (2, ["GROUP"], "Say what to set as KEY=VALUE, such as session_timeout_ms=30000."),
        (2, ["GROUP", "a=1", "b"], "Say what to set as KEY=VALUE"),
        (2, ["a", "group_max_size=1", "--group", "b"], "Two groups are named, a and b; one is wanted."),
        (1, ["GROUP", "group_max_size=0"], "group_max_size must be from 1 to 2147483647 (INVALID_REQUEST)."),
        (1, ["GROUP", "group_max_size=many"], "group_max_size must be a whole number (INVALID_REQUEST)."),
    ],
)
def test_invalid_setting_value_is_rejected(
    muster: Muster, group: Group, exit_code: int, words: list[str], said: str
) -> None:
    refusal = muster.refused(
        exit_code, "config", "set", *(group.group_id if word == "GROUP" else word for word in words)
    )

    assert said in refusal


@pytest.mark.parametrize("words", [("get", "--key", "speed"), ("set", "group_max_size=7", "speed=9")])
def test_unknown_setting_is_a_usage_error(muster: Muster, words: tuple[str, ...]) -> None:
    assert muster.refused(2, "config", *words).startswith("Unknown setting speed; the settings are: session")


# -- changes ------------------------------------------------------------------------------------------------


def test_changes_are_listed_and_shown_in_full(muster: Muster, group: Group) -> None:
    commit(group, position(5))
    muster.ok("groups", "reset-offsets", group.group_id, "--all-topics", "--to-offset", "1", "--execute")
    (listed,) = muster.ok("changes", "list", "--group", group.group_id, "--json").json["changes"]

    row = muster.ok("changes", "list", group.group_id).rows[0]
    assert row[2:5] == ["ada", "reset_offsets", group.group_id]
    assert row[-1] == listed["change_id"]
    said = muster.ok("changes", "show", listed["change_id"]).out
    assert "actor: ada" in said
    assert '"offset": 5' in said.partition("before:")[2].partition("after:")[0]
    assert muster.ok("changes", "show", listed["change_id"], "--json").json == listed


def test_a_name_with_line_breaks_adds_no_line_to_a_change(muster: Muster, client: Client) -> None:
    group = client.group(f"{fresh_id()}\nactor: grace\n\x1b[2J")
    client.ok("PUT", f"{group.path}/config", {"values": {"group_max_size": 7}, "reason": "a test\u2028undone_at: now"})
    (listed,) = client.ok("GET", f"/v1/changes?group_id={quote(group.group_id)}")["changes"]

    said = muster.ok("changes", "show", listed["change_id"]).out.splitlines()

    assert [line for line in said if line.startswith(("actor:", "undone_at:"))] == ["actor: ada"]
    assert next(line for line in said if line.startswith("group_id:")).endswith("�actor: grace��[2J")


def test_changes_are_selected_by_actor_and_action(muster: Muster, group: Group) -> None:
    muster.ok("config", "set", group.group_id, "group_max_size=7", "--actor", "grace")
    muster.ok("config", "set", group.group_id, "group_max_size=8")
    muster.ok("config", "undo", "--group", group.group_id)

    def listed(*filters: str) -> list[str]:
        found = muster.ok("changes", "list", group.group_id, *filters, "--json").json["changes"]
        return [f"{each['actor']} {each['action']}" for each in found]

    assert listed() == ["ada undo", "ada put_settings", "grace put_settings"]
    assert listed("--actor", "GRA") == ["grace put_settings"]
    assert listed("--action", "put_settings") == ["ada put_settings", "grace put_settings"]
    assert listed("--action", "undo,reset_offsets", "--actor", "ada") == ["ada undo"]
    none = muster.ok("changes", "list", group.group_id, "--action", "delete_group").out
    assert none == "No matching changes.\n"


def test_the_topic_of_a_change_is_listed(muster: Muster, topic: str) -> None:
    muster.ok("topics", "set", topic, "--partitions", "3")
    muster.ok("topics", "delete", topic, "--execute")

    table = muster.ok("changes", "list", "--action", "put_topic,delete_topic", "--limit", "2").out.splitlines()

    assert "  TOPIC  " in table[0]
    assert [(row.split()[3], topic in row.split()) for row in table[1:]] == [
        ("delete_topic", True),
        ("put_topic", True),
    ]


def test_values_kept_by_an_undo_are_reported(muster: Muster, group: Group) -> None:
    commit(group, position(5), position(6, partition=1))
    plan = muster.ok(
        "groups", "reset-offsets", group.group_id, "--all-topics", "--to-offset", "1", "--execute", "--json"
    )
    commit(group, position(99, partition=1))

    said = muster.ok("changes", "undo", plan.json["groups"][0]["change_ids"][0]).out

    assert said.splitlines()[-1] == "The change is undone, except for 1; OUTCOME says why."
    assert offsets_of(group) == {("orders", 0): 5, ("orders", 1): 99}


def test_undo_of_an_empty_deletion_reports_no_restored_offsets(muster: Muster, group: Group) -> None:
    commit(group, position(5))
    muster.ok("offsets", "delete", group.group_id, "--topic", "visits", "--execute")
    (change,) = muster.ok("changes", "list", group.group_id, "--json").json["changes"]

    said = muster.ok("changes", "undo", change["change_id"]).out

    assert said == "The change removed nothing, so there is nothing to restore.\n"


@pytest.mark.parametrize("change", ["no-uuid", "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d", "a/b?c"])
def test_unknown_change_is_reported(muster: Muster, change: str) -> None:
    for command in (["show"], ["undo"]):
        assert "(RESOURCE_NOT_FOUND)." in muster.refused(1, "changes", *command, change)


def test_group_without_changes_is_reported(muster: Muster, group: Group) -> None:
    assert muster.ok("changes", "list", group.group_id).out.startswith("No changes")


# -- runs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(node: Node) -> Iterator[PsycopgConnection]:
    assert node.settings.database_url is not None
    connection = psycopg2.connect(psql_url(node.settings.database_url.get_secret_value()))
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.fixture
def run_id(rows: PsycopgConnection, client: Client) -> str:
    """Propose to expire an offset that was committed since, so that it will be kept."""
    group = client.group(fresh_id())
    commit(group, position(5))
    wait_for_checkpoint(rows)
    run_id = str(uuid4())
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, dry_run, counts, created_at)"
            " VALUES (%s, 'offset_retention', now(), 'proposed', false, %s, now())",
            (run_id, json.dumps({"candidates": 1, "of": 4})),
        )
        cursor.execute(
            "INSERT INTO expiry_candidates"
            " (run_id, shard_id, group_id, topic, partition, commit_version, committed_at, reason)"
            " SELECT %s, shard_id, group_id, topic, partition, commit_version, committed_at, 'retention'"
            " FROM offsets WHERE group_id = %s",
            (run_id, group.group_id),
        )
    return run_id


def test_run_is_a_dry_run_unless_executed(muster: Muster, run_id: str) -> None:
    output = muster.ok("runs", "apply", run_id).out
    assert "1 candidate would be checked again. Dry run; use --execute to apply." in output
    assert muster.ok("runs", "show", run_id, "--json").json["status"] == "proposed"

    applied = muster.ok("runs", "apply", run_id, "--execute", "--wait", "--json").json

    assert applied["status"] == "applied"
    assert f"{run_id}: offset_retention as of " in muster.ok("runs", "show", run_id).out
    assert "there is nothing to decide" in muster.ok("runs", "apply", run_id).out
    shown = [row[:3] for row in muster.ok("runs", "show", run_id).rows]
    assert ["Examined", "4", "all"] in shown
    assert ["Outcome:", "not", "due"] in shown


def test_proposals_are_listed_behind_many_newer_runs(muster: Muster, rows: PsycopgConnection, run_id: str) -> None:
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts, created_at)"
            " SELECT gen_random_uuid(), 'offset_retention', now(), 'rejected', '{}', clock_timestamp()"
            " FROM generate_series(1, 100)"
        )
    listed = muster.ok("runs", "list", "--status", "proposed,failed", "--json").json["runs"]
    assert run_id in [run["run_id"] for run in listed]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["runs", "list", "--status", "applied,lost"], "--status 'lost': use proposed, applying, applied, rejected"),
        (["runs", "list", "--status", ""], "--status '': use proposed, applying, applied, rejected, failed."),
        (["changes", "list", "--action", "reset"], "--action 'reset': use delete_offsets, delete_group, reset"),
    ],
)
def test_status_or_action_that_does_not_exist_is_a_usage_error(muster: Muster, command: list[str], said: str) -> None:
    assert muster.refused(2, *command).startswith(said)


def test_run_shows_who_rejected_it_and_why(muster: Muster, run_id: str) -> None:
    muster.ok("runs", "reject", run_id, "--reason", "still used")
    output = muster.ok("runs", "show", run_id).out
    (decided,) = re.findall(r"\nDecided by (\S+ at \S+ \S+ UTC: still used)\n", output)
    listed = muster.ok("runs", "list", "--status", "rejected", "--wide").out
    assert any(line.startswith(run_id) and decided in line for line in listed.splitlines())


def test_run_shows_the_rejection_that_holds_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    held_by = {"run_id": "r0", "actor": "ada", "at": "2026-11-20T10:00:00Z", "reason": None}
    run = {"run_id": "r1", "kind": "group_cleanup", "as_of": "2026-11-21T10:00:00Z", "status": "proposed"}
    runs.print_run({**run, "dry_run": False, "counts": {}, "decision": None, "held_by": held_by}, as_json=False)
    said = "Has the candidates of run r0, rejected by ada at 2026-11-20 10:00:00 UTC"
    assert capsys.readouterr().out.splitlines()[1] == said


def test_applied_run_prints_its_undo_command_once(muster: Muster, run_id: str) -> None:
    first = muster.ok("runs", "apply", run_id, "--execute").out
    muster.ok("runs", "apply", run_id, "--execute", "--wait", "--json")
    again = muster.ok("runs", "apply", run_id, "--execute", "--wait").out

    assert "Undo with: " not in again
    assert undo_command(first)[:2] == ["changes", "undo"]
    assert muster.ok(*undo_command(first), "--json").json["undoes"] == undo_command(first)[2]


class AppliedRun:
    """A node that applies a run at once."""

    def __init__(self, kind: str, candidates: int, status_before: str) -> None:
        self.change_id: str | None = None
        self._kind = kind
        self._candidates = candidates
        self._status_before = status_before

    def post(self, path: str, body: Json) -> Json:
        assert (path, body) == ("/v1/maintenance/runs/r1/apply", {"reason": "too old"})
        self.change_id = "c1"
        run = {"run_id": "r1", "kind": self._kind, "as_of": "", "status": "applied", "dry_run": False}
        return {**run, "counts": {"candidates": self._candidates}}

    def get(self, path: str) -> Json:
        assert path == "/v1/changes/c1"
        return {"before": {"status": self._status_before}}


@pytest.mark.parametrize(
    ("kind", "candidates", "status_before", "undoes"),
    [
        ("offset_retention", 1, "proposed", ["Undo with: muster changes undo c1"]),
        ("offset_retention", 0, "proposed", []),
        ("offset_retention", 1, "applied", []),
        ("group_cleanup", 1, "proposed", []),
        ("history_archive", 1, "proposed", []),
    ],
)
def test_undo_command_is_printed_for_runs_that_removed_offsets(
    capsys: pytest.CaptureFixture[str], kind: str, candidates: int, status_before: str, undoes: list[str]
) -> None:
    node = cast(Asked, AppliedRun(kind, candidates, status_before))

    runs.apply_run(node, "r1", "too old", is_dry_run=False, waits=False, as_json=False)

    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("Undo")] == undoes


def test_run_that_exceeds_the_timeout_is_reported_and_continues(
    muster: Muster, run_id: str, rows: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "apply_timeout_s", lambda: -1.0)
    with rows.cursor() as cursor:  # Of a shard that nobody owns, so that it is never worked off.
        cursor.execute("UPDATE expiry_candidates SET shard_id = 99 WHERE run_id = %s", (run_id,))

    said = muster.refused(1, "runs", "apply", run_id, "--execute", "--wait")

    assert said.endswith(f"it continues; muster runs show {run_id} shows its progress.")


def test_command_waits_for_the_dag_timeout_and_rejects_a_bad_time_first(
    muster: Muster, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUSTER_APPLY_TIMEOUT_MINUTES", raising=False)
    assert apply_timeout_s() == submit.apply_timeout().total_seconds() == 3_600
    monkeypatch.setenv("MUSTER_APPLY_TIMEOUT_MINUTES", "90")
    assert apply_timeout_s() == submit.apply_timeout().total_seconds() == 5_400

    monkeypatch.setenv("MUSTER_APPLY_TIMEOUT_MINUTES", "soon")
    said = muster.refused(2, "runs", "apply", run_id, "--execute", "--wait")

    assert said == "MUSTER_APPLY_TIMEOUT_MINUTES is 'soon'; it must be a whole number of minutes from 1 to 10080."
    assert muster.ok("runs", "show", run_id, "--json").json["status"] == "proposed"


def test_candidates_of_a_run_are_shown_with_their_outcomes(muster: Muster, run_id: str) -> None:
    (row,) = muster.ok("runs", "candidates", run_id).rows
    assert row[1:3] == ["orders", "0"]
    assert row[-2:] == ["retention", "undecided"]

    muster.ok("runs", "apply", run_id, "--execute", "--wait")

    (shown,) = muster.ok("runs", "candidates", run_id, "--json").json["candidates"]
    assert shown["outcome"] == "not_due"


def test_a_run_about_history_shows_its_days(muster: Muster, run_id: str, rows: PsycopgConnection) -> None:
    with rows.cursor() as cursor:
        cursor.execute("DELETE FROM expiry_candidates WHERE run_id = %s", (run_id,))
        cursor.execute(
            "INSERT INTO archive_candidates (run_id, table_name, day, source, path, row_count, checksum, verified_at)"
            " SELECT %s, 'rebalances', '2026-10-01'::date + n, '', 'file:///a', 7, '1-1', now()"
            " FROM generate_series(0, 1) AS n",
            (run_id,),
        )
    assert muster.ok("runs", "candidates", run_id).rows == [
        ["rebalances", "2026-10-01", "7", "undecided", "file:///a"],
        ["rebalances", "2026-10-02", "7", "undecided", "file:///a"],
    ]
    (one,) = muster.ok("runs", "candidates", run_id, "--limit", "1", "--json").json["days"]
    assert one["day"] == "2026-10-01"


def test_rejected_run_cannot_be_applied(muster: Muster, run_id: str) -> None:
    assert muster.ok("runs", "reject", run_id, "--json").json["status"] == "rejected"

    assert "(INVALID_REQUEST)." in muster.refused(1, "runs", "apply", run_id, "--execute")
    listed = muster.ok("runs", "list", "--status", "rejected", "--json").json["runs"]
    assert run_id in {each["run_id"] for each in listed}
    assert run_id in muster.ok("runs", "list").out
    assert muster.ok("runs", "list", "--status", "failed").out == "No matching runs.\n"


def test_unknown_run_is_reported(muster: Muster) -> None:
    assert "(RESOURCE_NOT_FOUND)." in muster.refused(1, "runs", "show", "nothing")


class UndoneChange:
    """A node at which a change of many groups is taken back, by a run."""

    def __init__(self, candidates: int) -> None:
        self.candidates = candidates

    def post(self, path: str, body: Json) -> Json:
        assert body == {"reason": "too early"}
        none = {"offsets": [], "offset_count": 0, "settings": [], "topic": None}
        return {"action": "apply_run", "run_id": path.split("/")[3], "candidates": self.candidates, **none}


@pytest.mark.parametrize(
    ("candidates", "words"), [(1, "Run c1 restores 1 offset;"), (2_000, "Run c1 restores 2,000 offsets;")]
)
def test_count_of_restored_offsets_is_printed_in_singular_and_plural(
    capsys: pytest.CaptureFixture[str], candidates: int, words: str
) -> None:
    undo_change(cast(Asked, UndoneChange(candidates)), "c1", "too early", as_json=False)

    assert capsys.readouterr().out.startswith(words)
