"""Dropping of archived history: drops a day from Postgres if its rows are unchanged since they were copied.

Rules:

* One transaction per day and table: the drop, the row of `archived_partitions`, the change and the candidate's outcome
  are stored together or not at all.
* Only the table and the day of a candidate are trusted; its partition must have the name that follows from them.
* A day is kept if `has_copy` finds no copy in the run's directory with as many rows.
* History rows are only inserted, and only a drop deletes them. So a day with the same number of rows as its copy,
  counted under a lock, is unchanged, unless it was dropped or restored in between.
* The count blocks only writers to that day. Detaching then blocks all writers of the table for a moment, for at most
  `DETACH_LOCK_TIMEOUT_MS`.
* Late rows are in the default partition. They are counted in the same way, and deleted.
"""

from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.partition_drop import (
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
from coordinator_core.state_store.postgres.connections import ConnectionPool, Transaction
from coordinator_core.state_store.postgres.partitions import LOCK_PARTITION_MOVES, midnight, partition_name, present
from coordinator_core.state_store.tables import HISTORY_TABLES

DETACH_LOCK_TIMEOUT_MS = 200


class _Day(NamedTuple):
    run_id: str
    table: str
    day_text: str
    """As Postgres writes it: a day before the year 1 or after 9999 is no `date` of Python."""
    source: str
    path: str
    row_count: int
    is_over: bool

    @property
    def day(self) -> date:
        """The day; raises ValueError if Python has none."""
        return date.fromisoformat(self.day_text)

    @property
    def is_readable(self) -> bool:
        """Whether Python has the day."""
        try:
            return bool(self.day)
        except ValueError:
            return False

    @property
    def copy(self) -> ClaimedCopy:
        return ClaimedCopy(self.table, self.day_text, self.path, self.row_count)

    @property
    def bounds(self) -> dict[str, str]:
        return {"first": midnight(self.day), "last": midnight(self.day + timedelta(days=1))}


_NEXT = """
SELECT run_id::text, table_name, day::text, source, path, row_count, day < (clock_timestamp() AT TIME ZONE 'UTC')::date
FROM archive_candidates
WHERE outcome IS NULL
    AND run_id IN (SELECT run_id FROM maintenance_runs WHERE status = 'applying' AND kind = 'history_archive')
ORDER BY run_id, day, table_name
LIMIT 1
FOR UPDATE SKIP LOCKED
"""


def drop_archived(pool: ConnectionPool, has_copy: HasCopy) -> DroppedDay | None:
    """Decide about one day of an applying run; None if none is undecided, apart from those that other nodes decide.

    No transaction is open while `has_copy` reads the archive: Postgres would end one that is idle for too long.
    """
    checked: dict[ClaimedCopy, bool] = {}
    while isinstance(found := pool.transact(lambda transaction: drop_next(transaction, checked.get)), ClaimedCopy):
        checked[found] = has_copy(found)
    return found


def drop_next(
    transaction: Transaction, is_there: Callable[[ClaimedCopy], bool | None]
) -> DroppedDay | ClaimedCopy | None:
    """Decide about one day, as `drop_archived` does; or return the copy of which `is_there` returns None, unknown."""
    row = transaction.execute(_NEXT).first()
    if row is None:
        return None
    found = _Day(*row)
    outcome = _judge_and_drop(transaction, found, is_there)
    if outcome is None:
        return found.copy
    if outcome == DROPPED:
        _record_drop(transaction, found)
    _decide(transaction, found, outcome)
    return DroppedDay(found.run_id, found.table, found.day_text, found.row_count, outcome)


def _judge_and_drop(
    transaction: Transaction, found: _Day, is_there: Callable[[ClaimedCopy], bool | None]
) -> str | None:
    """Return the outcome; None if it depends on the copy, and whether that exists is unknown."""
    if found.table not in HISTORY_TABLES or not found.is_readable:
        return UNKNOWN_PARTITION
    if not found.is_over:
        return STILL_OPEN
    if found.source not in {f"{found.table}_default", partition_name(found.table, found.day)}:
        return UNKNOWN_PARTITION
    has_copy = is_there(found.copy)
    if not has_copy:
        return None if has_copy is None else COPY_NOT_FOUND
    transaction.execute(LOCK_PARTITION_MOVES)
    if found.source == f"{found.table}_default":
        return _delete_late_rows(transaction, found)
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


def _delete_late_rows(transaction: Transaction, found: _Day) -> str:
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
    named = {"run_id": found.run_id, "table": found.table, "day": found.day_text}
    return bool(transaction.execute(_HAS_MOVED, named).scalar_one())


_RECORD_DROP = """
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


def _record_drop(transaction: Transaction, found: _Day) -> None:
    named = {"run_id": found.run_id, "table": found.table, "day": found.day_text, "action": ChangeAction.DROP_PARTITION}
    transaction.execute(_RECORD_DROP, named)


def _decide(transaction: Transaction, found: _Day, outcome: str) -> None:
    decide = """
        UPDATE archive_candidates SET outcome = %(outcome)s
        WHERE run_id = %(run_id)s AND table_name = %(table)s AND day = %(day)s
    """
    named = {"run_id": found.run_id, "table": found.table, "day": found.day_text, "outcome": outcome}
    transaction.execute(decide, named)
