"""Maintenance runs in Postgres: jobs propose them, nodes apply their candidates and mark them as applied.

The status of a run changes from proposed to applying to applied, or from proposed to rejected.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

from sqlalchemy import func, insert, select, update

from coordinator_core.protocol.requests import GroupSnapshot
from coordinator_core.state_store.archive_tables import archive_candidates
from coordinator_core.state_store.audit_tables import changes
from coordinator_core.state_store.dirty_offsets import logged_of_topic
from coordinator_core.state_store.interface import NotUndoable, RunNotFound
from coordinator_core.state_store.partition_drop import HISTORY_ARCHIVE
from coordinator_core.state_store.postgres.arrays import array_literal
from coordinator_core.state_store.postgres.changes import change_exists, record_change
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.offset_log import read_offset_log
from coordinator_core.state_store.postgres.rejections import delete_repeated_candidates
from coordinator_core.state_store.postgres.timestamps import columns_of, from_ms
from coordinator_core.state_store.rows import ChangeRow
from coordinator_core.state_store.runs import (
    GROUP_CLEANUP,
    TOPIC_DELETION,
    UNDECIDED,
    UNDO,
    CandidateRow,
    RunDecision,
    RunRow,
    RunStatus,
    decided,
    has_candidate_count,
)
from coordinator_core.state_store.tables import cleanup_candidates, expiry_candidates, maintenance_runs
from coordinator_core.state_store.undo import NOTHING_TO_RESTORE

_RUN = [each.name for each in fields(RunRow) if each.name != "decision"]
RUNS = select(*columns_of(maintenance_runs, _RUN), *columns_of(changes, ("actor", "at_ms", "reason"))).join_from(
    maintenance_runs, changes, changes.c.change_id == maintenance_runs.c.change_id, isouter=True
)
"""Selects every run with its decision; `runs_of` reads its rows."""


def read_run(transaction: Transaction, run_id: str) -> RunRow:
    """Return one run.

    Raises:
        RunNotFound: it does not exist.
    """
    found = RUNS.where(maintenance_runs.c.run_id == run_id)
    row = transaction.execute(found).first() if _is_uuid(run_id) else None
    if row is None:
        raise RunNotFound(run_id)
    return runs_of(transaction, [row])[0]


def begin_apply(transaction: Transaction, run_id: str, change: ChangeRow, candidates: int | None = None) -> RunRow:
    """Mark a proposed run as applying, under the change's id, unless its number of candidates has changed."""
    _lock_run(transaction, run_id)
    run = read_run(transaction, run_id)
    if run.status == RunStatus.PROPOSED and not has_candidate_count(run.counts, candidates):
        return run
    return _decide(transaction, run_id, change, RunStatus.APPLYING, applied_by=change.actor, change_id=change.change_id)


def reject(transaction: Transaction, run_id: str, change: ChangeRow) -> RunRow:
    """Mark a proposed run as rejected; delete its candidates if a DAG repeats the rejection of the same ones."""
    if _lock_run(transaction, run_id) == RunStatus.PROPOSED:
        delete_repeated_candidates(transaction, run_id, change.actor)
    decision = {"change_id": change.change_id, "finished_at": func.clock_timestamp()}
    return _decide(transaction, run_id, change, RunStatus.REJECTED, **decision)


def _decide(transaction: Transaction, run_id: str, change: ChangeRow, status: RunStatus, **columns: Any) -> RunRow:  # noqa: ANN401 - whatever the columns take
    old_status = _lock_run(transaction, run_id)
    new_status = None if old_status is None else decided(old_status, status)
    if new_status is not None and not change_exists(transaction, change.change_id):
        if old_status == RunStatus.PROPOSED:
            this_run = update(maintenance_runs).where(maintenance_runs.c.run_id == run_id)
            transaction.execute(this_run.values(status=status, **columns))
        kind = transaction.execute(select(maintenance_runs.c.kind).where(maintenance_runs.c.run_id == run_id)).scalar()
        before, after = ({"run_id": run_id, "kind": kind, "status": each} for each in (old_status, new_status))
        record_change(transaction, replace(change, before=before, after=after))
    return read_run(transaction, run_id)


def _lock_run(transaction: Transaction, run_id: str) -> str | None:
    """Lock a run against other decisions and proposals; return its status, or None if it does not exist."""
    lock = select(maintenance_runs.c.status).where(maintenance_runs.c.run_id == run_id).with_for_update()
    return transaction.execute(lock).scalar() if _is_uuid(run_id) else None


# One lookup per run and shard, so that Postgres reads candidates in the order of the index and stops at the limit.
_NEXT_CANDIDATES = """
SELECT run.run_id::text, run.change_id::text, next.shard_id, next.group_id, next.topic, next.partition,
    next.commit_version, run.kind, run.undoes::text, next.generation, next.state_since_ms
FROM (
    SELECT run_id, change_id, kind, undoes FROM maintenance_runs
    WHERE status = 'applying' AND run_id <> ALL(%(without_runs)s::uuid[])
    ORDER BY run_id
) AS run
CROSS JOIN unnest(%(shards)s::smallint[]) AS ours (shard_id)
CROSS JOIN LATERAL (
    (SELECT shard_id, group_id, topic, partition, commit_version, NULL::integer AS generation,
        NULL::bigint AS state_since_ms
    FROM expiry_candidates
    WHERE run_id = run.run_id AND shard_id = ours.shard_id AND outcome IS NULL
        AND group_id <> ALL(%(without_groups)s::text[])
    ORDER BY group_id, topic, partition
    LIMIT %(limit)s)
    UNION ALL
    (SELECT shard_id, group_id, '', -1, 0, generation, floor(extract(epoch FROM state_since) * 1000)::bigint
    FROM cleanup_candidates
    WHERE run_id = run.run_id AND shard_id = ours.shard_id AND outcome IS NULL
        AND group_id <> ALL(%(without_groups)s::text[])
    ORDER BY group_id
    LIMIT %(limit)s)
) AS next
LIMIT %(limit)s
"""


