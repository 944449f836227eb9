"""Endpoint for the candidates of a maintenance run and their outcomes.

Source: http-api.md "Lists"; docs/maintenance.md for reasons and outcomes.
"""

from datetime import datetime

from litestar import get
from litestar.params import FromPath, FromQuery
from msgspec import Struct

from api.http.cursors import Int32, Name, page_of, read_cursor
from api.http.endpoints.maintenance import TAGS, read_run_id, unknown_run
from api.http.fast_path import REQUEST
from api.http.fields import PageLimit
from api.http.request_context import CurrentRequest
from api.http.rows import response_of
from coordinator_core.queries.runs import CandidateCursor, ListedCandidate, read_candidates, read_days
from coordinator_core.state_store.interface import RunNotFound
from coordinator_core.state_store.runs import WHOLE_GROUP


class CandidateResponse(Struct):
    """A committed offset that a run proposes to remove, or a whole group (topic and partition are null)."""

    group_id: str
    topic: str | None
    partition: int | None
    generation: int | None
    state_since: datetime | None
    committed_at: datetime | None
    reason: str | None
    outcome: str | None
    """Null until the run is decided."""


class HistoryDayResponse(Struct):
    """A day of a history table, and its verified copy in the archive."""

    table: str
    day: str
    """Such as 2026-01-31, in UTC."""
    row_count: int
    path: str
    checksum: str
    verified_at: datetime
    outcome: str | None
    """Null until the run is decided; `dropped`: the rows are only in the archive."""


class CandidatesResponse(Struct):
    """A page of candidates by group, topic and partition; `next_cursor` is null on the last page.

    `days` belong to runs of `history_archive`, the oldest first, all on the first page.
    """

    run_id: str
    candidates: list[CandidateResponse]
    next_cursor: str | None
    days: list[HistoryDayResponse]


@get("/v1/maintenance/runs/{run_id:str}/candidates", tags=TAGS, opt={REQUEST: "ListCandidates"})
async def list_candidates(
    context: CurrentRequest, run_id: FromPath[str], limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> CandidatesResponse:
    """List the candidates of a run with their outcomes.

    A token for some groups gets the candidates of these groups only, and no days of history.
    """
    parsed_id = read_run_id(run_id)
    after = read_cursor(cursor, tuple[Name, Name, Int32])
    try:
        place = after and CandidateCursor(*after)
        found = await context.query(read_candidates, parsed_id, place, limit + 1, context.covered_groups)
        days = [] if cursor else await context.query(read_days, parsed_id)
    except RunNotFound:
        raise unknown_run(run_id) from None
    page, next_cursor = page_of(found, lambda each: each.cursor, limit)
    return CandidatesResponse(
        parsed_id,
        [_to_response(each) for each in page],
        next_cursor,
        [response_of(HistoryDayResponse, each) for each in days if context.can_access(None)],
    )


def _to_response(candidate: ListedCandidate) -> CandidateResponse:
    is_group = (candidate.topic, candidate.partition) == WHOLE_GROUP
    whole_group = {"topic": None, "partition": None} if is_group else {}
    return response_of(CandidateResponse, candidate, **whole_group)
