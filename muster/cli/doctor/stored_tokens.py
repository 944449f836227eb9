"""The check of `muster doctor` on issued tokens: which of them expire soon."""

from __future__ import annotations

from typing import Final

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.postgres.tokens import EXPIRY_NOTICE_DAYS
from muster.cli.doctor.results import CheckResult, ok, warning
from muster.display import counted

_SOON: Final = """
SELECT count(*) FILTER (WHERE expires_at <= now() + make_interval(days => %(days)s)), count(*),
    to_char(min(expires_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM tokens WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
"""


def check_issued_tokens(connection: PsycopgConnection) -> CheckResult:
    """Count the valid tokens in the database that expire within two weeks."""
    with connection.cursor() as cursor:
        cursor.execute(_SOON, {"days": EXPIRY_NOTICE_DAYS})
        soon, valid, first = cursor.fetchone() or (0, 0, None)
    if not soon:
        return ok("issued tokens", f"{counted(valid, 'valid token')} in the database")
    message = f"{counted(soon, 'token')} of {valid} will expire within {EXPIRY_NOTICE_DAYS} days, the first at "
    advice = "muster tokens list shows which; issue others, and give them to their clients"
    return warning("issued tokens", message + first, advice)