def next_candidates(
    transaction: Transaction,
    shard_ids: Iterable[int],
    limit: int,
    without_groups: Sequence[str] = (),
    without_runs: Sequence[str] = (),
) -> list[CandidateRow]:
    """Return undecided candidates of applying runs by run and group."""
    wanted = {
        "shards": array_literal(sorted(shard_ids)),
        "limit": limit,
        "without_groups": list(without_groups),
        "without_runs": list(without_runs),
    }
    found = [_candidate(*row) for row in transaction.execute(_NEXT_CANDIDATES, wanted)]
    return sorted(found, key=lambda candidate: (candidate.run_id, candidate.group_id))


def _candidate(*row: Any) -> CandidateRow:  # noqa: ANN401 - columns of a row
    *columns, generation, state_since_ms = row
    seen = None if generation is None else GroupSnapshot(generation, state_since_ms)
    return CandidateRow._make([*columns, seen])


# -- runs that start as applying --------------------------------------------------------------------------------

_TOPIC_CANDIDATES = """
INSERT INTO expiry_candidates
    (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)
SELECT %(run_id)s, group_id, shard_id, topic, partition, commit_version, committed_at, 'topic_deleted'
FROM offsets WHERE topic = %(topic)s
"""

_LOGGED_CANDIDATE = """
INSERT INTO expiry_candidates AS candidate
    (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)
VALUES (%(run_id)s, %(group_id)s, %(shard_id)s, %(topic)s, %(partition)s, %(commit_version)s, now(), 'topic_deleted')
ON CONFLICT (run_id, group_id, topic, partition)
DO UPDATE SET commit_version = greatest(candidate.commit_version, excluded.commit_version)
"""

# Archived offsets have no commit version: applying compares the current offset with the result of the change.
_UNDO_CANDIDATES = """
INSERT INTO expiry_candidates
    (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)
SELECT %(run_id)s, group_id, shard_id, topic, partition, 0, committed_at, 'undo'
FROM archived_offsets WHERE change_id = %(undoes)s
"""


def begin_topic_deletion(transaction: Transaction, topic: str, change: ChangeRow) -> int:
    """Start a run over all offsets of a topic, also those that are only in the offset log; return their number."""
    run = {"run_id": change.change_id, "topic": topic}
    # The log first: a checkpoint in between moves commits to the table.
    logged = logged_of_topic(read_offset_log(transaction), topic)
    transaction.execute(_TOPIC_CANDIDATES, run)
    for (group_id, partition), (shard_id, commit_version) in logged.items():
        row = {"shard_id": shard_id, "group_id": group_id, "partition": partition, "commit_version": commit_version}
        transaction.execute(_LOGGED_CANDIDATE, {**run, **row})
    candidates = transaction.execute("SELECT count(*) FROM expiry_candidates WHERE run_id = %(run_id)s", run)
    return _begin_run(transaction, TOPIC_DELETION, change, int(candidates.scalar_one()), None)


def begin_undo_run(transaction: Transaction, undoes: str, change: ChangeRow) -> int:
    """Start a run over all offsets that a change archived; return their number.

    Raises:
        NotUndoable: the change is a run that is still applying, or one that dropped history or retired groups.
    """
    run = select(maintenance_runs.c.kind, maintenance_runs.c.status).where(maintenance_runs.c.change_id == undoes)
    kind, status = transaction.execute(run).first() or (None, None)
    if kind == HISTORY_ARCHIVE:
        raise NotUndoable("the run dropped history, which is in the archive; run history_restore to restore it")
    if kind == GROUP_CLEANUP:
        raise NotUndoable(NOTHING_TO_RESTORE)
    if status == RunStatus.APPLYING:
        raise NotUndoable("its run is still applying; try again when it is applied")
    found = transaction.execute(_UNDO_CANDIDATES, {"run_id": change.change_id, "undoes": undoes})
    return _begin_run(transaction, UNDO, change, found.rowcount, undoes)


def _begin_run(transaction: Transaction, kind: str, change: ChangeRow, candidates: int, undoes: str | None) -> int:
    """Add a run under the id of the change."""
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


# -- completion ---------------------------------------------------------------------------------------------------

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
    """Mark applying runs without undecided candidates as applied; return their ids, sorted."""
    return sorted(run_id for (run_id,) in transaction.execute(_FINISH_RUNS))


def _is_uuid(text: str) -> bool:
    """Return whether the text is a UUID; the column has no other values."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def runs_of(transaction: Transaction, rows: Iterable[Sequence[Any]]) -> list[RunRow]:
    """Return the runs in rows of `RUNS`; the counts of applying ones have their candidates by outcome."""
    return _with_outcomes(transaction, [_run(*row) for row in rows])


def _run(*row: Any) -> RunRow:  # noqa: ANN401 - columns of a row
    *columns, actor, at_ms, reason = row
    return replace(RunRow(*columns), decision=None if actor is None else RunDecision(actor, at_ms, reason))


def _with_outcomes(transaction: Transaction, runs: Sequence[RunRow]) -> list[RunRow]:
    """Add the number of candidates by outcome to the counts of applying runs."""
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
