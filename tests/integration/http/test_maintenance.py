"""Maintenance runs over HTTP: list, describe, apply and reject."""

from datetime import datetime
from uuid import uuid4

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.http_client import Client, Group
from tests.support.waiting import poll_until

SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}
REASON = {"reason": "reviewed"}


def test_run_shows_its_proposal(client: Client, run_id: str) -> None:
    run = client.ok("GET", f"/v1/maintenance/runs/{run_id}")

    assert run == {
        "run_id": run_id,
        "kind": "offset_retention",
        "as_of": "2026-01-02T03:04:05Z",
        "interval_start": None,
        "interval_end": None,
        "status": "proposed",
        "dry_run": False,
        "counts": {"groups": 1},
        "decision": None,
        "held_by": None,
    }
    del run["held_by"]
    assert run in client.ok("GET", "/v1/maintenance/runs")["runs"]


def test_proposal_is_found_behind_many_newer_runs(client: Client, rows: PsycopgConnection, run_id: str) -> None:
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
            " SELECT gen_random_uuid(), 'offset_retention', now(), 'rejected', '{}' FROM generate_series(1, 100)"
        )

    proposed = client.ok("GET", "/v1/maintenance/runs?status=proposed&status=applying")["runs"]

    assert run_id in [run["run_id"] for run in proposed]
    assert {run["status"] for run in proposed} <= {"proposed", "applying"}
    assert len(client.ok("GET", "/v1/maintenance/runs")["runs"]) == 100
    assert client.call("GET", "/v1/maintenance/runs?status=waiting").code == "INVALID_REQUEST"


def test_applied_run_completes_and_may_be_applied_again(client: Client, run_id: str) -> None:
    answer = client.call("POST", f"/v1/maintenance/runs/{run_id}/apply", REASON)

    assert answer.status == 202
    assert answer.json["status"] == "applying"
    poll_until(lambda: client.ok("GET", f"/v1/maintenance/runs/{run_id}")["status"] == "applied")
    run = client.ok("GET", f"/v1/maintenance/runs/{run_id}")
    assert run["counts"] == {"groups": 1, "not_due": 1}
    assert client.call("POST", f"/v1/maintenance/runs/{run_id}/apply").status == 202


@pytest.mark.parametrize("action", ["apply", "reject"])
def test_every_decision_response_names_a_recorded_change(client: Client, run_id: str, action: str) -> None:
    answers = [client.call("POST", f"/v1/maintenance/runs/{run_id}/{action}") for _ in range(3)]

    change_ids = {answer.headers["x-muster-change-id"] for answer in answers}
    assert len(change_ids) == 3
    for change_id in change_ids:
        found = client.ok("GET", f"/v1/changes/{change_id}")
        assert (found["action"], found["after"]["run_id"]) == (f"{action}_run", run_id)


def test_repeated_application_cannot_be_undone(client: Client, run_id: str) -> None:
    client.call("POST", f"/v1/maintenance/runs/{run_id}/apply")
    again = client.call("POST", f"/v1/maintenance/runs/{run_id}/apply").headers["x-muster-change-id"]

    undo = client.call("POST", f"/v1/changes/{again}/undo", {"reason": "a test"})

    assert (undo.status, undo.code) == (409, "INVALID_REQUEST")
    assert "another change" in undo.json["detail"]


def test_a_rejected_run_cannot_be_applied(client: Client, run_id: str) -> None:
    rejected = client.call("POST", f"/v1/maintenance/runs/{run_id}/reject", REASON)
    applied = client.call("POST", f"/v1/maintenance/runs/{run_id}/apply", REASON)

    assert (rejected.status, rejected.json["status"]) == (200, "rejected")
    assert client.call("POST", f"/v1/maintenance/runs/{run_id}/reject", REASON).status == 200
    assert (applied.status, applied.json["action"]) == (409, "fix")
    run = client.ok("GET", f"/v1/maintenance/runs/{run_id}")
    assert run["status"] == "rejected"
    decided_at = datetime.fromisoformat(run["decision"].pop("at"))
    assert run["decision"] == {"actor": "ada", "reason": "reviewed"}
    said = f"the run was rejected by ada at {decided_at.isoformat(timespec='seconds')}: reviewed; none of it"
    assert applied.json["detail"].startswith(said)


