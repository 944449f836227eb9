"""A run is proposed by a job, applied candidate by candidate by the owners of their groups, and then finished.

Its status only goes forward: proposed → applying → applied, or proposed → rejected.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import func, insert, select, update

from coordinator_core.protocol.requests import GroupSeen
from coordinator_core.store.archive_tables import archive_candidates
from coordinator_core.store.dropping import HISTORY_ARCHIVE
from coordinator_core.store.history import ExpiryForecast
from coordinator_core.store.interface import NotUndoable, RunNotFound
from coordinator_core.store.postgres.arrays import array_literal
from coordinator_core.store.postgres.changes import note, was_made
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.instants import as_ms, from_ms
from coordinator_core.store.rows import ChangeRow
from coordinator_core.store.runs import (
    TOPIC_DELETION,
    UNDECIDED,
    UNDO,
    CandidateRow,
    RunRow,
    RunStatus,
    decided,
    is_as_seen,
)
from coordinator_core.store.tables import cleanup_candidates, expiry_candidates, maintenance_runs

_RUN_COLUMNS = (
    maintenance_runs.c.run_id,
    maintenance_runs.c.kind,
    as_ms(maintenance_runs.c.as_of),
    as_ms(maintenance_runs.c.interval_start),
    as_ms(maintenance_runs.c.interval_end),
    maintenance_runs.c.status,
    maintenance_runs.c.dry_run,
    maintenance_runs.c.counts,
)


def read_runs(transaction: Transaction, limit: int) -> list[RunRow]:
    """Return the newest runs first."""
    newest = (
        select(*_RUN_COLUMNS).order_by(maintenance_runs.c.created_at.desc(), maintenance_runs.c.run_id).limit(limit)
    )
    return _counted(transaction, [RunRow(*row) for row in transaction.execute(newest)])


def read_run(transaction: Transaction, run_id: str) -> RunRow:
    """Return one run.

    Raises:
        RunNotFound: there is none.
    """
    found = select(*_RUN_COLUMNS).where(maintenance_runs.c.run_id == run_id)
    row = transaction.execute(found).first() if _is_uuid(run_id) else None
    if row is None:
        raise RunNotFound(run_id)
    return _counted(transaction, [RunRow(*row)])[0]


def begin_apply(transaction: Transaction, run_id: str, change: ChangeRow, candidates: int | None) -> RunRow:
    """Mark a proposed run as applying, under the change's id; not if it names other candidates than were seen."""
    _lock_run(transaction, run_id)
    run = read_run(transaction, run_id)
    if run.status == RunStatus.PROPOSED and not is_as_seen(run.counts, candidates):
        return run
    return _decide(transaction, run_id, change, RunStatus.APPLYING, applied_by=change.actor, change_id=change.change_id)


def reject(transaction: Transaction, run_id: str, change: ChangeRow) -> RunRow:
    """Mark a proposed run as rejected."""
    return _decide(transaction, run_id, change, RunStatus.REJECTED, finished_at=func.clock_timestamp())


def _decide(transaction: Transaction, run_id: str, change: ChangeRow, status: RunStatus, **columns: Any) -> RunRow:  # noqa: ANN401 - whatever the columns take
    was = _lock_run(transaction, run_id)
    now = None if was is None else decided(was, status)
    if now is not None and not was_made(transaction, change.change_id):
        if was == RunStatus.PROPOSED:
            this_run = update(maintenance_runs).where(maintenance_runs.c.run_id == run_id)
            transaction.execute(this_run.values(status=status, **columns))
        before, after = {"run_id": run_id, "status": was}, {"run_id": run_id, "status": now}
        note(transaction, replace(change, before=before, after=after))
    return read_run(transaction, run_id)


def _lock_run(transaction: Transaction, run_id: str) -> str | None:
    """Have nobody else decide about a run or propose it anew, and return its status; None if there is none."""
    lock = select(maintenance_runs.c.status).where(maintenance_runs.c.run_id == run_id).with_for_update()
    return transaction.execute(lock).scalar() if _is_uuid(run_id) else None


