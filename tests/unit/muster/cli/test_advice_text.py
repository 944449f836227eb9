"""Text below tables: slowest clients, evictions that a timeout would have prevented, and the command that sets it."""

import re
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from muster.cli.advice import print_tuning
from muster.cli.rebalances import print_rebalances
from muster.node_client import Json, NodeClient

UUID = "8a56c3f2-3649-49c0-aa33-20d5caf80b0a"
NO_WAITS: Json = {"members": [], "waited_for": []}


class CannedNode:
    """A node with canned responses."""

    def __init__(self, **answers: Any) -> None:  # noqa: ANN401 - answers are JSON
        self.answers = answers

    def get(self, path: str, **_query: object) -> Json:
        return self.answers[path.rpartition("/")[2]]

    def whole(self, path: str, *_fields: str, **_query: object) -> Json:
        return self.get(path)

    def pages(self, path: str, field: str, _limit: int) -> list[Json]:
        return cast(list[Json], self.answers[field])


def eviction(minute: int, client_id: str = "thumb-2") -> Json:
    return {"client_id": client_id, "client_host": "10.0.0.7", "at": f"2026-11-21T02:{minute:02}:00Z"}


def tuning(*avoided: Json, failures: tuple[Json, ...] = ()) -> CannedNode:
    what_if = {
        "value": 15_000,
        "cost": {"rebalances": 90, "evictions": 0, "stood_still_ms": 60_000, "repeated_work_ms": 0},
        "present_cost": {"rebalances": 92, "evictions": 1, "stood_still_ms": 62_000, "repeated_work_ms": 10_000},
        "avoided": list(avoided),
        "remaining": [],
        "failures": list(failures),
        "detection_added_ms": 9_000,
        "added_at_least": 0,
        "added_at_most": 0,
    }
    window = {"from": "2026-11-14T00:00:00Z", "to": "2026-11-21T00:00:00Z"}
    answer = {"window": window, "advice": {}, "effective": {}, "recommendations": []}
    return CannedNode(tuning=answer | {"what_if": {"window": window, "session_timeout_ms": what_if}})


def test_repeated_evictions_of_a_client_have_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    node = tuning(eviction(9), eviction(7), eviction(8), eviction(1, "other"))
    print_tuning(cast(NodeClient, node), "thumbnails", {}, as_json=False)

    said = capsys.readouterr().out.splitlines()
    assert "    other at 10.0.0.7, 2026-11-21 02:01:00 UTC" in said
    assert "    thumb-2 at 10.0.0.7, 3 times, last 2026-11-21 02:09:00 UTC" in said
    assert "  and no real failure would have been detected later." in said
    assert said[-1] == "  muster config set --group=thumbnails session_timeout_ms=15000"


def test_cost_of_a_timeout_is_printed_with_that_of_the_effective_one(capsys: pytest.CaptureFixture[str]) -> None:
    print_tuning(cast(NodeClient, tuning(eviction(9))), "thumbnails", {}, as_json=False)
    said = capsys.readouterr().out
    assert (
        "would have cost 90 rebalances, 0 evictions of live members, 1 min of stopped consumption and 0 ms of" in said
    )
    assert (
        "instead of 92 rebalances, 1 eviction of live members, 1 min of stopped consumption and 10.0 s of repeated"
        in said
    )


def test_recommendations_are_printed_with_their_reason(capsys: pytest.CaptureFixture[str]) -> None:
    node = tuning(eviction(9))
    node.answers["tuning"]["recommendations"] = [{"name": "static_membership", "because": "3 restarts"}]
    print_tuning(cast(NodeClient, node), "thumbnails", {}, as_json=False)
    assert "  static_membership: 3 restarts" in capsys.readouterr().out.splitlines()


def test_failures_detected_later_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    print_tuning(cast(NodeClient, tuning(failures=(eviction(1),))), "thumbnails", {}, as_json=False)
    assert "would have detected 1 real failure 9.0 s later in all." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("remaining", "evicted"),
    [
        ([], "no member was evicted, and none would have been"),
        ([eviction(1)], "1 eviction of a live member would have happened all the same"),
    ],
    ids=["none", "the same"],
)
def test_a_timeout_that_changes_nothing_is_said_in_one_sentence(
    capsys: pytest.CaptureFixture[str], remaining: list[Json], evicted: str
) -> None:
    node = tuning()
    what_if = node.answers["tuning"]["what_if"]
    session = what_if["session_timeout_ms"] | {"remaining": remaining}
    rebalance = session | {"added": 0, "waiting_added_ms": 0, "no_shows": []}
    what_if |= {"session_timeout_ms": session, "rebalance_timeout_ms": rebalance}
    print_tuning(cast(NodeClient, node), "thumbnails", {}, as_json=False)

    *_, of_session, _, of_rebalance = capsys.readouterr().out.splitlines()
    said = f"of 15000 ms would have changed nothing over the last 7 days: {evicted}. Only a failure in the future"
    assert of_session == f"A session timeout {said} would differ: a dead member is detected after this time."
    assert of_rebalance.startswith(f"A rebalance timeout {said} would differ: a rebalance waits at most this long ")


