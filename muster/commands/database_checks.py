"""Checks of `muster doctor` on the database: version, schema, shard owners, clock."""

from __future__ import annotations

import time
from typing import Any, Final

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.store.postgres.identity import IS_SAME_DATABASE
from muster import display
from muster.commands.check_result import CheckResult, error, ok, warning
from muster.commands.output import counted
from muster.schema import newest

OLDEST_POSTGRES: Final = 140_000
"""As Postgres numbers its versions."""
CONNECTIONS_MAX_SHARE: Final = 0.9
SLOW_MS: Final = 20.0
SKEW_LOOK_S: Final = 1.0
SKEW_WRONG_S: Final = 30.0
ROW_LOST: Final = "restore the row from a backup: docs/backup.md"

_OWNED_SHARDS: Final = """
SELECT count(*), count(nodes.node_id)
FROM shard_leases
LEFT JOIN nodes ON nodes.node_id = shard_leases.node_id AND nodes.expires_at > clock_timestamp()
    AND shard_leases.expires_at > clock_timestamp()
"""
LONG_WAIT_S: Final = 30
"""Commits that wait longer for a checkpoint are reported."""

_WAITING_COMMITS: Final = """
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(written_at)), 0)::bigint
FROM offset_log AS log
WHERE EXISTS (
    SELECT FROM unnest(log.shard_ids) AS given (shard_id) LEFT JOIN shard_checkpoints AS stored USING (shard_id)
    WHERE coalesce(stored.seq, 0) < log.seq)
"""

_INCARNATION: Final = f"""
SELECT number, to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), started_at > now() - interval '1 day',
    system_identifier IS NOT NULL, {IS_SAME_DATABASE}
FROM incarnation
"""  # noqa: S608 - a constant


def check_postgres(connection: PsycopgConnection) -> CheckResult:
    """Look at the server's version, how long an answer takes, and how many connections are left."""
    began_at_s = time.perf_counter()
    _row(connection, "SELECT 1")
    took_ms = (time.perf_counter() - began_at_s) * 1_000
    used, allowed = _row(
        connection, "SELECT (SELECT count(*) FROM pg_stat_activity), current_setting('max_connections')::int"
    )
    (name,) = _row(connection, "SELECT current_setting('server_version')")
    message = f"Postgres {name} answers in {took_ms:.1f} ms; {used} of {allowed} connections are in use"
    if connection.server_version < OLDEST_POSTGRES:
        return error("Postgres", message, "use Postgres 14 or newer")
    if used > CONNECTIONS_MAX_SHARE * allowed:
        return warning("Postgres", message, "raise max_connections, or find who holds them in pg_stat_activity")
    if took_ms > SLOW_MS:
        return warning(
            "Postgres", message, "every commit waits for it: bring the nodes nearer, or find what keeps it busy"
        )
    return ok("Postgres", message)


def check_schema(connection: PsycopgConnection) -> CheckResult:
    """Compare the schema with this program's."""
    (is_there,) = _row(connection, "SELECT to_regclass('alembic_version') IS NOT NULL")
    current = _row(connection, "SELECT max(version_num) FROM alembic_version")[0] if is_there else None
    wanted = newest()
    if current == wanted:
        return ok("schema", f"it is {current}, as this program's")
    message = f"it is {current or 'empty'}, and this program needs {wanted}"
    is_older = current is None or (wanted is not None and current < wanted)
    return error("schema", message, "run muster migrate" if is_older else "use a newer program")


def check_leases(connection: PsycopgConnection) -> CheckResult:
    """See whether every shard has an owner whose lease holds."""
    (shards, owned) = _row(connection, _OWNED_SHARDS)
    (nodes,) = _row(connection, "SELECT count(*) FROM nodes WHERE expires_at > clock_timestamp()")
    (shard_count,) = _row(connection, "SELECT max(shard_count) FROM versions")
    if shard_count not in {None, shards}:
        message = f"versions.shard_count is {shard_count}, and shard_leases has {counted(shards, 'row')}"
        return error(
            "leases", message, "put back the number that the database was created with; then start the nodes again"
        )
    message = f"{counted(owned, 'shard')} of {shards} have an owner; {counted(nodes, 'node')} alive"
    if not nodes:
        return error("leases", message, "start a node: muster up, or muster serve")
    if owned < shards or not shards:
        return error(
            "leases",
            message,
            "wait for one lease (MUSTER_LEASE_TTL_MS; 5 s if unset); if it lasts, see the nodes' logs and shard_leases",
        )
    return ok("leases", message)


