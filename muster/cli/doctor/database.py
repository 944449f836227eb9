"""Checks of `muster doctor` on the database: server, schema, roles, incarnation, leases, offset log, clocks."""

from __future__ import annotations

import time
from typing import Any, Final

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.jobs import JOBS
from coordinator_core.state_store.postgres.identity import IS_SAME_DATABASE
from coordinator_core.state_store.postgres.revision import READ_SCHEMA
from coordinator_core.state_store.schema_revision import SchemaRevision, schema_advice
from muster import display
from muster.cli.doctor.results import CheckResult, error, ok, warning
from muster.display import counted, printable
from muster.node.schema import A_TABLE, EMPTY_DATABASE, IS_OURS, NEW_DATABASE, is_unreleased, newest

OLDEST_POSTGRES: Final = 140_000
"""As Postgres numbers its versions."""
CONNECTIONS_MAX_SHARE: Final = 0.9
SLOW_MS: Final = 20.0
SKEW_LOOK_S: Final = 1.0
SKEW_WRONG_S: Final = 30.0
WHO_LOCKS: Final = "find out what it does, and end it: docs/runbook.md, MusterDatabaseWritesSlow"
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


_SERVER: Final = """
SELECT current_setting('server_version'), pg_is_in_recovery() OR EXISTS (
    SELECT FROM pg_settings WHERE name = 'default_transaction_read_only' AND reset_val = 'on')
"""
"""The server's version, and whether the database is read-only for nodes."""


_CONNECTIONS: Final = """
SELECT count(*), current_setting('max_connections')::int
FROM pg_stat_activity
WHERE coalesce(backend_type, 'client backend') = 'client backend' AND datid IS NOT NULL
"""
"""The connections of clients, and their maximum. Types of others' processes are NULL without `pg_read_all_stats`."""


def check_postgres(connection: PsycopgConnection) -> CheckResult:
    """Check the server's version, its response time, and how many connections are free."""
    began_at_s = time.perf_counter()
    _row(connection, "SELECT 1")
    took_ms = (time.perf_counter() - began_at_s) * 1_000
    used, allowed = _row(connection, _CONNECTIONS)
    name, is_read_only = _row(connection, _SERVER)
    message = f"Postgres {name} answers in {took_ms:.1f} ms; {used} of {allowed} connections are in use"
    if connection.server_version < OLDEST_POSTGRES:
        return error("Postgres", message, "use Postgres 14 or newer")
    if is_read_only:
        return error(
            "Postgres", f"{message}; it is read-only", "docs/runbook.md, MusterDatabaseUnreachable: no node can store"
        )
    if used > CONNECTIONS_MAX_SHARE * allowed:
        return warning("Postgres", message, "raise max_connections, or find who holds them in pg_stat_activity")
    if took_ms > SLOW_MS:
        return warning(
            "Postgres", message, "every commit waits for it: bring the nodes nearer, or find what keeps it busy"
        )
    return ok("Postgres", message)


_WAIT_FOR_STANDBY: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '1 s'
"""
"""The sessions whose COMMIT no synchronous standby confirms; other roles' are visible with `pg_read_all_stats` only."""

_BLOCKING: Final = """
SELECT DISTINCT blocking.pid, blocking.application_name, blocking.usename
FROM pg_stat_activity AS waiting
CROSS JOIN unnest(pg_blocking_pids(waiting.pid)) AS by (pid)
JOIN pg_stat_activity AS blocking ON blocking.pid = by.pid
WHERE waiting.datname = current_database()
ORDER BY blocking.pid
"""
BLOCKING_S: Final = 1.0
"""Who blocks others at both ends of this time is reported."""


def check_locks(connection: PsycopgConnection) -> CheckResult:
    """Check that no session waits for a synchronous standby, nor for the locks of another session."""
    (waiting,) = _row(connection, _WAIT_FOR_STANDBY)
    if waiting:
        message = f"{counted(waiting, 'session waits', 'sessions wait')} for a synchronous standby"
        return error("locks", message, "start the standby; docs/runbook.md, MusterDatabaseUnreachable")
    blocking = _rows(connection, _BLOCKING)
    if blocking:
        time.sleep(BLOCKING_S)
        blocking = [each for each in _rows(connection, _BLOCKING) if each in blocking]
    if blocking:
        sessions = "; ".join(f"process {pid} ({printable(name)}) of {role}" for pid, name, role in blocking)
        return warning("locks", f"others wait for locks of {sessions}", WHO_LOCKS)
    return ok("locks", "no session waits for another one")


def check_schema(connection: PsycopgConnection) -> CheckResult:
    """Compare the schema's revision with this program's."""
    (is_there,) = _row(connection, "SELECT to_regclass('alembic_version') IS NOT NULL")
    current = _row(connection, "SELECT max(version_num) FROM alembic_version")[0] if is_there else None
    wanted = newest()
    if current == wanted:
        return ok("schema", f"it is {current}, as this program's")
    if is_unreleased(current):
        return error("schema", f"it is {current}, from before release 0.1.0, which cannot be upgraded", NEW_DATABASE)
    (table,) = _row(connection, f"SELECT ({A_TABLE})")
    if table is not None and not has_own_tables(connection):
        return error("schema", f"the database has tables of another program ({printable(table)})", EMPTY_DATABASE)
    found = SchemaRevision(*_row(connection, READ_SCHEMA)) if current else None
    advice = schema_advice(found, wanted or "")
    if advice is None:
        return ok("schema", f"it is {current}, newer than this program's {wanted}, which can use it")
    return error("schema", f"it is {current or 'empty'}, and this program needs {wanted}", advice)


def has_own_tables(connection: PsycopgConnection) -> bool:
    """Return whether the database has the tables that all other checks read."""
    return bool(_row(connection, IS_OURS)[0])


