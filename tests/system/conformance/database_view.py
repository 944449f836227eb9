"""Access to the node's database, for what scenarios cannot do over HTTP: read the history, propose offsets to expire.

Tables are an interface of the project (docs/tables.md), so this too is an observation from outside.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

import psycopg2

from muster.settings import psql_url
from tests.support.offset_log import wait_for_checkpoint

TRANSITIONS: Final = (
    "SELECT to_state FROM group_transitions WHERE group_id = %(group)s AND from_state IS NOT NULL"
    " AND group_created_at = (SELECT max(group_created_at) FROM group_transitions WHERE group_id = %(group)s)"
    " ORDER BY at, generation, array_position("
    "ARRAY['Empty', 'CompletingRebalance', 'Stable', 'PreparingRebalance', 'Dead'], to_state)"
)
"""One decision can enter several states within a millisecond: the order is that of a generation's states."""
COMPLETED: Final = "SELECT count(*) FROM rebalances WHERE group_id = ANY(%s) AND outcome = 'completed'"
ARCHIVED: Final = "SELECT count(*) FROM archived_offsets WHERE group_id = ANY(%s) AND cause = %s"
RUN: Final = (
    "INSERT INTO maintenance_runs (run_id, kind, as_of, status) VALUES (%s, 'offset_retention', now(), 'proposed')"
)
CANDIDATES: Final = (
    "INSERT INTO expiry_candidates (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)"
    " SELECT %s, group_id, shard_id, topic, partition, commit_version, committed_at, 'conformance'"
    " FROM offsets WHERE group_id = ANY(%s)"
)


class DatabaseView:
    """A connection to the node's database, opened on first use; for one thread."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._connection: Any = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()

    def transitions(self, group: str) -> list[str]:
        """Return every state that the group has entered in its current life."""
        return [str(state) for (state,) in self._rows(TRANSITIONS, {"group": group})]

    def completed_rebalances(self, groups: Sequence[str]) -> int:
        """Return how many rebalances of these groups were completed."""
        return int(self._rows(COMPLETED, (list(groups),))[0][0])

    def archived(self, groups: Sequence[str], cause: str) -> int:
        """Return how many offsets of these groups were archived for this cause."""
        return int(self._rows(ARCHIVED, (list(groups), cause))[0][0])

    def propose(self, groups: Sequence[str]) -> str:
        """Propose every offset of these groups for expiry, due or not, as the node judges them; return the run's id."""
        run_id = str(uuid4())
        wait_for_checkpoint(self._connected())
        self._rows(RUN, (run_id,))
        self._rows(CANDIDATES, (run_id, list(groups)))
        return run_id

    def _rows(self, statement: str, values: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - as the driver takes them
        with self._connected().cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall()) if cursor.description else []

    def _connected(self) -> Any:  # noqa: ANN401 - the driver has no types
        if self._connection is None:
            self._connection = psycopg2.connect(psql_url(self._url))
            self._connection.autocommit = True
        return self._connection