# A run and a shard at a time, so that the index hands out the candidates in its own order and no more are read.
_NEXT_CANDIDATES = """
SELECT run.run_id::text, run.change_id::text, next.shard_id, next.group_id, next.topic, next.partition,
    next.commit_version, run.kind, run.undoes::text, next.generation, next.state_since_ms
FROM (SELECT run_id, change_id, kind, undoes FROM maintenance_runs WHERE status = 'applying' ORDER BY run_id) AS run
CROSS JOIN unnest(%(shards)s::smallint[]) AS ours (shard_id)
CROSS JOIN LATERAL (
    (SELECT shard_id, group_id, topic, partition, commit_version, NULL::integer AS generation,
        NULL::bigint AS state_since_ms
    FROM expiry_candidates
    WHERE run_id = run.run_id AND shard_id = ours.shard_id AND outcome IS NULL
        AND group_id <> ALL(%(without)s::text[])
    ORDER BY group_id, topic, partition
    LIMIT %(limit)s)
    UNION ALL
    (SELECT shard_id, group_id, '', -1, 0, generation, floor(extract(epoch FROM state_since) * 1000)::bigint
    FROM cleanup_candidates
    WHERE run_id = run.run_id AND shard_id = ours.shard_id AND outcome IS NULL
        AND group_id <> ALL(%(without)s::text[])
    ORDER BY group_id
    LIMIT %(limit)s)
) AS next
LIMIT %(limit)s
"""


def next_candidates(
    transaction: Transaction, shard_ids: Iterable[int], limit: int, without: Sequence[str]
) -> list[CandidateRow]:
    """Return undecided candidates of applying runs by run and group."""
    wanted = {"shards": array_literal(sorted(shard_ids)), "limit": limit, "without": list(without)}
    found = [_candidate(*row) for row in transaction.execute(_NEXT_CANDIDATES, wanted)]
    return sorted(found, key=lambda candidate: (candidate.run_id, candidate.group_id))


def _candidate(*row: Any) -> CandidateRow:  # noqa: ANN401 - columns of a row
    *columns, generation, state_since_ms = row
    seen = None if generation is None else GroupSeen(generation, state_since_ms)
    return CandidateRow._make([*columns, seen])


# -- what will expire -------------------------------------------------------------------------------------------

_FORECAST = """
SELECT floor(extract(epoch FROM newest.as_of) * 1000)::bigint,
    coalesce(sum(within_a_day), 0)::bigint, coalesce(sum(within_a_week), 0)::bigint
FROM (
    SELECT as_of, coalesce(interval_end, as_of) AS interval_end FROM maintenance_runs
    WHERE kind = 'offset_retention' AND as_of <= clock_timestamp()
    ORDER BY as_of DESC
    LIMIT 1
) AS newest
LEFT JOIN offset_expiry_forecasts AS forecast
    ON forecast.interval_end = newest.interval_end AND forecast.shard_id = ANY(%(shard_ids)s::smallint[])
GROUP BY newest.as_of
"""


def read_forecast(transaction: Transaction, shard_ids: list[int]) -> ExpiryForecast | None:
    """Return what will expire of these shards, as the newest run saw it; one that is to come saw nothing yet.

    Of the runs of one interval the last to publish has its rows there, whichever is found.
    """
    row = transaction.execute(_FORECAST, {"shard_ids": array_literal(shard_ids)}).first()
    return None if row is None else ExpiryForecast(*row)


# -- when jobs last ran -----------------------------------------------------------------------------------------

_NEWEST_RUNS = "SELECT kind, floor(extract(epoch FROM as_of) * 1000)::bigint AS as_of_ms FROM dashboards.newest_runs"


def read_newest_runs(transaction: Transaction) -> dict[str, int]:
    """Return as of when each job last ran; from the very view that people ask."""
    return {row.kind: row.as_of_ms for row in transaction.execute(_NEWEST_RUNS)}


# -- runs that are applied as soon as they are proposed ---------------------------------------------------------

_TOPIC_CANDIDATES = """
INSERT INTO expiry_candidates
    (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)
SELECT %(run_id)s, group_id, shard_id, topic, partition, commit_version, committed_at, 'topic_deleted'
FROM offsets WHERE topic = %(topic)s
"""

# What was archived has no version any more: what stands there now is compared with what the change left.
_UNDO_CANDIDATES = """
INSERT INTO expiry_candidates
    (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)
SELECT %(run_id)s, group_id, shard_id, topic, partition, 0, committed_at, 'undo'
FROM archived_offsets WHERE change_id = %(undoes)s
"""


