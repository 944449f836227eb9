"""Endpoints for maintenance runs: list, describe, apply and reject proposals.

Source: http-api.md "Operator requests", "Lists"; ARCHITECTURE.md "Maintenance".
"""

from collections.abc import Awaitable, Iterable
from datetime import datetime
from typing import Annotated, Final, TypeAlias, TypeVar
from uuid import UUID

from litestar import get, post
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import Struct

from api.http.fast_path import REQUEST
from api.http.fields import CandidateCount, Reason
from api.http.problems import RunStateConflict, UnknownRun
from api.http.request_context import CurrentRequest, RequestContext
from api.http.rows import response_of
from api.http.times import instant
from coordinator_core.admin import maintenance
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.queries import runs
from coordinator_core.state_store.interface import RunNotFound
from coordinator_core.state_store.runs import RunDecision, RunRow, RunStatus

TAGS: Final = ["Operators: maintenance"]

T = TypeVar("T")


class RunDecisionResponse(Struct):
    """The change that applied or rejected a run."""

    actor: str
    at: datetime
    reason: str | None


class RejectionResponse(RunDecisionResponse):
    """An operator's rejection of a run."""

    run_id: str


class RunResponse(Struct):
    """A maintenance run; `counts` are its candidates by outcome, and the counts that the job reported."""

    run_id: str
    kind: str
    as_of: datetime
    interval_start: datetime | None
    interval_end: datetime | None
    status: str
    dry_run: bool
    counts: dict[str, int]
    decision: RunDecisionResponse | None
    """None: the run is proposed, or release 0.1.0 rejected it, or the token is for some groups."""


class DescribedRunResponse(RunResponse):
    """A maintenance run, and the rejection that holds for it: that of a run with the same candidates."""

    held_by: RejectionResponse | None
    """None unless the run is proposed; None for a token for some groups."""


class RunsResponse(Struct):
    """The newest runs, the newest first."""

    runs: list[RunResponse]


class DecisionBody(Struct, forbid_unknown_fields=True):
    """The reason for the decision."""

    reason: Reason | None = None


class ApplyBody(DecisionBody, forbid_unknown_fields=True):
    """The reason, and the number of candidates that the operator has reviewed: 409 if the run has another number."""

    candidates: CandidateCount | None = None


StatusesParam: TypeAlias = Annotated[
    list[str] | None, QueryParameter(name="status", description="only runs with one of these statuses")
]


@get("/v1/maintenance/runs", tags=TAGS, opt={REQUEST: "ListRuns"})
async def list_runs(context: CurrentRequest, statuses: StatusesParam = None) -> RunsResponse:
    """List the newest maintenance runs."""
    found = await context.query(runs.read_runs, _statuses(statuses or RunStatus))
    return RunsResponse([_run_response(context, row) for row in found])


def _statuses(names: Iterable[str]) -> frozenset[RunStatus]:
    try:
        return frozenset(RunStatus(name) for name in names)
    except ValueError:
        raise InvalidRequest(f"status must be one of {', '.join(RunStatus)}") from None


@get("/v1/maintenance/runs/{run_id:str}", tags=TAGS, opt={REQUEST: "DescribeRun"})
async def describe_run(context: CurrentRequest, run_id: FromPath[str]) -> DescribedRunResponse:
    """Describe a run: its status, its counts by outcome, and the rejection that holds for it."""
    row, rejection = await _or_unknown_run(context.query(runs.describe_run, read_run_id(run_id)), run_id)
    is_shown = rejection is not None and context.can_access(None)
    held_by = response_of(RejectionResponse, rejection) if is_shown else None
    return response_of(DescribedRunResponse, row, decision=_decision_response(context, row), held_by=held_by)


@post("/v1/maintenance/runs/{run_id:str}/apply", status_code=202, tags=TAGS, opt={REQUEST: "ApplyRun"})
async def apply_run(
    context: CurrentRequest, run_id: FromPath[str], data: JSONBody[ApplyBody | None] = None
) -> RunResponse:
    """Apply a proposal: the owner of its shard checks each candidate again. The request may be repeated."""
    change = context.begin_change(data.reason if data else None)
    reviewed = data.candidates if data else None
    row = await _or_unknown_run(
        maintenance.apply_run(context.coordinator, read_run_id(run_id), change, reviewed), run_id
    )
    if row.status == RunStatus.PROPOSED:
        current = row.counts.get("candidates", "an unknown number of")
        raise RunStateConflict(f"the run has {current} candidates now, not {reviewed}: review it again")
    if row.status == RunStatus.REJECTED:
        raise RunStateConflict(f"the run was rejected{_by_whom(row.decision)}; none of it will be applied")
    return _run_response(context, row)


@post("/v1/maintenance/runs/{run_id:str}/reject", status_code=200, tags=TAGS, opt={REQUEST: "RejectRun"})
async def reject_run(
    context: CurrentRequest, run_id: FromPath[str], data: JSONBody[DecisionBody | None] = None
) -> RunResponse:
    """Reject a proposal, so that none of it is applied. The request may be repeated."""
    change = context.begin_change(data.reason if data else None)
    row = await _or_unknown_run(maintenance.reject_run(context.coordinator, read_run_id(run_id), change), run_id)
    if row.status != RunStatus.REJECTED:
        raise RunStateConflict(f"the run is {row.status}, and can no longer be rejected")
    return _run_response(context, row)


def _run_response(context: RequestContext, row: RunRow) -> RunResponse:
    return response_of(RunResponse, row, decision=_decision_response(context, row))


def _decision_response(context: RequestContext, row: RunRow) -> RunDecisionResponse | None:
    """Return the decision; None for a token for some groups, which gets the changes of its groups only."""
    is_shown = row.decision is not None and context.can_access(None)
    return response_of(RunDecisionResponse, row.decision) if is_shown else None


def _by_whom(decision: RunDecision | None) -> str:
    """Return who decided, when and why, to follow the decision."""
    if decision is None:
        return ""
    reason = f": {decision.reason}" if decision.reason else ""
    return f" by {decision.actor} at {instant(decision.at_ms).isoformat(timespec='seconds')}{reason}"


def read_run_id(run_id: str) -> str:
    """Return a run id in its stored form; raise `UnknownRun` if it is no UUID."""
    try:
        return str(UUID(run_id))
    except ValueError:
        raise unknown_run(run_id) from None


async def _or_unknown_run(query: Awaitable[T], run_id: FromPath[str]) -> T:
    try:
        return await query
    except RunNotFound:
        raise unknown_run(run_id) from None


def unknown_run(run_id: str) -> UnknownRun:
    """Return the error for a run that does not exist."""
    return UnknownRun(f"there is no maintenance run {run_id}")
