"""A maintenance run's candidates over HTTP, page by page: what it would take, and what came of each.

Source: http-api.md "Lists"; docs/maintenance.md for reasons and outcomes.
"""

from datetime import datetime

from litestar import get
from litestar.params import FromPath, FromQuery
from msgspec import Struct

from api.http.call import ThisCall
from api.http.cursors import Int32, Name, read_cursor, write_cursor
from api.http.endpoints.maintenance import TAGS, read_run_id, unknown_run
from api.http.express import REQUEST
from api.http.fields import PageLimit
from api.http.times import instant, instant_or_none
from coordinator_core.store.candidates import CandidatePlace, ListedCandidate, ListedDay
from coordinator_core.store.interface import RunNotFound
from coordinator_core.store.runs import WHOLE_GROUP


class CandidateShown(Struct):
    """An offset that a run names, or a whole group (topic and partition are null); what was seen of it, and its end."""

    group_id: str
    topic: str | None
    partition: int | None
    generation: int | None
    state_since: datetime | None
    committed_at: datetime | None
    reason: str | None
    outcome: str | None
    """Null while nobody has decided."""


class DayShown(Struct):
    """A day of a history table that a run has copied into the archive, and the copy that was compared with it."""

    table: str
    day: str
    """As 2026-01-31, in UTC."""
    row_count: int
    path: str
    checksum: str
    verified_at: datetime
    outcome: str | None
    """Null while nobody has decided; `dropped` when the rows are in the archive alone."""


class CandidatesAnswer(Struct):
    """A page of candidates, by group; `next_cursor` asks for the next one, and is null on the last.

    `days` are of runs about history, the oldest first, and all of them are on the first page.
    """

    run_id: str
    candidates: list[CandidateShown]
    next_cursor: str | None
    days: list[DayShown]


@get("/v1/maintenance/runs/{run_id:str}/candidates", tags=TAGS, opt={REQUEST: "ListCandidates"})
async def list_candidates(
    call: ThisCall, run_id: FromPath[str], limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> CandidatesAnswer:
    """List what a run proposes, and what came of it.

    A token for some groups sees theirs, on shorter pages, and no days of history, which are everybody's.
    """
    known_id = read_run_id(run_id)
    place = read_cursor(cursor, tuple[Name, Name, Int32])
    try:
        found = await call.coordinator.run_candidates(known_id, place and CandidatePlace(*place), limit + 1)
        days = [] if cursor else await call.coordinator.run_days(known_id)
    except RunNotFound:
        raise unknown_run(run_id) from None
    page = found[:limit]
    next_cursor = write_cursor(*page[-1].place) if len(found) > limit else None
    shown = [_shown(each) for each in page if call.sees(each.group_id)]
    return CandidatesAnswer(known_id, shown, next_cursor, [_day(each) for each in days if call.sees(None)])


def _shown(one: ListedCandidate) -> CandidateShown:
    is_group = (one.topic, one.partition) == WHOLE_GROUP
    return CandidateShown(
        group_id=one.group_id,
        topic=None if is_group else one.topic,
        partition=None if is_group else one.partition,
        generation=one.generation,
        state_since=instant_or_none(one.state_since_ms),
        committed_at=instant_or_none(one.committed_at_ms),
        reason=one.reason,
        outcome=one.outcome,
    )


def _day(one: ListedDay) -> DayShown:
    return DayShown(
        table=one.table,
        day=one.day,
        row_count=one.row_count,
        path=one.path,
        checksum=one.checksum,
        verified_at=instant(one.verified_at_ms),
        outcome=one.outcome,
    )