def begin_topic_deletion(transaction: Transaction, topic: str, change: ChangeRow) -> int:
    """Begin a run over every offset of a topic; return how many there are."""
    found = transaction.execute(_TOPIC_CANDIDATES, {"run_id": change.change_id, "topic": topic})
    return _begin_run(transaction, TOPIC_DELETION, change, found.rowcount, None)


def begin_undo_run(transaction: Transaction, undoes: str, change: ChangeRow) -> int:
    """Begin a run over everything that a change archived; return how much that is.

    Raises:
        NotUndoable: the change is a run that is still under way, or one that took history and no offset.
    """
    run = select(maintenance_runs.c.kind, maintenance_runs.c.status).where(maintenance_runs.c.change_id == undoes)
    kind, status = transaction.execute(run).first() or (None, None)
    if kind == HISTORY_ARCHIVE:
        raise NotUndoable("what it dropped lies in the archive; history_restore brings it back")
    if status == RunStatus.APPLYING:
        raise NotUndoable("its run is still being worked off; ask again when it is applied")
    found = transaction.execute(_UNDO_CANDIDATES, {"run_id": change.change_id, "undoes": undoes})
    return _begin_run(transaction, UNDO, change, found.rowcount, undoes)


def _begin_run(transaction: Transaction, kind: str, change: ChangeRow, candidates: int, undoes: str | None) -> int:
    """Add a run under the change's own id."""
    row = {
        "run_id": change.change_id,
        "kind": kind,
        "as_of": from_ms(change.at_ms),
        "status": RunStatus.APPLYING,
        "counts": {"candidates": candidates},
        "applied_by": change.actor,
        "change_id": change.change_id,
        "undoes": undoes,
    }
    transaction.execute(insert(maintenance_runs).values(row))
    return candidates


# -- the end ------------------------------------------------------------------------------------------------------

_OUTCOMES = """
SELECT run_id, outcome FROM expiry_candidates UNION ALL SELECT run_id, outcome FROM cleanup_candidates
UNION ALL SELECT run_id, outcome FROM archive_candidates
"""

_FINISH_RUNS = f"""
UPDATE maintenance_runs AS run
SET status = 'applied', finished_at = clock_timestamp(), counts = run.counts || coalesce(
    (
        SELECT jsonb_object_agg(outcome, candidates)
        FROM (
            SELECT outcome, count(*) AS candidates
            FROM ({_OUTCOMES}) AS candidate WHERE run_id = run.run_id GROUP BY outcome
        ) AS by_outcome
    ),
    '{{}}'
)
WHERE status = 'applying'
    AND NOT EXISTS (SELECT FROM expiry_candidates WHERE run_id = run.run_id AND outcome IS NULL)
    AND NOT EXISTS (SELECT FROM cleanup_candidates WHERE run_id = run.run_id AND outcome IS NULL)
    AND NOT EXISTS (SELECT FROM archive_candidates WHERE run_id = run.run_id AND outcome IS NULL)
RETURNING run_id::text
"""  # noqa: S608


def finish_runs(transaction: Transaction) -> list[str]:
    """Mark applying runs that have no undecided candidate as applied; return their ids, sorted."""
    return sorted(run_id for (run_id,) in transaction.execute(_FINISH_RUNS))


def _is_uuid(text: str) -> bool:
    """Tell whether the column can hold it; what it cannot hold is not there."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _counted(transaction: Transaction, runs: Sequence[RunRow]) -> list[RunRow]:
    """Add to the counts of runs under way how far they have come."""
    under_way = [run.run_id for run in runs if run.status == RunStatus.APPLYING]
    if not under_way:
        return list(runs)
    counts: dict[str, dict[str, int]] = {}
    for table in (expiry_candidates, cleanup_candidates, archive_candidates):
        outcome = func.coalesce(table.c.outcome, UNDECIDED)
        by_outcome = (
            select(table.c.run_id, outcome, func.count())
            .where(table.c.run_id.in_(under_way))
            .group_by(table.c.run_id, outcome)
        )
        for run_id, name, count in transaction.execute(by_outcome):
            counts.setdefault(run_id, {})[name] = count
    return [replace(run, counts={**run.counts, **counts.get(run.run_id, {})}) for run in runs]
