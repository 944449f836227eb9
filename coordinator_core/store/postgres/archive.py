"""A day of history leaves Postgres when nothing of it has moved since it was copied, and nothing was added.

Rules:

* One day of one table a transaction: what is dropped, the row that says where it lies now, its change and the
  candidate's outcome are stored together or not at all.
* A candidate names a table and a day, and no more is believed: whatever else it names must be what that day is called.
* A day without a copy where the run says it is, with as many rows, stays. `has_copy` looks for it.
* Rows are only ever added, and only a drop takes them away. So a day whose rows are as many as were copied, counted
  while nobody writes, is the day that was copied, unless it was dropped or brought back since.
* Counting holds up only who writes into that very day. Then every writer of the table waits, for the blink that
  detaching takes, and for `DETACH_LOCK_TIMEOUT_MS` at most.
* Rows that came too late for their partition lie in the default one. They go by a deletion, counted likewise.
"""

from datetime import date, timedelta
from typing import NamedTuple

from coordinator_core.store.actions import Action
from coordinator_core.store.dropping import (
    ALREADY_GONE,
    CHANGED_SINCE,
    COPY_NOT_FOUND,
    DROPPED,
    STILL_OPEN,
    UNKNOWN_PARTITION,
    ClaimedCopy,
    DroppedDay,
    HasCopy,
)
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.partitions import TAKE_TURN, midnight, partition_name, present
from coordinator_core.store.tables import HISTORY_TABLES

DETACH_LOCK_TIMEOUT_MS = 200


class _Day(NamedTuple):
    run_id: str
    table: str
    day: date
    source: str
    path: str
    row_count: int
    is_over: bool

    @property
    def bounds(self) -> dict[str, str]:
        return {"first": midnight(self.day), "last": midnight(self.day + timedelta(days=1))}


_NEXT = """
SELECT run_id::text, table_name, day, source, path, row_count, day < (clock_timestamp() AT TIME ZONE 'UTC')::date
FROM archive_candidates
WHERE outcome IS NULL
    AND run_id IN (SELECT run_id FROM maintenance_runs WHERE status = 'applying' AND kind = 'history_archive')
ORDER BY run_id, day, table_name
LIMIT 1
FOR UPDATE SKIP LOCKED
"""


def drop_next(transaction: Transaction, has_copy: HasCopy) -> DroppedDay | None:
    """Decide about one day that an applying run names; None if none is left that nobody else decides about."""
    row = transaction.execute(_NEXT).first()
    if row is None:
        return None
    found = _Day(*row)
    outcome = _judge_and_drop(transaction, found, has_copy)
    if outcome == DROPPED:
        _note(transaction, found)
    _decide(transaction, found, outcome)
    return DroppedDay(found.run_id, found.table, found.day.isoformat(), found.row_count, outcome)


def _judge_and_drop(transaction: Transaction, found: _Day, has_copy: HasCopy) -> str:
    if found.table not in HISTORY_TABLES:
        return UNKNOWN_PARTITION
    if not found.is_over:
        return STILL_OPEN
    if found.source not in {f"{found.table}_default", partition_name(found.table, found.day)}:
        return UNKNOWN_PARTITION
    if not has_copy(ClaimedCopy(found.table, found.day.isoformat(), found.path, found.row_count)):
        return COPY_NOT_FOUND
    transaction.execute(TAKE_TURN)
    if found.source == f"{found.table}_default":
        return _delete_strays(transaction, found)
    return _drop_partition(transaction, found)


def _drop_partition(transaction: Transaction, found: _Day) -> str:
    if found.source not in present(transaction):
        return ALREADY_GONE
    transaction.execute(f"LOCK TABLE {found.source} IN SHARE ROW EXCLUSIVE MODE")
    count = transaction.execute(f"SELECT count(*) FROM {found.source}").scalar_one()  # noqa: S608 - checked
    if count != found.row_count or _has_moved(transaction, found):
        return CHANGED_SINCE
    transaction.execute(f"SET LOCAL lock_timeout = {DETACH_LOCK_TIMEOUT_MS}")
    transaction.execute(f"ALTER TABLE {found.table} DETACH PARTITION {found.source}")
    transaction.execute(f"DROP TABLE {found.source}")
    return DROPPED


def _delete_strays(transaction: Transaction, found: _Day) -> str:
    at = HISTORY_TABLES[found.table]
    of_day = f"FROM {found.source} WHERE {at} >= %(first)s AND {at} < %(last)s"
    transaction.execute(f"LOCK TABLE {found.source} IN SHARE ROW EXCLUSIVE MODE")
    count = transaction.execute(f"SELECT count(*) {of_day}", found.bounds).scalar_one()
    if count != found.row_count or _has_moved(transaction, found):
        return CHANGED_SINCE if count else ALREADY_GONE
    transaction.execute(f"DELETE {of_day}", found.bounds)
    return DROPPED


_HAS_MOVED = """
SELECT EXISTS (
    SELECT FROM archive_candidates AS copied JOIN archived_partitions AS moved USING (table_name, day)
    WHERE copied.run_id = %(run_id)s AND table_name = %(table)s AND day = %(day)s
        AND (greatest(moved.dropped_at, moved.restored_at) >= copied.verified_at
            OR (moved.path = copied.path AND moved.restored_at IS NULL))
)
"""


def _has_moved(transaction: Transaction, found: _Day) -> bool:
    """Return whether rows of the day were dropped or restored since they were copied, or the copy is of other rows."""
    named = {"run_id": found.run_id, "table": found.table, "day": found.day}
    return bool(transaction.execute(_HAS_MOVED, named).scalar_one())


_NOTE = """
WITH archived AS (
    INSERT INTO archived_partitions
        (table_name, day, run_id, change_id, source, path, row_count, checksum, verified_at, dropped_at)
    SELECT table_name, day, run_id, gen_random_uuid(), source, path, row_count, checksum, verified_at, clock_timestamp()
    FROM archive_candidates WHERE run_id = %(run_id)s AND table_name = %(table)s AND day = %(day)s
    RETURNING *
)
INSERT INTO changes (change_id, at, actor, action, before, after, reason)
SELECT archived.change_id, archived.dropped_at, coalesce(run.applied_by, ''), %(action)s,
    jsonb_build_object('table', table_name, 'day', day, 'source', source, 'rows', row_count),
    jsonb_build_object('path', path, 'checksum', checksum, 'run_id', archived.run_id), 'it is in the archive'
FROM archived JOIN maintenance_runs AS run USING (run_id)
"""


def _note(transaction: Transaction, found: _Day) -> None:
    named = {"run_id": found.run_id, "table": found.table, "day": found.day, "action": Action.DROP_PARTITION}
    transaction.execute(_NOTE, named)


def _decide(transaction: Transaction, found: _Day, outcome: str) -> None:
    decide = """
        UPDATE archive_candidates SET outcome = %(outcome)s
        WHERE run_id = %(run_id)s AND table_name = %(table)s AND day = %(day)s
    """
    named = {"run_id": found.run_id, "table": found.table, "day": found.day, "outcome": outcome}
    transaction.execute(decide, named)
