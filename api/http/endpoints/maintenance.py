"""Endpoints for maintenance runs: list, describe, apply and reject proposals.

Source: http-api.md "Operator requests", "Lists"; ARCHITECTURE.md "Maintenance".
"""

from collections.abc import Awaitable
from datetime import datetime
from typing import Final
from uuid import UUID

from litestar import get, post
from litestar.params import FromPath, JSONBody
from msgspec import Struct

from api.http.fast_path import REQUEST
from api.http.fields import CandidateCount, Reason
from api.http.problems import RunStateConflict, UnknownRun
from api.http.request_context import CurrentRequest
from api.http.rows import response_of
from coordinator_core.admin import maintenance
from coordinator_core.queries.runs import read_runs
from coordinator_core.state_store.interface import RunNotFound
from coordinator_core.state_store.postgres.maintenance import read_run
from coordinator_core.state_store.runs import RunRow, RunStatus

TAGS: Final = ["Operators: maintenance"]


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


class RunsResponse(Struct):
    """The newest runs, the newest first."""

    runs: list[RunResponse]


class DecisionBody(Struct, forbid_unknown_fields=True):
    """The reason for the decision."""

    reason: Reason | None = None


class ApplyBody(DecisionBody, forbid_unknown_fields=True):
    """The reason, and the number of candidates that the operator has reviewed: 409 if the run has another number."""

    candidates: CandidateCount | None = None


@get("/v1/maintenance/runs", tags=TAGS, opt={REQUEST: "ListRuns"})
async def list_runs(context: CurrentRequest) -> RunsResponse:
    """List the newest maintenance runs."""
    return RunsResponse([response_of(RunResponse, row) for row in await context.query(read_runs)])


@get("/v1/maintenance/runs/{run_id:str}", tags=TAGS, opt={REQUEST: "DescribeRun"})
async def describe_run(context: CurrentRequest, run_id: FromPath[str]) -> RunResponse:
    """Describe a run: its status, and its counts by outcome."""
    return response_of(RunResponse, await _or_unknown_run(context.query(read_run, read_run_id(run_id)), run_id))


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
        raise RunStateConflict("the run was rejected; none of it will be applied")
    return response_of(RunResponse, row)


@post("/v1/maintenance/runs/{run_id:str}/reject", status_code=200, tags=TAGS, opt={REQUEST: "RejectRun"})
async def reject_run(
    context: CurrentRequest, run_id: FromPath[str], data: JSONBody[DecisionBody | None] = None
) -> RunResponse:
    """Reject a proposal, so that none of it is applied. The request may be repeated."""
    change = context.begin_change(data.reason if data else None)
    row = await _or_unknown_run(maintenance.reject_run(context.coordinator, read_run_id(run_id), change), run_id)
    if row.status != RunStatus.REJECTED:
        raise RunStateConflict(f"the run is {row.status}, and can no longer be rejected")
    return response_of(RunResponse, row)


def read_run_id(run_id: str) -> str:
    """Return a run id in its stored form; raise `UnknownRun` if it is no UUID."""
    try:
        return str(UUID(run_id))
    except ValueError:
        raise unknown_run(run_id) from None


async def _or_unknown_run(query: Awaitable[RunRow], run_id: FromPath[str]) -> RunRow:
    try:
        return await query
    except RunNotFound:
        raise unknown_run(run_id) from None


def unknown_run(run_id: str) -> UnknownRun:
    """Return the error for a run that does not exist."""
    return UnknownRun(f"there is no maintenance run {run_id}")
