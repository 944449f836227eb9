"""A proposal is applied by the coordinator: this is how a DAG or a command asks for it, over HTTP.

Every call may be repeated without harm. Any node takes it; the owners of the shards do the work.

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
# Ask again later; everything else below 500 is an answer that will not change.
RETRIABLE_STATUSES = frozenset({408, 421, 429})
# The core's words, which nothing that a DAG imports may bring along; a test holds them equal.
OVER = frozenset({"applied", "rejected", "failed"})


class CoordinatorUnreachable(Exception):
    """Nobody answered, or whoever did could not now: the same call may work in a moment."""


class CoordinatorRefused(Exception):
    """The coordinator's answer is no, and will be no again; the sentence says why."""


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """What the coordinator tells of a run; `counts` are by outcome and more."""

    run_id: str
    status: str
    counts: dict[str, int]

    @property
    def is_over(self) -> bool:
        """Tell whether nothing more will be done for this run."""
        return self.status in OVER


def apply_run(
    run_id: str, *, actor: str, reason: str, candidates: int | None = None, url: str | None = None
) -> MaintenanceRun:
    """Ask for a proposal to be applied; the work goes on after the answer.

    Args:
        run_id: Which.
        actor: Who wants it.
        reason: Why.
        candidates: As many as it had when somebody looked; None: however many it has.
        url: A node; None: the environment says.

    Raises:
        CoordinatorUnreachable: Ask again.
        CoordinatorRefused: There is no such run, or it was rejected, or has other candidates, or the caller may not.
    """
    body: dict[str, str | int] = (
        {"reason": reason} if candidates is None else {"reason": reason, "candidates": candidates}
    )
    return _call("POST", f"/v1/maintenance/runs/{run_id}/apply", url, actor=actor, body=body)


def reject_run(run_id: str, *, actor: str, reason: str, url: str | None = None) -> MaintenanceRun:
    """Ask for a proposal to be rejected: nothing of it will be applied; raises as `apply_run` does."""
    return _call("POST", f"/v1/maintenance/runs/{run_id}/reject", url, actor=actor, body={"reason": reason})


def read_run(run_id: str, *, url: str | None = None) -> MaintenanceRun:
    """Read a run's status and counts; raises as `apply_run` does."""
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
        raise CoordinatorUnreachable(f"What answers at {base_url} (status {reply.status}) is no node.") from failure
    if reply.status in REFUSALS and reply.status not in RETRIABLE_STATUSES:
        raise CoordinatorRefused(_sentence(reply.status, answer))
    if reply.status >= REFUSALS.start:
        raise CoordinatorUnreachable(_sentence(reply.status, answer))
    return MaintenanceRun(answer["run_id"], answer["status"], answer["counts"])


def _headers(actor: str | None) -> dict[str, str]:
    token = os.environ.get("MUSTER_TOKEN")
    headers = {"Accept": "application/json"}
    if actor:
        # Names are UTF-8 on the wire, and the library takes each character for one byte.
        headers["X-Muster-Actor"] = actor.encode().decode("latin-1")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _sentence(status: int, problem: dict[str, Any]) -> str:
    """Say a problem reply in one line: code, status, detail."""
    return f"{problem.get('code', 'no code')} ({status}): {problem.get('detail') or problem.get('title', 'no detail')}"
