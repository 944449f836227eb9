"""The check of `muster doctor` on the audit log: that every sealed minute has the changes that were sealed."""

from __future__ import annotations

from typing import Final

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.postgres.seals import FIRST_BROKEN
from muster.cli.doctor.results import CheckResult, error, ok, warning
from muster.display import counted

_NEWEST: Final = """
SELECT (SELECT count(*) FROM change_seals), (SELECT left(seal, 16) FROM change_seals ORDER BY minute DESC LIMIT 1)
"""
_UNSEALED: Final = """
SELECT count(*) FROM changes WHERE sealed_minute IS NULL AND at < clock_timestamp() - interval '10 minutes'
"""
_GUARDS: Final = """
SELECT count(*) FROM pg_trigger
WHERE tgrelid IN ('changes'::regclass, 'change_seals'::regclass) AND NOT tgisinternal AND tgenabled = 'O'
"""
GUARD_COUNT: Final = 4


def check_audit_log(connection: PsycopgConnection) -> CheckResult:
    """Compare the changes with their seals, and name the first minute that was tampered with."""
    with connection.cursor() as cursor:
        cursor.execute(FIRST_BROKEN)
        broken = cursor.fetchone()
        cursor.execute(_NEWEST)
        seals, newest = cursor.fetchone() or (0, None)
        cursor.execute(_UNSEALED)
        (unsealed,) = cursor.fetchone() or (0,)
        cursor.execute(_GUARDS)
        (guards,) = cursor.fetchone() or (0,)
    if broken is not None:
        minute, sealed, found = broken
        message = f"the minute {minute} was altered: {sealed} changes were sealed, and {found} are there"
        return error("audit log", message, "docs/security.md, Audit log, says what to compare")
    if guards < GUARD_COUNT:
        advice = "enable them: ALTER TABLE … ENABLE TRIGGER ALL, for changes and change_seals"
        return warning("audit log", "a trigger that keeps it append-only is disabled or missing", advice)
    if unsealed:
        advice = "a node seals them; if one runs, compare the newest minute of change_seals with the database's clock"
        return warning("audit log", f"{counted(unsealed, 'change')} not sealed for ten minutes", advice)
    if not seals:
        return ok("audit log", "nothing is sealed yet")
    return ok("audit log", f"the seals of {counted(seals, 'minute')} match; the newest seal begins with {newest}")
