"""Checks of `muster doctor` on database roles: superusers, and the rights of Spark jobs."""

from __future__ import annotations

from typing import Final

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.commands.check_result import CheckResult, error, ok, warning

JOBS_WRITE: Final = (
    "offset_expiry_forecasts",
    "assignment_balance_audits",
    "assignment_balance_topics",
    "rebalance_frequency_reports",
    "timeout_advice",
)
"""The tables that `muster_jobs` can write, beside the staging tables. Source: docs/tables.md."""

_WHO = "SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user"

# What PUBLIC can do in this database counts for every role of the server.
_OPEN = "SELECT has_database_privilege('public', current_database(), 'CONNECT')"

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
    """Look at the role that nodes log in as, and at who else can connect to the database."""
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
    """See whether Spark jobs have a role of their own that can propose and nothing else."""
    with connection.cursor() as cursor:
        cursor.execute(_JOBS_LOGINS, {"allowed": list(JOBS_WRITE)})
        logins = cursor.fetchall()
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
