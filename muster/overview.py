"""Queries of the terminal overview, read from Postgres.

It is a look and no more: it takes the first groups (the live ones before the empty ones), gives up on a slow answer,
and shows the last one then.
"""

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, create_engine, text
from sqlalchemy.exc import DBAPIError

from coordinator_core.store.runs import FINISHED
from muster.member_names import client_id_of

GROUPS_MAX = 12
RUNS_MAX = 2
CONNECT_TIMEOUT_S = 2
STATEMENT_TIMEOUT_MS = 2_000
MIN_INTERVAL_S = 1.0
READ_COST_FACTOR = 10
"""After a read that took t the next one waits ten times as long: a look must not cost what it looks at."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member of a group's current generation."""

    member_id: str
    client_id: str
    partition_count: int
    """Partitions that it owns; during a rebalance, that it owned last."""


@dataclass(frozen=True, slots=True)
class RebalanceView:
    """Why a group rebalanced last, or rebalances now (`ended_s_ago` is None then)."""

    trigger: str
    client_id: str | None
    ended_s_ago: float | None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as it stands; `lag_records` is None where it is not known."""

    group_id: str
    state: str
    generation: int | None
    members: tuple[MemberView, ...]
    committed_records: int
    lag_records: int | None
    rebalance: RebalanceView | None
    is_lag_lower_bound: bool = False
    """Whether the end of a log is stale: it was last reported longer than `log_end_max_age_ms` ago."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A proposal of the maintenance and what came of it: outcome → count, group → expired offsets."""

    run_id: str
    kind: str
    status: str
    started_s_ago: float
    outcomes: dict[str, int]
    expired_by_group: dict[str, int]

    @property
    def is_over(self) -> bool:
        """Return whether the run is finished."""
        return self.status in FINISHED


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at one moment; the newest run comes first."""

    groups: tuple[GroupView, ...] = ()
    hidden_group_count: int = 0
    runs: tuple[RunView, ...] = ()


GROUPS_SQL = """
WITH RECURSIVE offset_group AS (
    (SELECT group_id FROM offsets ORDER BY group_id LIMIT 1)
    UNION ALL
    SELECT (SELECT group_id FROM offsets WHERE group_id > seen.group_id ORDER BY group_id LIMIT 1)
    FROM offset_group AS seen WHERE seen.group_id IS NOT NULL
),
named AS (
    SELECT group_id, state <> 'Empty' AS is_live FROM groups WHERE state <> 'Dead'
    UNION ALL
    SELECT group_id, false FROM offset_group
    WHERE group_id IS NOT NULL AND NOT EXISTS (SELECT FROM groups WHERE groups.group_id = offset_group.group_id)
),
shown AS (
    SELECT group_id, is_live, count(*) OVER () AS group_count
    FROM named ORDER BY is_live DESC, group_id LIMIT :groups_max
)
SELECT shown.group_id, shown.group_count, coalesce(groups.state, 'Empty') AS state, groups.generation,
       groups.rebalance_started_at IS NOT NULL AS is_rebalancing, groups.rebalance_trigger,
       position.committed, position.lag, position.is_lag_lower_bound, last.trigger, last.trigger_member_id,
       extract(epoch FROM clock_timestamp() - last.completed_at)::float8 AS ended_s_ago
FROM shown
LEFT JOIN groups USING (group_id)
CROSS JOIN LATERAL (
    SELECT sum(committed_offset) AS committed, sum(greatest(log_end_offset - committed_offset, 0)) AS lag,
        coalesce(min(log_end_at) < now() - (SELECT dashboards.log_end_max_age()), false) AS is_lag_lower_bound
    FROM dashboards.known_log_ends WHERE known_log_ends.group_id = shown.group_id
) AS position
LEFT JOIN LATERAL (
    SELECT trigger, trigger_member_id, completed_at FROM rebalances
    WHERE rebalances.group_id = shown.group_id ORDER BY completed_at DESC LIMIT 1
) AS last ON true
ORDER BY shown.is_live DESC, shown.group_id
"""

MEMBERS_SQL = """
SELECT group_id, member_id, client_id,
       (SELECT coalesce(sum(jsonb_array_length(span -> 'partitions')), 0)
        FROM jsonb_array_elements(ownership) AS span
       )::int AS partition_count
