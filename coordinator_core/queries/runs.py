"""Maintenance runs, their candidates, and what they say about coming expiries."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_core.queries.group_patterns import COVERED_GROUPS, GroupPatterns, pattern_parameters
from coordinator_core.state_store.postgres.arrays import array_literal
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.maintenance import RUNS, read_run, runs_of
from coordinator_core.state_store.postgres.rejections import find_rejection
from coordinator_core.state_store.runs import Rejection, RunRow, RunStatus
from coordinator_core.state_store.tables import maintenance_runs


def read_runs(
    transaction: Transaction, statuses: Collection[RunStatus] = frozenset(RunStatus), limit: int = 100
) -> list[RunRow]:
    """Return at most `limit` runs with one of these statuses, the newest first."""
    matching = RUNS.where(maintenance_runs.c.status.in_(statuses))
    newest = matching.order_by(maintenance_runs.c.created_at.desc(), maintenance_runs.c.run_id).limit(limit)
    return runs_of(transaction, transaction.execute(newest))


def describe_run(transaction: Transaction, run_id: str) -> tuple[RunRow, Rejection | None]:
    """Return a run, and the rejection that holds for it, if it is proposed.

    Raises:
        RunNotFound: the run does not exist.
    """
    return read_run(transaction, run_id), find_rejection(transaction, run_id)


# -- candidates -------------------------------------------------------------------------------------------


class CandidateCursor(NamedTuple):
    """The last candidate of a page."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCandidate:
    """A candidate: an offset, or (with the topic and partition of WHOLE_GROUP) a group. Unused fields are None."""

    group_id: str
    topic: str
    partition: int
    generation: int | None
    state_since_ms: int | None
    committed_at_ms: int | None
    reason: str | None
    outcome: str | None
    """None while undecided."""

    @property
    def cursor(self) -> CandidateCursor:
        """Return the cursor of a page that ends here."""
        return CandidateCursor(self.group_id, self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDay:
    """A day of a history table that a run has copied and proposes to drop."""

    table: str
    day: str
    """As 2026-01-31, in UTC."""
    path: str
    row_count: int
    checksum: str
    verified_at_ms: int
    outcome: str | None
    """None while undecided."""


_CANDIDATES: Final = f"""
SELECT * FROM (
    (SELECT group_id, topic, partition, generation, floor(extract(epoch FROM state_since) * 1000)::bigint,
        floor(extract(epoch FROM committed_at) * 1000)::bigint, reason, outcome
    FROM expiry_candidates
    WHERE run_id = %(run_id)s AND {COVERED_GROUPS} AND (%(group_id)s::text IS NULL OR (group_id, topic, partition)
        > (%(group_id)s::text COLLATE "C", %(topic)s::text COLLATE "C", %(partition)s::integer))
    ORDER BY group_id, topic, partition LIMIT %(limit)s)
    UNION ALL
    (SELECT group_id, '', -1, generation, floor(extract(epoch FROM state_since) * 1000)::bigint, NULL, reason, outcome
    FROM cleanup_candidates
    WHERE run_id = %(run_id)s AND {COVERED_GROUPS}
        AND (%(group_id)s::text IS NULL OR group_id > %(group_id)s::text COLLATE "C")
    ORDER BY group_id LIMIT %(limit)s)
) AS candidates
ORDER BY group_id, topic, partition LIMIT %(limit)s
"""  # noqa: S608 - all of it is written here


def read_candidates(
    transaction: Transaction,
    run_id: str,
    after: CandidateCursor | None,
    limit: int,
    patterns: GroupPatterns | None = None,
) -> list[ListedCandidate]:
    """Return a page of a run's candidates of the groups that the patterns cover, by group, topic and partition.

    Raises:
        RunNotFound: the run does not exist.
    """
    read_run(transaction, run_id)
    group_id, topic, partition = after or (None, None, None)
    wanted = {"run_id": run_id, "group_id": group_id, "topic": topic, "partition": partition, "limit": limit}
    rows = transaction.execute(_CANDIDATES, {**wanted, **pattern_parameters(patterns)})
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

# -- expiry -----------------------------------------------------------------------------------------------


class ExpiryForecast(NamedTuple):
    """How many offsets will expire after `as_of_ms`, by the newest run of `offset_retention`."""

    as_of_ms: int
    within_a_day: int
    within_a_week: int
    """Including those of the first day."""


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
    """Return how many offsets of these shards will expire, by the newest run whose `as_of` is not in the future.

    Runs of one interval replace each other's rows, so it does not matter which of them is found.
    """
    row = transaction.execute(_FORECAST, {"shard_ids": array_literal(shard_ids)}).first()
    return None if row is None else ExpiryForecast(*row)


# -- newest runs ------------------------------------------------------------------------------------------------

_NEWEST_RUNS = "SELECT kind, floor(extract(epoch FROM as_of) * 1000)::bigint AS as_of_ms FROM dashboards.newest_runs"


def read_newest_runs(transaction: Transaction) -> dict[str, int]:
    """Return job → the `as_of` of its newest run, from the view `dashboards.newest_runs`."""
    return {row.kind: row.as_of_ms for row in transaction.execute(_NEWEST_RUNS)}
