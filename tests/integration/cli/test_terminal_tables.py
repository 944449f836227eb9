"""Tables at a terminal of 120 columns: one line a row by default, all columns with `--wide`, and whole ids."""

import json
import sys
from uuid import uuid4

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.output import Table
from tests.support.http_client import Client, fresh_id, position
from tests.support.known_log_ends import run_sql
from tests.support.muster_command import Muster
from tests.support.offset_log import wait_for_checkpoint

COLUMNS = 120
COUNTS = {"candidates": 3, "of": 63, "groups": 1, "largest_group_permille": 0, "simple_group": 3, "undecided": 3}


@pytest.fixture(scope="module")
def names(client: Client) -> dict[str, str]:
    """Give a group with members, offsets, history and changes, and the names of these."""
    group, topic = client.group(fresh_id("settlement-")), fresh_id("payments-")
    past = group.stable(topic, client_id="settlement-1")
    client.ok("POST", f"{group.path}/leave", {"members": [{"member_id": past.member_id}]})
    group.stable(topic, client_id="settlement-1").commit(position(125_000, topic=topic, log_end_offset=125_100))
    client.ok("PUT", f"{group.path}/config", {"values": {"group_max_size": 7}, "reason": "longer pauses"})
    return {"GROUP": group.group_id, "TOPIC": topic, "RUN": str(uuid4())}


@pytest.fixture
def run(names: dict[str, str], rows: PsycopgConnection) -> None:
    """Propose to expire the offset of the group."""
    wait_for_checkpoint(rows)
    run_sql(
        rows,
        "INSERT INTO maintenance_runs (run_id, kind, as_of, status, dry_run, counts, created_at)"
        " VALUES (%s, 'offset_retention', now(), 'proposed', false, %s, now())"
        " ON CONFLICT DO NOTHING RETURNING 1",
        names["RUN"],
        json.dumps(COUNTS),
    )
    run_sql(
        rows,
        "INSERT INTO expiry_candidates"
        " (run_id, shard_id, group_id, topic, partition, commit_version, committed_at, state_since, reason)"
        " SELECT %s, shard_id, group_id, topic, partition, commit_version, committed_at, now(), 'empty group'"
        " FROM offsets WHERE group_id = %s ON CONFLICT DO NOTHING RETURNING 1",
        names["RUN"],
        names["GROUP"],
    )


@pytest.fixture(scope="module")
def long_names(client: Client) -> dict[str, str]:
    """Give a group with a long id, and a client and a change of it whose names and reason are long, too."""
    group = client.group(fresh_id("settlement-of-international-card-payments-"))
    member = group.stable(fresh_id("payments-"), client_id="settlement-worker-1")
    reason = "its consumers pause for longer since the last release, see OPS-1234"
    client.ok("PUT", f"{group.path}/config", {"values": {"group_max_size": 7}, "reason": reason})
    (change,) = client.ok("GET", f"/v1/changes?group_id={group.group_id}")["changes"]
    return {"GROUP": group.group_id, "MEMBER": member.member_id, "CHANGE": change["change_id"]}


def at_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Make the output a terminal of this width, which has no colours."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for name, value in {"COLUMNS": str(columns), "LINES": "50", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    "command",
    [
        "groups describe GROUP --state",
        "groups describe GROUP --members",
        "groups describe GROUP --offsets",
        "groups members GROUP",
        "groups rebalances GROUP",
        "groups sessions GROUP",
        "groups owners GROUP",
        "offsets show GROUP",
        "changes list GROUP",
        "runs candidates RUN",
    ],
)
def test_tables_fit_a_terminal_and_lose_no_column(
    muster: Muster, names: dict[str, str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [names.get(word, word) for word in command.split()]
    piped = muster.ok(*words).out.splitlines()[0].split()

    at_terminal(monkeypatch, COLUMNS)
    narrow = muster.ok(*words).out.splitlines()
    at_terminal(monkeypatch, 400)
    wide = muster.ok(*words, "--wide").out.splitlines()[0].split()

    assert [line for line in narrow if len(line) > COLUMNS or line.startswith(" ")] == []
    assert wide == piped
    assert len(narrow[0].split()) < len(piped)
    assert narrow[0].split() == [word for word in piped if word in narrow[0].split()]


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("runs list", "RUN"),
        ("changes list GROUP", "CHANGE"),
        ("groups members GROUP", "MEMBER"),
        ("groups owners GROUP", "MEMBER"),
    ],
)
def test_ids_are_whole_beside_long_names(
    muster: Muster,
    names: dict[str, str],
    long_names: dict[str, str],
    command: str,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_terminal(monkeypatch, COLUMNS)
    printed = muster.ok(*(long_names.get(word, word) for word in command.split())).out

    assert (names | long_names)[shown] in printed
    assert [line for line in printed.splitlines() if len(line) > COLUMNS] == []


@pytest.mark.parametrize("command", ["groups describe GROUP --offsets", "offsets show GROUP"])
def test_the_one_group_that_is_asked_for_is_no_column(
    muster: Muster,
    names: dict[str, str],
    long_names: dict[str, str],
    command: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [names.get(word, word) for word in command.split()]
    at_terminal(monkeypatch, COLUMNS)

    assert muster.ok(*words).out.startswith("TOPIC ")
    assert muster.ok(*words, long_names["GROUP"]).out.startswith("GROUP ")


@pytest.mark.parametrize("columns", [20, 60, 80])
def test_table_that_is_too_wide_for_its_terminal_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    table = Table("group_id", "offset", "topic", "committed_offset", "log_end_offset", "commit_version", "host")
    table.add("billing", 1, "orders", 2, 3, 4, "192.0.2.7")
    at_terminal(monkeypatch, columns)
    table.print()

    headings, row = capsys.readouterr().out.splitlines()
    assert headings.split() == [
        *("group_id", "offset", "topic", "committed_offset", "log_end_offset", "commit_version", "host")
    ]
    assert row.split() == ["billing", "1", "orders", "2", "3", "4", "192.0.2.7"]
