"""`muster groups sessions` lists end reasons, rejoins, and the session timeout to simulate."""

import json
from typing import Any, cast

import pytest

from muster.cli.members import END_REASONS, print_sessions
from muster.node_client import Json, NodeClient
from tests.support.http_client import Group
from tests.support.muster_command import Muster


def session(second: int, end_reason: str = "session_expired", back_second: int | None = None, **given: object) -> Json:
    """Return a session that ended at a second of 02:13, and whose client rejoined at another."""
    return {
        "client_id": "courier",
        "client_host": "10.0.0.7",
        "group_instance_id": None,
        "joined_at": "2026-11-21T02:00:00Z",
        "ended_at": f"2026-11-21T02:13:{second:02}Z",
        "end_reason": end_reason,
        "last_heartbeat_at": "2026-11-21T02:12:50Z",
        "heartbeat_count": 12,
        "heartbeat_gap_ms_max": 3_100,
        "session_timeout_ms": 10_000,
        "reconnected_at": None if back_second is None else f"2026-11-21T02:13:{back_second:02}Z",
        "successor_at": None,
        "cause": None,
        **given,
    }


class CannedNode:
    """A node that returns these sessions, and records requests."""

    def __init__(self, *sessions: Json) -> None:
        self.sessions = list(sessions)
        self.asked: dict[str, Any] = {}
        self.session_timeout_ms: int | None = None

    def get(self, path: str) -> Json:
        assert path.endswith("/config")
        return {"values": {"session_timeout_ms": {"value": self.session_timeout_ms}}}

    def pages(self, path: str, field: str, limit: int, **query: object) -> list[Json]:
        self.asked = {"path": path, "limit": limit, **query}
        assert field == "member_sessions"
        return self.sessions


def said(
    node: CannedNode,
    capsys: pytest.CaptureFixture[str],
    since: str | None = None,
    *,
    with_intervals: bool = False,
    as_json: bool = False,
) -> str:
    print_sessions(
        cast(NodeClient, node),
        "couriers",
        20,
        since,
        None,
        with_intervals=with_intervals,
        is_wide=False,
        as_json=as_json,
    )
    return capsys.readouterr().out


def test_evicted_and_rejoined_client_is_listed_with_a_timeout_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(
        CannedNode(session(0, back_second=4), session(30, back_second=31), session(40, "left", client_id="other")),
        capsys,
    )

    assert out.splitlines()[1].split()[:4] == ["2026-11-21", "02:13:00", "session_expired", "courier"]
    assert "courier was evicted 2 times for missed heartbeats, and rejoined within 4.0 s." in out
    assert "muster groups tuning --group=couriers --session-timeout-ms 20000" in out
    assert "other was evicted" not in out


def test_member_that_missed_a_rebalance_is_reported_as_alive(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(
        CannedNode(session(0, "rebalance_timeout", cause="late_join"), session(1, "sync_timeout", cause="silent")),
        capsys,
    )
    assert "rebalance_timeout, alive" in out
    assert "sync_timeout, alive" not in out


def test_member_that_left_gets_no_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert "was evicted" not in said(CannedNode(session(0), session(1, "left", back_second=2)), capsys)


def test_eviction_that_the_effective_timeout_would_prevent_gets_no_advice(capsys: pytest.CaptureFixture[str]) -> None:
    node = CannedNode(session(0, back_second=4))
    node.session_timeout_ms = 13_999
    assert "muster groups tuning" in said(node, capsys)
    node.session_timeout_ms = 14_000
    out = said(node, capsys)
    assert "The effective session timeout, 14.0 s, would have kept it" in out
    assert "muster groups tuning" not in out


def test_crash_before_eviction_gets_no_longer_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    followed_at = "2026-11-21T02:12:55Z"
    out = said(CannedNode(session(0, successor_at=followed_at), session(30, successor_at=followed_at)), capsys)
    assert "courier crashed 2 times: it rejoined before its old session expired." in out
    assert "A longer session timeout does not help" in out
    assert "muster groups tuning" not in out


def test_only_ended_sessions_are_listed_without_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    node = CannedNode()
    assert "No member session of couriers has ended" in said(node, capsys, since="2026-11-21T02:00:00")
    assert (node.asked["from"], node.asked["to"], node.asked["end_reason"]) == (
        "2026-11-21T02:00:00+00:00",
        None,
        END_REASONS,
    )
    node.sessions = [session(0, "hour")]
    assert "ongoing" in said(node, capsys, with_intervals=True)
    assert node.asked["end_reason"] is None


def test_json_output_equals_the_response_of_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [session(0)]
    assert json.loads(said(CannedNode(*rows), capsys, as_json=True)) == {
        "group_id": "couriers",
        "member_sessions": rows,
    }


def test_session_of_a_real_group_is_shown(muster: Muster, group: Group) -> None:
    member = group.stable(client_id="passing-by")
    group.post("leave", {"members": [{"member_id": member.member_id}]})

    assert "passing-by" in muster.ok("groups", "sessions", group.group_id, "--limit", "5").out
    assert muster.ok("groups", "sessions", group.group_id, "--json").json["member_sessions"][0]["end_reason"] == "left"