FROM members WHERE group_id = ANY(:groups) ORDER BY group_id, client_id, member_id
"""

RUNS_SQL = """
SELECT run_id::text, kind, status, extract(epoch FROM clock_timestamp() - created_at)::float8 AS started_s_ago
FROM maintenance_runs ORDER BY created_at DESC LIMIT :runs_max
"""

OUTCOMES_SQL = """
SELECT coalesce(outcome, 'undecided') AS outcome, group_id, count(*)
FROM (
    SELECT run_id, group_id, outcome FROM expiry_candidates
    UNION ALL SELECT run_id, group_id, outcome FROM cleanup_candidates
) AS candidates
WHERE run_id = CAST(:run_id AS uuid) GROUP BY 1, 2 ORDER BY 1, 2
"""


class OverviewReader:
    """Reads the overview now and then, on a connection of its own."""

    def __init__(self, database_url: str) -> None:
        options = f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c default_transaction_read_only=on"
        self._engine = create_engine(
            database_url,
            isolation_level="AUTOCOMMIT",
            pool_size=1,
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_S,
                "options": options,
                "application_name": "muster-screen",
            },
        )
        self._next_at_s = 0.0
        self.last = Overview()

    def refresh(self) -> bool:
        """Read anew if it is time to; return whether `last` is new."""
        started_at_s = time.monotonic()
        if started_at_s < self._next_at_s:
            return False
        try:
            self.last = self._read()
        except DBAPIError:  # Postgres restarts, or is busy: the last table remains.
            return False
        finally:
            now_s = time.monotonic()
            self._next_at_s = now_s + max(MIN_INTERVAL_S, (now_s - started_at_s) * READ_COST_FACTOR)
        return True

    def close(self) -> None:
        """Give the connection back."""
        self._engine.dispose()

    def _read(self) -> Overview:
        with self._engine.connect() as connection:
            groups, hidden_group_count = _read_groups(connection)
            return Overview(groups, hidden_group_count, _read_runs(connection))


def _read_groups(connection: Connection) -> tuple[tuple[GroupView, ...], int]:
    rows = connection.execute(text(GROUPS_SQL), {"groups_max": GROUPS_MAX}).all()
    members = _read_members(connection, [row.group_id for row in rows])
    groups = tuple(
        GroupView(
            group_id=row.group_id,
            state=row.state,
            generation=row.generation,
            members=tuple(members.get(row.group_id, ())),
            committed_records=int(row.committed or 0),
            lag_records=None if row.lag is None or (row.lag == 0 and row.is_lag_lower_bound) else int(row.lag),
            is_lag_lower_bound=row.is_lag_lower_bound,
            rebalance=_rebalance_view(row),
        )
        for row in rows
    )
    return groups, rows[0].group_count - len(rows) if rows else 0


def _rebalance_view(row: Row[Any]) -> RebalanceView | None:
    if row.is_rebalancing:
        return RebalanceView(row.rebalance_trigger, None, None)
    if row.trigger is None:
        return None
    return RebalanceView(row.trigger, client_id_of(row.trigger_member_id), row.ended_s_ago)


def _read_members(connection: Connection, groups: list[str]) -> dict[str, list[MemberView]]:
    rows = connection.execute(text(MEMBERS_SQL), {"groups": groups})
    members: dict[str, list[MemberView]] = {}
    for row in rows:
        member = MemberView(row.member_id, row.client_id, row.partition_count)
        members.setdefault(row.group_id, []).append(member)
    return members


def _read_runs(connection: Connection) -> tuple[RunView, ...]:
    rows = connection.execute(text(RUNS_SQL), {"runs_max": RUNS_MAX})
    return tuple(
        RunView(row.run_id, row.kind, row.status, row.started_s_ago, *_read_outcomes(connection, row.run_id))
        for row in rows
    )


def _read_outcomes(connection: Connection, run_id: str) -> tuple[dict[str, int], dict[str, int]]:
    rows = connection.execute(text(OUTCOMES_SQL), {"run_id": run_id})
    outcomes: dict[str, int] = {}
    expired: dict[str, int] = {}
    for outcome, group_id, count in rows:
        outcomes[outcome] = outcomes.get(outcome, 0) + count
        if outcome == "expired":
            expired[group_id] = count
    return outcomes, expired
