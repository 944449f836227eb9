"""Publish a proposal: move a run's staged candidates to their table in one transaction.

Rules:

* Runs and candidates are written by database functions (`migrations/sql/0025/proposals.sql`), which members of
  `muster_jobs` may call. They change a run only while it is `proposed`. For a run in any other status, a repeated job
  changes nothing and says so.
* A proposal without candidates is published too.
* A report that belongs to a proposal is published in the same transaction. Its key is the end of its data interval, so
  a second run of an interval replaces the first. The last report of each day is kept, once its instant has passed. A
  run that is late, as of an instant before another run's, stores none.
* Candidates of rejected runs are kept as long as reports; a later proposal deletes them.
* An attempt deletes its staging rows, published or not; rows of killed attempts are deleted after one day. An
  attempt's id therefore starts with its time (UUID version 7).
"""

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg2
import psycopg2.extensions as pg
from psycopg2.sql import SQL, Identifier

from coordinator_core.protocol.retention import MINUTE_MS
from spark_jobs.database import transaction
from spark_jobs.errors import JobError

STAGING_MAX_AGE_MS = 86_400_000
DISCARDED_ATTEMPTS_MAX = 10
"""Maximum of rejected runs whose candidates one publication deletes."""

LARGEST_GROUPS_MAX = 10
"""How many groups a proposal's result names, for the person who approves it."""

PROPOSED = "proposed"


@dataclass(frozen=True, slots=True)
class CandidateTable:
    """The table of a kind of candidates."""

    name: str
    of: str
    """Query for the total number of rows from which candidates are taken."""
    largest: str | None = None
    """Query for the most candidates of one group, and the greatest share of one group in thousandths."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """The table of a report with a row per group and data interval; `columns` are those that the job fills."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A run's id and parameters; instants are RFC 3339, the interval's may be None.

    `share_from` is the number of candidates from which a group's share is computed; `report_days` is how long reports
    are kept.
    """

    run_id: str
    kind: str
    as_of: str
    interval_start: str | None
    interval_end: str | None
    is_dry_run: bool
    share_from: int
    report_days: int


@dataclass(frozen=True, slots=True)
class Published:
    """Result of publishing: the run's status and counts, and whether this attempt's candidates are in it.

    `largest_groups` are the groups with most candidates, each with their number, if this attempt's are in it.
    """

    status: str
    counts: dict[str, int]
    is_replaced: bool
    largest_groups: tuple[tuple[str, int], ...] = ()


def staging_of(table: str) -> str:
    """Return the name of the table that takes an attempt's rows until all of them are there."""
    return f"{table}_staging"


def new_attempt_id(now_ms: int) -> str:
    """Return a new attempt id; later ids sort later (UUID version 7)."""
    return str(UUID(int=_version_7(now_ms) | secrets.randbits(62) | secrets.randbits(12) << 64))


def publish(
    connection: pg.connection,
    proposal: Proposal,
    table: CandidateTable,
    attempt_id: str,
    report: ReportTable | None = None,
) -> Published:
    """Make the attempt's staged rows the run's candidates, unless the run is no longer `proposed`."""
    largest_groups: tuple[tuple[str, int], ...] = ()
    with transaction(connection) as cursor:
        status, counts = _claim(cursor, proposal)
        if status == PROPOSED:
            cursor.execute("SELECT publish_candidates(%s, %s)", (proposal.run_id, attempt_id))
            counts = _count(cursor, proposal, table)
            largest_groups = _largest_groups(cursor, proposal, table)
            _describe(cursor, proposal, counts)
            if report is not None:
                _replace_report(cursor, proposal, report, attempt_id)
        for staged in (table, report):
            if staged is not None:
                _discard(cursor, staged.name, attempt_id)
    with transaction(connection) as cursor:
        forgotten = (proposal.kind, proposal.report_days, DISCARDED_ATTEMPTS_MAX)
        cursor.execute("SELECT delete_rejected_candidates(%s, %s, %s)", forgotten)
    return Published(status, counts, status == PROPOSED, largest_groups)