def test_run_names_the_rejection_that_holds_for_it(client: Client, run_id: str, rows: PsycopgConnection) -> None:
    again = str(uuid4())
    with rows.cursor() as cursor:
        cursor.execute("UPDATE maintenance_runs SET counts = '{\"candidates\": 1}' WHERE run_id = %s", (run_id,))
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
            " SELECT %s, kind, as_of, status, counts FROM maintenance_runs WHERE run_id = %s",
            (again, run_id),
        )
        cursor.execute(
            "INSERT INTO expiry_candidates"
            " (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)"
            " SELECT %s, group_id, shard_id, topic, partition, commit_version, committed_at, reason"
            " FROM expiry_candidates WHERE run_id = %s",
            (again, run_id),
        )
    decision = client.ok("POST", f"/v1/maintenance/runs/{run_id}/reject", REASON)["decision"]
    run = client.ok("GET", f"/v1/maintenance/runs/{again}")
    assert (run["status"], run["held_by"]) == ("proposed", {"run_id": run_id, **decision})
    assert client.call("POST", f"/v1/maintenance/runs/{again}/apply", REASON).status == 202


def test_run_with_another_number_of_candidates_is_not_applied(
    client: Client, run_id: str, rows: PsycopgConnection
) -> None:
    with rows.cursor() as cursor:
        cursor.execute("UPDATE maintenance_runs SET counts = '{\"candidates\": 50}' WHERE run_id = %s", (run_id,))
    refused = client.call("POST", f"/v1/maintenance/runs/{run_id}/apply", {**REASON, "candidates": 1})
    assert (refused.status, refused.code, refused.json["action"]) == (409, "INVALID_REQUEST", "fix")
    assert refused.json["detail"] == "the run has 50 candidates now, not 1: review it again"
    assert client.ok("GET", f"/v1/maintenance/runs/{run_id}")["status"] == "proposed"
    applied = client.call("POST", f"/v1/maintenance/runs/{run_id}/apply", {**REASON, "candidates": 50})
    assert applied.status == 202
    wrong = client.call("POST", f"/v1/maintenance/runs/{run_id}/apply", {**REASON, "candidates": -1})
    assert wrong.status == 400


def test_applied_run_cannot_be_rejected(client: Client, run_id: str) -> None:
    client.call("POST", f"/v1/maintenance/runs/{run_id}/apply", REASON)

    answer = client.call("POST", f"/v1/maintenance/runs/{run_id}/reject", REASON)

    assert answer.status == 409
    assert "can no longer be rejected" in answer.json["detail"]


@pytest.mark.parametrize("unknown", ["nope", "6b0f3d4e-28f0-4a34-9f5e-0a4f1f2f3f4f", "%00"])
@pytest.mark.parametrize(("method", "action"), [("GET", ""), ("POST", "/apply"), ("POST", "/reject")])
def test_unknown_run_is_not_found(client: Client, method: str, action: str, unknown: str) -> None:
    answer = client.call(method, f"/v1/maintenance/runs/{unknown}{action}")

    assert answer.status == (400 if unknown == "%00" else 404)
    assert answer.json["action"] == "fix"


def test_actor_of_a_decision_is_recorded(client: Client, run_id: str, rows: PsycopgConnection) -> None:
    answer = client.call("POST", f"/v1/maintenance/runs/{run_id}/apply", REASON)

    with rows.cursor() as cursor:
        query = "SELECT actor, action, reason FROM changes WHERE change_id = %s"
        cursor.execute(query, (answer.headers["x-muster-change-id"],))
        assert cursor.fetchall() == [("ada", "apply_run", "reviewed")]


def test_empty_group_is_retired_and_its_members_become_unknown(
    client: Client, group: Group, rows: PsycopgConnection
) -> None:
    member = group.stable()
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    run_id = str(uuid4())
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status)"
            " VALUES (%s, 'group_cleanup', now(), 'proposed')",
            (run_id,),
        )
        cursor.execute(
            "INSERT INTO cleanup_candidates (run_id, group_id, shard_id, generation, state_since, reason)"
            " SELECT %s, group_id, shard_id, generation, state_since, 'empty_without_offsets' FROM groups"
            " WHERE group_id = %s",
            (run_id, group.group_id),
        )
    client.call("POST", f"/v1/maintenance/runs/{run_id}/apply", REASON)
    poll_until(lambda: client.ok("GET", f"/v1/maintenance/runs/{run_id}")["status"] == "applied")
    run = client.ok("GET", f"/v1/maintenance/runs/{run_id}")
    assert run["counts"] == {"retired": 1}
    assert client.ok("GET", f"/v1/groups/{group.group_id}")["state"] == "Dead"
    assert member.post("heartbeat").code == "UNKNOWN_MEMBER_ID"
    assert group.join().generation == 1
