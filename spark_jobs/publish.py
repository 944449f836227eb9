"""A proposal appears whole or not at all: its run and its candidates are published from staging in one transaction.

Rules:

* Runs and candidates are written by functions of the database (migration 0017), which a member of `muster_jobs` may
  call. They change a run only while it is `proposed`. Once it is being applied, was applied, rejected or failed, a job
  that comes again changes nothing and says so.
* A proposal without candidates is published too: "nothing was due" is an answer.
* A report that goes with a proposal is published in the same transaction. It is kept by the end of its data interval,
  so a second run of an interval replaces the first; of the reports of one day the last stays, once its instant has
  come.
* Candidates of a run that was rejected are kept for as long as reports; then they go with a later proposal.
* Staging rows of an attempt go with it, published or not; those of an attempt that was killed go a day later. An
  attempt's id therefore begins with its time, as a UUID of version 7 does.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg2
import psycopg2.extensions as pg
from psycopg2.sql import SQL, Identifier

from coordinator_core.protocol.retention import MINUTE_MS

ABANDONED_AFTER_MS = 86_400_000
FORGOTTEN_AT_ONCE = 10
"""Rejected runs whose candidates one publication removes."""

PROPOSED = "proposed"


@dataclass(frozen=True, slots=True)
class CandidateTable:
    """Where a kind of candidate lives; `columns` are those that the job fills, in its transform's order."""

    name: str
    columns: tuple[str, ...]
    of: str
    """The query for how many rows there are of which these are candidates."""
    largest: str | None = None
    """The query for the most candidates of one group, and the greatest share of one in thousandths."""

    @property
    def staging(self) -> str:
        """Name the table that takes an attempt's rows until all of them are there."""
        return f"{self.name}_staging"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Where a report lives, which has a row a group and data interval; `columns` are those that the job fills."""

    name: str
    columns: tuple[str, ...]

    @property
    def staging(self) -> str:
        """Name the table that takes an attempt's rows until all of them are there."""
        return f"{self.name}_staging"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a run is called and what it is about; instants are RFC 3339, the interval's may be None.

    `share_from` is how many candidates a group must have for its share to be looked at; `report_days` is how long
    reports are kept.
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
    """How publishing ended: the run's status now, its counts, and whether this attempt's candidates are in it."""

    status: str
    counts: dict[str, int]
    is_replaced: bool


def new_attempt_id(now_ms: int) -> str:
    """Draw the id of one attempt at one proposal; ids drawn later sort later (UUID version 7)."""
    return str(UUID(int=_version_7(now_ms) | secrets.randbits(62) | secrets.randbits(12) << 64))


def publish(
    connection: pg.connection,
    proposal: Proposal,
    table: CandidateTable,
    attempt_id: str,
    report: ReportTable | None = None,
) -> Published:
    """Make the attempt's staged rows the run's candidates, unless the run has gone further than `proposed`."""
    with _transaction(connection) as cursor:
        status, counts = _claim(cursor, proposal)
        if status == PROPOSED:
            cursor.execute("SELECT publish_candidates(%s, %s)", (proposal.run_id, attempt_id))
            counts = _count(cursor, proposal, table)
            _describe(cursor, proposal, counts)
            if report is not None:
                _replace_report(cursor, proposal, report, attempt_id)
        for staged in (table, report):
            if staged is not None:
                _discard(cursor, staged, attempt_id)
    with _transaction(connection) as cursor:
        forgotten = (proposal.kind, proposal.report_days, FORGOTTEN_AT_ONCE)
        cursor.execute("SELECT forget_rejected_candidates(%s, %s, %s)", forgotten)
    return Published(status, counts, status == PROPOSED)


def begin_run(connection: pg.connection, proposal: Proposal) -> tuple[str, dict[str, int], datetime]:
    """Make the run if there is none; return its status, its counts and the database's time."""
    with _transaction(connection) as cursor:
        status, counts = _claim(cursor, proposal)
        cursor.execute("SELECT clock_timestamp()")
        return status, counts, _only_row(cursor)[0]


def describe_run(connection: pg.connection, proposal: Proposal, counts: dict[str, int]) -> None:
    """Say what the run is about and what was counted, unless it has gone further than `proposed`."""
    with _transaction(connection) as cursor:
        status, _ = _claim(cursor, proposal)
        if status == PROPOSED:
            _describe(cursor, proposal, counts)