def begin_run(connection: pg.connection, proposal: Proposal) -> tuple[str, dict[str, int], datetime]:
    """Create the run if there is none; return its status, its counts and the database's time."""
    with transaction(connection) as cursor:
        status, counts = _claim(cursor, proposal)
        cursor.execute("SELECT clock_timestamp()")
        return status, counts, _only_row(cursor)[0]


def describe_run(connection: pg.connection, proposal: Proposal, counts: dict[str, int]) -> tuple[str, dict[str, int]]:
    """Write the run's parameters and counts, unless it is no longer `proposed`; return its status and its counts."""
    with transaction(connection) as cursor:
        status, earlier = _claim(cursor, proposal)
        if status != PROPOSED:
            return status, earlier
        _describe(cursor, proposal, counts)
        return status, counts


def discard_staged(connection: pg.connection, table: str, attempt_id: str, now_ms: int) -> None:
    """Delete the attempt's staged rows, and those of attempts that were killed a day ago or earlier.

    If the connection is broken, the rows remain until a later attempt, so that the original error is reported.
    """
    oldest = str(UUID(int=_version_7(max(0, now_ms - STAGING_MAX_AGE_MS))))
    with suppress(psycopg2.OperationalError, psycopg2.InterfaceError), transaction(connection) as cursor:
        _discard(cursor, table, attempt_id)
        cursor.execute(
            SQL("DELETE FROM {} WHERE attempt_id < %s").format(Identifier(staging_of(table))),
            (oldest,),
        )


def lock_report(cursor: pg.cursor, report: ReportTable) -> None:
    """Block other replacements of this report's rows until the end of the transaction.

    A table lock, because read-only roles cannot take one that blocks others.
    """
    cursor.execute(SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(Identifier(report.name)))


def count_shards(connection: pg.connection) -> int:
    """Return the number of shards; 0 if no node ever ran."""
    with transaction(connection) as cursor:
        cursor.execute("SELECT count(*) FROM shard_leases")
        return int(_only_row(cursor)[0])


def require_coordinated_groups(connection: pg.connection) -> None:
    """Check that the groups of the database may be changed.

    Raises:
        JobError: they are those of a mirrored Kafka cluster.
    """
    with transaction(connection) as cursor:
        cursor.execute("SELECT cluster_id FROM mirrored_cluster")
        mirrored = cursor.fetchone()
    if mirrored is not None:
        where = f"the database mirrors the Kafka cluster {mirrored[0]}"
        raise JobError(f"{where}: offsets and groups expire there, and Muster removes none")


def least_retention_ms(connection: pg.connection, key: str, default_ms: int) -> int | None:
    """Return the shortest retention of all levels in milliseconds, or None if all keep offsets forever."""
    minutes = r"SELECT value::numeric AS minutes FROM {} WHERE key = %(key)s AND value ~ '^\s*\+?[0-9]+\s*$'"
    levels = SQL(" UNION ALL ").join(SQL(minutes).format(Identifier(of)) for of in ("cluster_configs", "group_configs"))
    with transaction(connection) as cursor:
        cursor.execute(SQL("SELECT min(minutes)::numeric FROM ({}) AS levels").format(levels), {"key": key})
        (least_minutes,) = _only_row(cursor)
    stored = [] if least_minutes is None else [int(least_minutes) * MINUTE_MS]
    return min([*stored, *([default_ms] if default_ms >= 0 else [])], default=None)


def _claim(cursor: pg.cursor, proposal: Proposal) -> tuple[str, dict[str, int]]:
    """Create the run if there is none, lock it while it is proposed, and return its status and counts."""
    cursor.execute(
        "SELECT * FROM propose_run(%s, %s, %s, %s, %s, %s)",
        (proposal.run_id, proposal.kind, *_about(proposal)),
    )
    status, counts = _only_row(cursor)
    return status, counts


def _about(proposal: Proposal) -> tuple[str, str | None, str | None, bool]:
    return proposal.as_of, proposal.interval_start, proposal.interval_end, proposal.is_dry_run


