"""Log events: docs/logs.md lists every event with its level, and each occurrence is logged."""

import ast
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import structlog

from coordinator_core.protocol.records import AssignmentAccepted
from coordinator_core.runtime.events import LOGGED_MEMBERS_MAX, log_member_events
from tests.support.http_client import Client, Json, join_body
from tests.support.nodes import running_node
from tests.support.repository import ROOT
from tests.support.waiting import poll_until

PAGE = ROOT / "docs" / "logs.md"
ROW = re.compile(r"\| `(?P<event>[a-z_]+)` \| (?P<level>[a-z]+) \| (?P<when>.*?) \|")
KEYS = re.compile(r"\([^)]*\)")
"""What names the keys of an event."""
LEVELS = {"info": "info", "warning": "warning", "error": "error", "exception": "error"}
"""Method → level."""


def written() -> Iterator[tuple[str, str, set[str | None]]]:
    """Return every event in the code, with its level and its keys; None stands for keys that the code computes."""
    for folder in ("api", "coordinator_core", "mirror", "muster"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Call(func=ast.Attribute(ast.Name("log"), method), args=[name]) if method in LEVELS:
                        assert isinstance(name, ast.Constant), f"{path}: an event has one name"
                        assert isinstance(name.value, str), f"{path}: an event's name is a text"
                        yield name.value, LEVELS[method], {key.arg for key in node.keywords}


def test_logs_page_names_every_log_event() -> None:
    promised = {row["event"]: row["level"] for row in map(ROW.match, PAGE.read_text().splitlines()) if row}
    of_requests = {event: promised.pop(event) for event in ("change_recorded", "request_refused")}
    without_logger = promised.pop("memory_exhausted")

    assert promised == {event: level for event, level, _ in written()}
    assert of_requests == {"change_recorded": "info", "request_refused": "info"}
    assert without_logger == "critical"


def test_logs_page_names_keys_that_events_have() -> None:
    keys: dict[str, set[str | None]] = {}
    for event, _, given in written():
        keys.setdefault(event, set()).update(given)
    named = {
        row["event"]: {key for part in KEYS.findall(row["when"]) for key in re.findall(r"`([a-z_]+)`", part)}
        for row in map(ROW.match, PAGE.read_text().splitlines())
        if row and None not in keys.get(row["event"], {None})
    }

    assert len(named) > 50
    assert {event: missing for event, given in named.items() if (missing := given - keys[event])} == {}


def test_no_name_controls_the_terminal_of_a_node() -> None:
    code = (
        "import logging, structlog; from muster.node.serve import write_log; write_log();"
        r"structlog.get_logger('muster.http').info('request_refused', group='a\x1b[2Jb', actor='c\x9b2Jd\u202ee');"
        r"logging.warning('a library says \x1b[2J')"
    )
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True)
    os.close(theirs)
    said = os.read(ours, 65_536).decode()
    os.close(ours)

    assert "a�[2Jb" in said
    assert "c�2Jd�e" in said
    assert "a library says �[2J" in said


def test_log_that_finds_no_space_fails_nothing() -> None:
    code = (
        "import logging, structlog; from muster.node.serve import write_log; write_log();"
        "structlog.get_logger('muster.http').info('request_refused'); logging.warning('a library');"
        "print('the node goes on')"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, check=False, text=True)

    assert done.stdout == "the node goes on\n"


def test_node_and_group_lifecycle_is_logged(database_url: str) -> None:
    quick = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 1}
    with (
        structlog.testing.capture_logs() as events,
        running_node(database_url, **quick) as node,
        closing(Client(node.url)) as client,
    ):
        member = client.group("g").stable(session_timeout_ms=1_000)
        poll_until(lambda: bool(of(events, "rebalance_ended", outcome="emptied")))

    started, evicted = of(events, "node_started"), of(events, "member_removed")
    assert [event["url"] for event in started] == [node.url]
    assert [(event["group"], event["member"], event["reason"]) for event in evicted] == [
        ("g", member.member_id, "session_expired")
    ]
    completed, emptied = of(events, "rebalance_ended")
    assert (completed["trigger"], completed["outcome"], completed["members_after"]) == ("member_joined", "completed", 1)
    assert (emptied["trigger"], emptied["outcome"]) == ("session_expired", "emptied")
    assert sorted(shard for event in of(events, "shards_acquired") for shard in event["shards"]) == list(range(50))
    assert [event["event"] for event in events][-2:] == ["shards_released", "node_stopped"]
    assert of(events, "node_stopping")


def test_misspelled_setting_is_warned_about(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_SESION_TIMEOUT_MS", "5000")
    with structlog.testing.capture_logs() as events, running_node(database_url):
        pass

    (warning,) = of(events, "setting_unknown", setting="MUSTER_SESION_TIMEOUT_MS")
    assert (warning["log_level"], "MUSTER_SESSION_TIMEOUT_MS" in warning["reason"]) == ("warning", True)


def of(events: list[Json], name: str, **fields: str) -> list[Json]:
    return [event for event in events if event["event"] == name and fields.items() <= event.items()]


def test_leaving_member_is_not_logged(client: Client) -> None:
    with structlog.testing.capture_logs() as events:
        group = client.group("leaver")
        member = group.stable()
        group.post("leave", {"members": [{"member_id": member.member_id}]})
        group.post("join", join_body())

    assert not of(events, "member_removed")


def test_members_omitted_from_the_assignment_are_logged(client: Client) -> None:
    group = client.group("incomplete")
    with structlog.testing.capture_logs() as events:
        leader = group.join()
        assert leader.sync().json["assignment"]["partitions"] == []
        assert group.describe()["state"] == "Stable"

    (event,) = of(events, "members_omitted_from_assignment")
    assert (event["group"], event["generation"]) == ("incomplete", leader.generation)
    assert (event["members"], event["member_count"]) == ([leader.member_id], 1)


def test_an_assignment_that_names_every_member_is_not_logged(client: Client) -> None:
    with structlog.testing.capture_logs() as events:
        client.group("complete").stable()

    assert not of(events, "members_omitted_from_assignment")


def test_first_omitted_members_are_named_and_all_are_counted() -> None:
    names = tuple(f"m-{number}" for number in range(3 * LOGGED_MEMBERS_MAX))
    with structlog.testing.capture_logs() as events:
        log_member_events("g", [AssignmentAccepted(1, 7, (), omitted_members=names)])

    assert [(event["members"], event["member_count"]) for event in events] == [
        (list(names[:LOGGED_MEMBERS_MAX]), len(names))
    ]
    assert f"`members`: the first {LOGGED_MEMBERS_MAX})" in PAGE.read_text()
