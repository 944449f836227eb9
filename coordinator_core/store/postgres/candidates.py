"""Lists of a run's candidates and days, in the order of their keys."""

from typing import Final

from coordinator_core.store.candidates import CandidateCursor, ListedCandidate, ListedDay
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.maintenance import read_run

_CANDIDATES: Final = """
SELECT * FROM (
    (SELECT group_id, topic, partition, generation, floor(extract(epoch FROM state_since) * 1000)::bigint,
        floor(extract(epoch FROM committed_at) * 1000)::bigint, reason, outcome
    FROM expiry_candidates
    WHERE run_id = %(run_id)s AND (%(group_id)s::text IS NULL OR (group_id, topic, partition)
        > (%(group_id)s::text COLLATE "C", %(topic)s::text COLLATE "C", %(partition)s::integer))
    ORDER BY group_id, topic, partition LIMIT %(limit)s)
    UNION ALL
    (SELECT group_id, '', -1, generation, floor(extract(epoch FROM state_since) * 1000)::bigint, NULL, reason, outcome
    FROM cleanup_candidates
    WHERE run_id = %(run_id)s AND (%(group_id)s::text IS NULL OR group_id > %(group_id)s::text COLLATE "C")
    ORDER BY group_id LIMIT %(limit)s)
) AS candidates
ORDER BY group_id, topic, partition LIMIT %(limit)s
"""


def read_candidates(
    transaction: Transaction, run_id: str, after: CandidateCursor | None, limit: int
) -> list[ListedCandidate]:
    """Return a page of a run's candidates, by group, topic and partition.

    Raises:
        RunNotFound: the run does not exist.
    """
    read_run(transaction, run_id)
    group_id, topic, partition = after or (None, None, None)
    wanted = {"run_id": run_id, "group_id": group_id, "topic": topic, "partition": partition, "limit": limit}
    rows = transaction.execute(_CANDIDATES, wanted)
    return [ListedCandidate(**dict(zip(_LISTED, row, strict=True))) for row in rows]


_DAYS: Final = """
SELECT table_name, day::text, path, row_count, checksum, floor(extract(epoch FROM verified_at) * 1000)::bigint, outcome
FROM archive_candidates WHERE run_id = %(run_id)s ORDER BY day, table_name
"""


def read_days(transaction: Transaction, run_id: str) -> list[ListedDay]:
    """Return the days of history that a run proposes to drop, the oldest first; raises as `read_candidates` does."""
    read_run(transaction, run_id)
    rows = transaction.execute(_DAYS, {"run_id": run_id})
    return [ListedDay(**dict(zip(ListedDay.__dataclass_fields__, row, strict=True))) for row in rows]


_LISTED: Final = tuple(ListedCandidate.__dataclass_fields__)