def _count(cursor: pg.cursor, proposal: Proposal, table: CandidateTable) -> dict[str, int]:
    """Count candidates, all rows, groups, the largest group, and the candidates of each reason."""
    run_id = proposal.run_id
    cursor.execute(
        SQL("SELECT reason, count(*) FROM {} WHERE run_id = %s GROUP BY reason ORDER BY reason").format(
            Identifier(table.name)
        ),
        (run_id,),
    )
    by_reason = {str(reason): int(count) for reason, count in cursor.fetchall()}
    cursor.execute(
        SQL("SELECT count(DISTINCT group_id) FROM {} WHERE run_id = %s").format(Identifier(table.name)), (run_id,)
    )
    groups = int(_only_row(cursor)[0])
    cursor.execute(table.of)
    counts = {"candidates": sum(by_reason.values()), "of": int(_only_row(cursor)[0]), "groups": groups}
    if table.largest is not None:
        cursor.execute(table.largest, {"run_id": run_id, "share_from": proposal.share_from})
        counts |= dict(zip(("largest_group", "largest_group_permille"), map(int, _only_row(cursor)), strict=True))
    return counts | by_reason


def _largest_groups(cursor: pg.cursor, proposal: Proposal, table: CandidateTable) -> tuple[tuple[str, int], ...]:
    cursor.execute(
        SQL("SELECT group_id, count(*) FROM {} WHERE run_id = %s GROUP BY group_id ORDER BY 2 DESC, 1 LIMIT %s").format(
            Identifier(table.name)
        ),
        (proposal.run_id, LARGEST_GROUPS_MAX),
    )
    return tuple((str(group_id), int(count)) for group_id, count in cursor.fetchall())


def _replace_report(cursor: pg.cursor, proposal: Proposal, report: ReportTable, attempt_id: str) -> None:
    """Replace the rows with the same interval end by the attempt's; a manual run's interval is its instant.

    An interval that ends in the future replaces no other one. A run as of an earlier instant than another one, as in a
    backfill, replaces none: it has read the present state.
    """
    lock_report(cursor, report)
    later = "SELECT EXISTS (SELECT FROM maintenance_runs WHERE kind = %s AND as_of > %s AND as_of <= now())"
    cursor.execute(later, (proposal.kind, proposal.as_of))
    (is_late,) = _only_row(cursor)
    if is_late:
        return
    replace = SQL(
        "DELETE FROM {table} WHERE interval_end = %(end)s;"
        " DELETE FROM {table} WHERE interval_end < %(end)s"
        " AND (interval_end >= date_trunc('day', %(end)s, 'UTC') AND %(end)s <= now()"
        " OR interval_end < least(%(end)s, now()) - %(days)s * interval '1 day');"
        " INSERT INTO {table} (interval_start, interval_end, run_id, as_of, {columns})"
        " SELECT %(start)s, %(end)s, %(run_id)s, %(as_of)s, {columns} FROM {staging}"
        " WHERE attempt_id = %(attempt_id)s ORDER BY group_id ON CONFLICT DO NOTHING"
    ).format(
        table=Identifier(report.name),
        staging=Identifier(staging_of(report.name)),
        columns=SQL(", ").join(map(Identifier, report.columns)),
    )
    given = {
        "start": datetime.fromisoformat(proposal.interval_start or proposal.as_of),
        "end": datetime.fromisoformat(proposal.interval_end or proposal.as_of),
        "days": proposal.report_days,
        "run_id": proposal.run_id,
        "as_of": proposal.as_of,
        "attempt_id": attempt_id,
    }
    cursor.execute(replace, given)


def _describe(cursor: pg.cursor, proposal: Proposal, counts: dict[str, int]) -> None:
    described = (proposal.run_id, *_about(proposal), json.dumps(counts))
    cursor.execute("SELECT describe_run(%s, %s, %s, %s, %s, %s)", described)


def _discard(cursor: pg.cursor, table: str, attempt_id: str) -> None:
    statement = SQL("DELETE FROM {} WHERE attempt_id = %s").format(Identifier(staging_of(table)))
    cursor.execute(statement, (attempt_id,))


def _version_7(now_ms: int) -> int:
    """The 128 bits of a UUID of version 7 with its random bits zero."""
    return now_ms << 80 | 0x7 << 76 | 0b10 << 62


def _only_row(cursor: pg.cursor) -> tuple[Any, ...]:
    row = cursor.fetchone()
    assert row is not None, "the statement always returns a row"
    return row