@pytest.mark.parametrize(
    "group_id",
    ["two words", "$(touch pwned)", "it's", "--help", 'a "b" `c` \\d', "a\x1b[31m\nb", "ends\n\n", "ü € 𝄞"],
)
def test_printed_commands_quote_the_group_id(capsys: pytest.CaptureFixture[str], tmp_path: Path, group_id: str) -> None:
    node = tuning(eviction(1))
    change = {"value": 9_000, "verdict": "change", "confidence": "high", "because": "of that"}
    node.answers["tuning"]["advice"] = {"rebalance_timeout_ms": change}
    node.answers["rebalances"] = [rebalance("deploy")] * 3
    node.answers["members"] = NO_WAITS
    node.answers["diagnosis"] = {"findings": [{"text": "late", "setting": "rebalance_timeout_ms", "value": 9_000}]}
    print_tuning(cast(NodeClient, node), group_id, {}, as_json=False)
    print_rebalances(cast(NodeClient, node), group_id, 10, is_wide=False, as_json=False)

    printed = capsys.readouterr().out.replace("\n* late\n", "\n").split("muster ")[1:]
    pasted = [_words(tmp_path, re.sub(r"(_timeout_ms=[0-9]+)\n.*", r"\1", each, flags=re.DOTALL)) for each in printed]
    assert [words[:3] for words in pasted] == [
        ["config", "set", f"--group={group_id}"],
        ["config", "set", f"--group={group_id}"],
        ["groups", "sessions", f"--group={group_id}"],
        ["config", "set", f"--group={group_id}"],
    ]
    assert not list(tmp_path.iterdir())


def _words(folder: Path, arguments: str) -> list[str]:
    """Split the rest of a command by a POSIX shell, and return its words."""
    script = f"printf '%s\\0' {arguments.rstrip()}"
    run = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, check=True)
    return run.stdout.decode().split("\0")[:-1]


def rebalance(client_id: str) -> Json:
    return {
        "rebalance_id": UUID,
        "started_at": "2026-11-21T02:00:00Z",
        "completed_at": "2026-11-21T02:00:20Z",
        "trigger": "member_left",
        "client_reason": None,
        "trigger_member_id": f"{client_id}-{UUID}",
        "outcome": "completed",
        "restarts": 0,
        "member_count_before": 3,
        "member_count_after": 3,
        "partitions_moved": 2,
    }


@pytest.mark.parametrize(
    ("begun_by", "said"),
    [(["deploy"] * 3, ["triggered by deploy: muster groups sessions --group=invoices"]), (["a", "b", "c"], [])],
    ids=["one", "none"],
)
def test_a_client_that_began_most_rebalances_is_named(
    capsys: pytest.CaptureFixture[str], begun_by: list[str], said: list[str]
) -> None:
    node = CannedNode(
        rebalances=[rebalance(each) for each in begun_by],
        members=NO_WAITS,
        diagnosis={"findings": []},
    )
    print_rebalances(cast(NodeClient, node), "invoices", 10, is_wide=False, as_json=False)

    below = [line for line in capsys.readouterr().out.splitlines() if " of 3 " in line]
    assert len(below) == len(said)
    assert all(part in line for part, line in zip(said, below, strict=True))


def test_findings_are_printed_with_the_recommended_command(capsys: pytest.CaptureFixture[str]) -> None:
    late = {"text": "batch at \x1b[31mhost was evicted", "setting": "rebalance_timeout_ms", "value": 60_000}
    slow = {"text": "other is slow", "setting": "rebalance_timeout_ms", "value": None}
    node = CannedNode(rebalances=[rebalance("a")], members=NO_WAITS, diagnosis={"findings": [late, slow]})
    print_rebalances(cast(NodeClient, node), "invoices", 10, is_wide=False, as_json=False)

    assert capsys.readouterr().out.splitlines()[-3:] == [
        "* batch at \N{REPLACEMENT CHARACTER}[31mhost was evicted",
        "  muster config set --group=invoices rebalance_timeout_ms=60000",
        "* other is slow",
    ]


def test_rebalance_of_a_mirror_says_what_is_inferred(capsys: pytest.CaptureFixture[str]) -> None:
    inferred = {"is_trigger_inferred": True, "is_start_inferred": True}
    node = CannedNode(rebalances=[rebalance("a") | inferred], members=NO_WAITS, diagnosis={"findings": []})

    print_rebalances(cast(NodeClient, node), "invoices", 10, is_wide=True, as_json=False)

    out = capsys.readouterr().out
    assert "member_left (inferred)" in out
    assert "≥ 20.0 s" in out
