"""Maintenance runs over HTTP: what jobs proposed, and whether it is applied or rejected.

Source: http-api.md "For operators"; ARCHITECTURE.md "Maintenance proposes; the coordinator disposes".
"""

from collections.abc import Awaitable
from datetime import datetime
from typing import Final
from uuid import UUID

from litestar import get, post
from litestar.params import FromPath, JSONBody
from msgspec import Struct

from api.http.call import ThisCall
from api.http.express import REQUEST
from api.http.fields import CandidateCount, Reason
from api.http.problems import RunDecided, RunUnknown
from api.http.times import instant, instant_or_none
from coordinator_core.store.interface import RunNotFound
from coordinator_core.store.runs import RunRow, RunStatus

TAGS: Final = ["Operators: maintenance"]


class RunShown(Struct):
    """A proposal and what became of it; `counts` are candidates by outcome, beside what the job counted."""

    run_id: str
    kind: str
    as_of: datetime
    interval_start: datetime | None
    interval_end: datetime | None
    status: str
    dry_run: bool
    counts: dict[str, int]


class RunsAnswer(Struct):
    """The newest runs first."""

    runs: list[RunShown]


class DecisionBody(Struct, forbid_unknown_fields=True):
    """Why the proposal is applied or rejected."""

    reason: Reason | None = None


class ApplyBody(DecisionBody, forbid_unknown_fields=True):
    """Why the proposal is applied, and as whoever wants it has seen it: 409 where it names other candidates by now."""

    candidates: CandidateCount | None = None


@get("/v1/maintenance/runs", tags=TAGS, opt={REQUEST: "ListRuns"})
async def list_runs(call: ThisCall) -> RunsAnswer:
    """List the newest maintenance runs."""
    return RunsAnswer([_shown(row) for row in await call.coordinator.runs()])


@get("/v1/maintenance/runs/{run_id:str}", tags=TAGS, opt={REQUEST: "DescribeRun"})
async def describe_run(call: ThisCall, run_id: FromPath[str]) -> RunShown:
    """Tell a run's status and its counts by outcome."""
    return _shown(await _known(call.coordinator.run(read_run_id(run_id)), run_id))


@post("/v1/maintenance/runs/{run_id:str}/apply", status_code=202, tags=TAGS, opt={REQUEST: "ApplyRun"})
async def apply_run(call: ThisCall, run_id: FromPath[str], data: JSONBody[ApplyBody | None] = None) -> RunShown:
    """Have a proposal applied: each candidate is judged again, by the owner of its shard. Repeating is harmless."""
    act = call.act(data.reason if data else None)
    seen = data.candidates if data else None
    row = await _known(call.coordinator.operators.apply_run(read_run_id(run_id), act, seen), run_id)
    if row.status == RunStatus.PROPOSED:
        now = row.counts.get("candidates", "an unknown number of")
        raise RunDecided(f"the run names {now} candidates now, and not {seen}: look at it again")
    if row.status == RunStatus.REJECTED:
        raise RunDecided("the run was rejected; nothing of it will be applied")
    return _shown(row)


@post("/v1/maintenance/runs/{run_id:str}/reject", status_code=200, tags=TAGS, opt={REQUEST: "RejectRun"})
async def reject_run(call: ThisCall, run_id: FromPath[str], data: JSONBody[DecisionBody | None] = None) -> RunShown:
    """Reject a proposal: nothing of it will be applied. Repeating is harmless."""
    act = call.act(data.reason if data else None)
    row = await _known(call.coordinator.operators.reject_run(read_run_id(run_id), act), run_id)
    if row.status != RunStatus.REJECTED:
        raise RunDecided(f"the run is {row.status}; it is too late to reject it")
    return _shown(row)


def read_run_id(run_id: str) -> str:
    """Return a run's id as it is kept; what is no UUID is no run."""
    try:
        return str(UUID(run_id))
    except ValueError:
        raise unknown_run(run_id) from None


async def _known(asking: Awaitable[RunRow], run_id: FromPath[str]) -> RunRow:
    try:
        return await asking
    except RunNotFound:
        raise unknown_run(run_id) from None


def unknown_run(run_id: str) -> RunUnknown:
    """Return the refusal that names the run."""
    return RunUnknown(f"there is no maintenance run {run_id}")


def _shown(row: RunRow) -> RunShown:
    return RunShown(
        run_id=row.run_id,
        kind=row.kind,
        as_of=instant(row.as_of_ms),
        interval_start=instant_or_none(row.interval_start_ms),
        interval_end=instant_or_none(row.interval_end_ms),
        status=row.status,
        dry_run=row.dry_run,
        counts=row.counts,
    )