def check_leases(connection: PsycopgConnection) -> CheckResult:
    """Check that every shard has an owner with a valid lease."""
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
        advice = "if a node runs, it uses another database or server: put MUSTER_DATABASE_URL right; else start a node"
        return error("leases", message, advice)
    if owned < shards or not shards:
        return error(
            "leases",
            message,
            "wait for one lease (MUSTER_LEASE_TTL_MS; 5 s if unset); if it lasts, see the nodes' logs and shard_leases",
        )
    return ok("leases", message)


def check_offset_log(connection: PsycopgConnection) -> CheckResult:
    """Check how long commits have waited for a checkpoint, and whether a commit was quarantined."""
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
    """Check that offsets are stored under the shard of their group."""
    with connection.cursor() as cursor:
        cursor.execute(_MOVED_OFFSETS)
        row = cursor.fetchone()
    if row is None:
        return ok("offsets", "all are stored under the shard of their group")
    rows, group_id, shard_id, of_group = row
    example = f"those of {display.printable(group_id)} have shard_id {shard_id}, and the group has {of_group}"
    return error("offsets", f"{counted(rows, 'offset is', 'offsets are')} under another shard: {example}", _MOVE_BACK)


def check_clocks(connection: PsycopgConnection) -> CheckResult:
    """Compare the database's clock with this machine's, with an error of half a round trip."""
    before_s = time.time()
    (theirs_s,) = _row(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
    skew_s = theirs_s - (before_s + time.time()) / 2
    message = f"the database's clock is {abs(skew_s):.3f} s {'ahead of' if skew_s > 0 else 'behind'} this machine's"
    if abs(skew_s) > SKEW_WRONG_S:
        return error("clocks", message, "synchronize them by NTP: times in history are wrong by as much")
    if abs(skew_s) > SKEW_LOOK_S:
        return warning("clocks", message, "synchronize them by NTP")
    return ok("clocks", message)


def _rows(connection: PsycopgConnection, query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def _row(connection: PsycopgConnection, query: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        row = cursor.fetchone()
    assert row is not None, "each of these queries has one row"
    return tuple(row)


JOBS_WRITE: Final = [table for job in JOBS.values() for table in job.reports]
"""The tables that `muster_jobs` can write, beside the staging tables."""

_WHO = "SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user"

# What PUBLIC can do in this database counts for every role of the server.
_OPEN = "SELECT has_database_privilege('public', current_database(), 'CONNECT')"

# The functions of jobs run as the owner, with this schema in their search path. The default before Postgres 15.
_CREATABLE = "SELECT has_schema_privilege('public', 'public', 'CREATE')"

_JOBS_LOGINS = """
SELECT login.rolname, login.rolsuper OR login.rolcreaterole OR login.rolcreatedb OR login.rolbypassrls, ARRAY(
    SELECT relname::text FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        AND relname !~ '_staging$' AND relname <> ALL(%(allowed)s)
        AND (has_any_column_privilege(login.oid, pg_class.oid, 'INSERT, UPDATE')
            OR has_table_privilege(login.oid, pg_class.oid, 'DELETE, TRUNCATE'))
    ORDER BY relname
)
FROM pg_auth_members
JOIN pg_roles AS login ON login.oid = pg_auth_members.member AND login.rolcanlogin
WHERE roleid = (SELECT oid FROM pg_roles WHERE rolname = 'muster_jobs')
ORDER BY login.rolname
"""

DOCUMENTED: Final = "docs/security.md, Database roles, has the statements"


def check_roles(connection: PsycopgConnection) -> CheckResult:
    """Check the role that nodes log in as, and which other roles can connect to the database."""
    with connection.cursor() as cursor:
        cursor.execute(_WHO)
        role, is_superuser = cursor.fetchone() or ("", False)
        cursor.execute(_OPEN)
        (is_open,) = cursor.fetchone() or (False,)
    if is_superuser:
        advice = f"give nodes a role that owns the database and is no superuser: {DOCUMENTED}"
        return warning("database role", f"{role} is a superuser", advice)
    if is_open:
        message = f"{role} is no superuser; every role of the server can connect to the database"
        return warning("database role", message, f"REVOKE CONNECT, TEMPORARY ON DATABASE … FROM PUBLIC: {DOCUMENTED}")
    return ok("database role", f"{role} is no superuser")


def check_jobs_role(connection: PsycopgConnection) -> CheckResult:
    """Check that Spark jobs have a role of their own, which can propose and nothing else."""
    with connection.cursor() as cursor:
        cursor.execute(_CREATABLE)
        (is_creatable,) = cursor.fetchone() or (False,)
        cursor.execute(_JOBS_LOGINS, {"allowed": JOBS_WRITE})
        logins = cursor.fetchall()
    if is_creatable:
        message = "every role can create operators in the schema public, which jobs run as the owner"
        return error("jobs role", message, f"REVOKE CREATE ON SCHEMA public FROM PUBLIC, as a superuser: {DOCUMENTED}")
    if not logins:
        advice = f"make one, and set MUSTER_JOBS_DATABASE_URL where jobs run: {DOCUMENTED}"
        return warning("jobs role", "no role that logs in is a member of muster_jobs", advice)
    for role, is_powerful, tables in logins:
        if is_powerful:
            advice = f"ALTER ROLE {role} NOSUPERUSER NOCREATEROLE NOCREATEDB NOBYPASSRLS"
            return error("jobs role", f"{role} can make roles or databases, or is a superuser", advice)
        if tables:
            message = f"{role} can write {', '.join(tables)}"
            return error("jobs role", message, "REVOKE what it has beyond muster_jobs: jobs propose, nodes write")
    return ok("jobs role", f"{', '.join(role for role, *_ in logins)} can read and propose")
