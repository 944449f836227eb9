"""Rejections of proposals: an operator's holds for later runs with the same candidates, and old proposals are rejected.

Candidates are the same if applying them would remove the same rows: the same commits, groups in the same Empty period,
or copies of the same days. Their reasons, and how old they are, do not matter. What was rejected is compared as long as
its candidates are kept.
"""

import re
from typing import Final

from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.partition_drop import HISTORY_ARCHIVE
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.runs import GROUP_CLEANUP, OFFSET_RETENTION, Rejection, expiry_reason

_IDENTITY: Final = {
    OFFSET_RETENTION: ("expiry_candidates", "group_id, topic, partition, commit_version"),
    GROUP_CLEANUP: ("cleanup_candidates", "group_id, generation, state_since"),
    HISTORY_ARCHIVE: ("archive_candidates", "table_name, day, row_count, checksum"),
}
"""Kind → the table of its candidates, and the columns that say what applying one would remove."""

_DAG_ACTOR: Final = r"(^|[(])dag:[^ ()]+[)]?$"
"""Actors of DAGs: with a token, the token's actor comes first, and the DAG in brackets."""

# The counts are compared first, so that candidates are read only where they can be the same.
_NEWEST_REJECTION: Final = """
SELECT run.kind, rejected.actor, rejected.at_ms, rejected.reason, rejected.run_id
FROM maintenance_runs AS run
CROSS JOIN LATERAL (
    SELECT earlier.run_id::text, earlier.counts, change.actor, change.reason,
        floor(extract(epoch FROM change.at) * 1000)::bigint AS at_ms
    FROM maintenance_runs AS earlier
    JOIN changes AS change USING (change_id)
    WHERE earlier.kind = run.kind AND earlier.status = 'rejected'
        AND change.action = %(action)s AND change.actor !~ %(dag_actor)s
    ORDER BY earlier.as_of DESC, earlier.finished_at DESC
    LIMIT 1
) AS rejected
WHERE run.run_id = %(run_id)s AND run.status = 'proposed'
    AND run.counts -> 'candidates' = rejected.counts -> 'candidates' AND run.counts -> 'candidates' <> '0'
"""

_DIFFERS: Final = """
SELECT EXISTS (
    SELECT {columns} FROM {table} WHERE run_id = %(run_id)s
    EXCEPT SELECT {columns} FROM {table} WHERE run_id = %(rejected)s
)
"""


def find_rejection(transaction: Transaction, run_id: str) -> Rejection | None:
    """Return the newest rejection of the job's proposals by an operator, if it holds for a proposed run."""
    named = {"run_id": run_id, "action": ChangeAction.REJECT_RUN, "dag_actor": _DAG_ACTOR}
    row = transaction.execute(_NEWEST_REJECTION, named).first()
    if row is None:
        return None
    kind, *rejected = row
    rejection = Rejection(*rejected)
    table, columns = _IDENTITY[kind]
    differs = _DIFFERS.format(table=table, columns=columns)
    is_other = transaction.execute(differs, {"run_id": run_id, "rejected": rejection.run_id}).scalar_one()
    return None if is_other else rejection


def delete_repeated_candidates(transaction: Transaction, run_id: str, actor: str) -> None:
    """Delete the candidates of a proposed run that a DAG is rejecting, if those of a rejection that holds are the same.

    Otherwise a schedule of ten minutes would store them 144 times a day.
    """
    if not re.search(_DAG_ACTOR, actor) or find_rejection(transaction, run_id) is None:
        return
    for table, _ in _IDENTITY.values():
        transaction.execute(f"DELETE FROM {table} WHERE run_id = %(run_id)s", {"run_id": run_id})  # noqa: S608


# -- expiry ---------------------------------------------------------------------------------------------------

_EXPIRE: Final = """
WITH expired AS (
    UPDATE maintenance_runs SET status = 'rejected', finished_at = clock_timestamp(), change_id = gen_random_uuid()
    WHERE run_id IN (
        SELECT run_id FROM maintenance_runs
        WHERE status = 'proposed' AND created_at < clock_timestamp() - %(ttl_hours)s * interval '1 hour'
        FOR UPDATE SKIP LOCKED
    )
    RETURNING run_id, change_id, finished_at
)
INSERT INTO changes (change_id, at, actor, action, before, after, reason)
SELECT change_id, finished_at, %(actor)s, %(action)s, jsonb_build_object('run_id', run_id, 'status', 'proposed'),
    jsonb_build_object('run_id', run_id, 'status', 'rejected'), %(reason)s
FROM expired
RETURNING after ->> 'run_id'
"""


def expire_proposals(transaction: Transaction, ttl_hours: int, actor: str) -> list[str]:
    """Reject runs that were proposed longer ago than this, and record the changes; return their ids, sorted."""
    named = {
        "ttl_hours": ttl_hours,
        "actor": actor,
        "action": ChangeAction.EXPIRE_RUN,
        "reason": expiry_reason(ttl_hours),
    }
    return sorted(run_id for (run_id,) in transaction.execute(_EXPIRE, named))