def check_offset_log(connection: PsycopgConnection) -> CheckResult:
    """See how long commits have been waiting for a checkpoint, and whether any was rejected."""
    rows, waiting_s = _row(connection, _WAITING_COMMITS)
    (quarantined,) = _row(connection, "SELECT count(*) FROM quarantined_offsets")
    message = f"{counted(rows, 'batch', 'batches')} of commits {'wait' if rows != 1 else 'waits'} for a checkpoint"
    if quarantined:
        message += f"; {counted(quarantined, 'row')} in quarantined_offsets"
        advice = "muster offset-log dump --quarantined; docs/runbook.md, MusterOffsetsQuarantined"
        return error("offset log", message, advice)
    if waiting_s > LONG_WAIT_S:
        message += f", the oldest since {waiting_s} s"
        advice = "docs/runbook.md, MusterCheckpointsBehind; the rows of a shard wait until it has an owner"
        return warning("offset log", message, advice)
    return ok("offset log", message)


def check_incarnation(connection: PsycopgConnection) -> CheckResult:
    """Compare the database's identity with the one under which nodes served it, and report a change."""
    with connection.cursor() as cursor:
        cursor.execute(_INCARNATION)
        row = cursor.fetchone()
    if row is None:
        return error("incarnation", "the table incarnation has no row, so no node starts", ROW_LOST)
    number, started_at, is_new, is_served, is_same = row
    message = f"the database is at incarnation {number}, which started at {started_at} UTC"
    if is_served and not is_same:
        message += "; it has been restored or failed over since"
        return warning("incarnation", message, "the next node that starts or renews starts a new one: docs/backup.md")
    if number > 1 and is_new:
        return warning(
            "incarnation", message, "it was restored, rolled back or failed over: docs/backup.md; muster changes list"
        )
    return ok("incarnation", message)


_MOVED_OFFSETS: Final = """
SELECT count(*) OVER (), offsets.group_id, offsets.shard_id, groups.shard_id
FROM offsets JOIN groups USING (group_id)
WHERE offsets.shard_id <> groups.shard_id
ORDER BY group_id
LIMIT 1
"""
_MOVE_BACK: Final = (
    "UPDATE offsets SET shard_id = groups.shard_id FROM groups"
    " WHERE groups.group_id = offsets.group_id AND offsets.shard_id <> groups.shard_id"
)


def check_offsets(connection: PsycopgConnection) -> CheckResult:
    """Look for offsets that are stored under another shard than their group."""
    with connection.cursor() as cursor:
        cursor.execute(_MOVED_OFFSETS)
        row = cursor.fetchone()
    if row is None:
        return ok("offsets", "all are stored under the shard of their group")
    rows, group_id, shard_id, of_group = row
    example = f"those of {display.printable(group_id)} have shard_id {shard_id}, and the group has {of_group}"
    return error("offsets", f"{counted(rows, 'offset is', 'offsets are')} under another shard: {example}", _MOVE_BACK)


def check_clocks(connection: PsycopgConnection) -> CheckResult:
    """Compare the database's clock with this machine's, to the half of an answer's time."""
    before_s = time.time()
    (theirs_s,) = _row(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
    skew_s = theirs_s - (before_s + time.time()) / 2
    message = f"the database's clock is {abs(skew_s):.3f} s {'ahead of' if skew_s > 0 else 'behind'} this machine's"
    if abs(skew_s) > SKEW_WRONG_S:
        return error("clocks", message, "set them by NTP: what history says of times is off by as much")
    if abs(skew_s) > SKEW_LOOK_S:
        return warning("clocks", message, "set them by NTP")
    return ok("clocks", message)


def _row(connection: PsycopgConnection, query: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        row = cursor.fetchone()
    assert row is not None, "each of these queries has one row"
    return tuple(row)