def discard_staged(
    connection: pg.connection, table: CandidateTable | ReportTable, attempt_id: str, now_ms: int
) -> None:
    """Remove the attempt's staged rows, and those of attempts that were killed a day ago or earlier.

    Where the connection is gone they stay, as those of an attempt that was killed: whoever ends a failed attempt wants
    to tell of its own reason.
    """
    oldest = str(UUID(int=_version_7(max(0, now_ms - ABANDONED_AFTER_MS))))
    with suppress(psycopg2.OperationalError, psycopg2.InterfaceError), _transaction(connection) as cursor:
        _discard(cursor, table, attempt_id)
        cursor.execute(
            SQL("DELETE FROM {} WHERE attempt_id < %s").format(Identifier(table.staging)),
            (oldest,),
        )


def take_turn(cursor: pg.cursor, report: ReportTable) -> None:
    """Wait for other replacements of this report's rows, and block further ones until the end of the transaction.

    A table lock, because a role that only reads cannot hold one that blocks others.
    """
    cursor.execute(SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(Identifier(report.name)))


def count_shards(connection: pg.connection) -> int:
    """Tell into how many shards the groups fall; 0 when no node ever ran."""
    with _transaction(connection) as cursor:
        cursor.execute("SELECT count(*) FROM shard_leases")
        return int(_only_row(cursor)[0])


def least_retention_ms(connection: pg.connection, key: str, default_ms: int) -> int | None:
    """Return the shortest retention of all levels, or None where all of them keep for ever."""
    minutes = r"SELECT value::numeric AS minutes FROM {} WHERE key = %(key)s AND value ~ '^\s*\+?[0-9]+\s*$'"
    levels = SQL(" UNION ALL ").join(SQL(minutes).format(Identifier(of)) for of in ("cluster_config", "group_configs"))
    with _transaction(connection) as cursor:
        cursor.execute(SQL("SELECT min(minutes)::numeric FROM ({}) AS levels").format(levels), {"key": key})
        (least_minutes,) = _only_row(cursor)
    stored = [] if least_minutes is None else [int(least_minutes) * MINUTE_MS]
    return min([*stored, *([default_ms] if default_ms >= 0 else [])], default=None)


def _claim(cursor: pg.cursor, proposal: Proposal) -> tuple[str, dict[str, int]]:
    """Make the run if there is none, lock it while it is proposed, and return its status and counts."""
    cursor.execute(
        "SELECT * FROM propose_run(%s, %s, %s, %s, %s, %s)",
        (proposal.run_id, proposal.kind, *_about(proposal)),
    )
    status, counts = _only_row(cursor)
    return status, counts


def _about(proposal: Proposal) -> tuple[str, str | None, str | None, bool]:
    return proposal.as_of, proposal.interval_start, proposal.interval_end, proposal.is_dry_run


def _count(cursor: pg.cursor, proposal: Proposal, table: CandidateTable) -> dict[str, int]:
    """Count the candidates, what they are taken of, their groups, the largest, and the candidates of each reason."""
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


def _replace_report(cursor: pg.cursor, proposal: Proposal, report: ReportTable, attempt_id: str) -> None:
    """Put the attempt's rows in place of those of the same end; a run by hand has the interval of its one instant.

    An interval that ends in the future takes the place of no other one: until then, those before it count.
    """
    take_turn(cursor, report)
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
        staging=Identifier(report.staging),
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


def _discard(cursor: pg.cursor, table: CandidateTable | ReportTable, attempt_id: str) -> None:
    statement = SQL("DELETE FROM {} WHERE attempt_id = %s").format(Identifier(table.staging))
    cursor.execute(statement, (attempt_id,))


def _version_7(now_ms: int) -> int:
    """The 128 bits of a UUID of version 7 with its random bits zero."""
    return now_ms << 80 | 0x7 << 76 | 0b10 << 62


@contextmanager
def _transaction(connection: pg.connection) -> Iterator[pg.cursor]:
    with connection, connection.cursor() as cursor:
        yield cursor


def _only_row(cursor: pg.cursor) -> tuple[Any, ...]:
    row = cursor.fetchone()
    assert row is not None, "the statement always returns a row"
    return row
