"""HTTP client for maintenance runs: apply, reject and read proposals.

Every call is idempotent and may be sent to any node; the shards' owners do the work.

Source: http-api.md, `/v1/maintenance/runs`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import urllib3

DEFAULT_URL = "http://127.0.0.1:8080"
REQUEST_TIMEOUT_S = 30.0
REFUSALS = range(400, 500)
# Retry these later; all other statuses below 500 are final.
RETRIABLE_STATUSES = frozenset({408, 421, 429})
# Copied from the core, which DAGs must not import; a test compares them.
FINISHED = frozenset({"applied", "rejected", "failed"})


class CoordinatorUnreachable(Exception):
    """No node answered, or the node is temporarily unable to; retry the call."""


class CoordinatorRefused(Exception):
    """The coordinator refused the call, and would again; the message has the reason."""


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """A maintenance run's status; `counts` are by outcome and more."""

    run_id: str
    status: str
    counts: dict[str, int]
    held_by: Mapping[str, str | None] | None = None
    """The rejection that holds for it (`run_id`, `actor`, `at`, `reason`), if it is proposed."""

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended."""
        return self.status in FINISHED


def apply_run(
    run_id: str, *, actor: str, reason: str, candidates: int | None = None, url: str | None = None
) -> MaintenanceRun:
    """Start applying a proposal; the work continues after the response.

    Args:
        run_id: The run.
        actor: The actor recorded in `changes`.
        reason: The reason recorded in `changes`.
        candidates: The expected number of candidates; None accepts any.
        url: A node; None uses MUSTER_URL.

    Raises:
        CoordinatorUnreachable: Retry the call.
        CoordinatorRefused: The run does not exist, was rejected, has other candidates, or the caller is not allowed.
    """
    body: dict[str, str | int] = (
        {"reason": reason} if candidates is None else {"reason": reason, "candidates": candidates}
    )
    return _call("POST", f"/v1/maintenance/runs/{run_id}/apply", url, actor=actor, body=body)


def reject_run(run_id: str, *, actor: str, reason: str, url: str | None = None) -> MaintenanceRun:
    """Reject a proposal, so that it is never applied; raises as `apply_run` does."""
    return _call("POST", f"/v1/maintenance/runs/{run_id}/reject", url, actor=actor, body={"reason": reason})


def read_run(run_id: str, *, url: str | None = None) -> MaintenanceRun:
    """Return a run's status and counts; raises as `apply_run` does."""
    return _call("GET", f"/v1/maintenance/runs/{run_id}", url)


def _call(
    method: str, path: str, url: str | None, *, actor: str | None = None, body: Mapping[str, str | int] | None = None
) -> MaintenanceRun:
    base_url = (url or os.environ.get("MUSTER_URL") or DEFAULT_URL).rstrip("/")
    try:
        reply = urllib3.request(
            method, base_url + path, json=body, headers=_headers(actor), timeout=REQUEST_TIMEOUT_S, retries=False
        )
    except urllib3.exceptions.HTTPError as failure:
        raise CoordinatorUnreachable(f"No node answers at {base_url}: {failure}") from failure
    try:
        answer: dict[str, Any] = reply.json()
    except ValueError as failure:
        raise CoordinatorUnreachable(f"The server at {base_url} is not a node (status {reply.status}).") from failure
    if reply.status in REFUSALS and reply.status not in RETRIABLE_STATUSES:
        raise CoordinatorRefused(_sentence(reply.status, answer))
    if reply.status >= REFUSALS.start:
        raise CoordinatorUnreachable(_sentence(reply.status, answer))
    # Nodes of release 0.1.0 answer without `held_by`, and so does a decision.
    return MaintenanceRun(answer["run_id"], answer["status"], answer["counts"], answer.get("held_by"))


def _headers(actor: str | None) -> dict[str, str]:
    token = os.environ.get("MUSTER_TOKEN")
    headers = {"Accept": "application/json"}
    if actor:
        # Names are UTF-8 on the wire, but the library encodes headers as Latin-1.
        headers["X-Muster-Actor"] = actor.encode().decode("latin-1")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _sentence(status: int, problem: dict[str, Any]) -> str:
    """Return a problem response in one line: code, status, detail."""
    return f"{problem.get('code', 'no code')} ({status}): {problem.get('detail') or problem.get('title', 'no detail')}"
