"""Tests of the HTTP client for maintenance runs: requests, responses and errors."""

from collections.abc import Iterator

import pytest

from spark_jobs.submit import CoordinatorRefused, CoordinatorUnreachable, apply_run, read_run, reject_run
from tests.support.fake_maintenance_node import FakeNode, running

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNode]:
    with running(FakeNode()) as node:
        monkeypatch.setenv("MUSTER_URL", node.url + "/")
        monkeypatch.delenv("MUSTER_TOKEN", raising=False)
        yield node


def test_apply_request_has_actor_and_reason(node: FakeNode) -> None:
    run = apply_run(RUN_ID, actor="dag:offset_retention", reason="due")
    assert (run.run_id, run.status, run.is_over) == (RUN_ID, "applying", False)
    (request,) = node.seen
    assert (request.method, request.path) == ("POST", f"/v1/maintenance/runs/{RUN_ID}/apply")
    assert request.headers["X-Muster-Actor"] == "dag:offset_retention"
    assert request.body == {"reason": "due"}
    assert "Authorization" not in request.headers


def test_apply_request_has_the_number_of_candidates(node: FakeNode) -> None:
    apply_run(RUN_ID, actor="dag:offset_retention", reason="due", candidates=0)
    assert node.seen[0].body == {"reason": "due", "candidates": 0}


def test_rejection_is_idempotent_for_any_actor(node: FakeNode) -> None:
    run = reject_run(RUN_ID, actor="airflow:Jürgen", reason="too much")
    assert (run.status, run.is_over) == ("rejected", True)
    (request,) = node.seen
    assert request.path == f"/v1/maintenance/runs/{RUN_ID}/reject"
    assert request.headers["X-Muster-Actor"].encode("latin-1").decode() == "airflow:Jürgen"
    assert request.body == {"reason": "too much"}


def test_rejection_that_holds_is_read_if_the_node_names_one(node: FakeNode) -> None:
    assert reject_run(RUN_ID, actor="me", reason="no").held_by is None
    node.held_by = {"run_id": "r-1", "actor": "ada", "at": "2026-11-20T10:00:00Z", "reason": "too many"}
    assert read_run(RUN_ID).held_by == node.held_by


def test_a_token_is_sent_where_one_is_set(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", "t0ken")
    assert read_run(RUN_ID).is_over
    assert node.seen[0].headers["Authorization"] == "Bearer t0ken"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409])
def test_rejection_is_final_and_has_the_reason(node: FakeNode, status: int) -> None:
    node.refusals = [(status, {"code": "SOME_CODE", "detail": "the run was rejected"})]
    with pytest.raises(CoordinatorRefused, match=rf"SOME_CODE \({status}\): the run was rejected"):
        apply_run(RUN_ID, actor="me", reason="due")


@pytest.mark.parametrize("status", [421, 429, 500, 503])
def test_temporary_refusal_may_be_retried(node: FakeNode, status: int) -> None:
    node.refusals = [(status, {"code": "LATER", "title": "busy"})]
    with pytest.raises(CoordinatorUnreachable, match="LATER"):
        apply_run(RUN_ID, actor="me", reason="due")
    assert apply_run(RUN_ID, actor="me", reason="due").status == "applying"


def test_missing_approval_is_a_rejection() -> None:
    with running(FakeNode()) as gone:
        pass
    with pytest.raises(CoordinatorUnreachable, match="No node answers"):
        read_run(RUN_ID, url=gone.url)
