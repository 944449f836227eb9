"""The identity of a Postgres database, and conditions that it is the one under which nodes serve.

An ordinary role may call every function that it is read with. The current timeline is read from the name of a WAL
file, because `pg_control_checkpoint` names it only from the first checkpoint after a promotion on. On a standby the
timeline reads 0.

A write compares what costs a microsecond: the timeline and the table. The rest of the identity takes Postgres ten times
as long to read, since the system identifier is in a file. It is compared at each renewal and take-over.
"""

from typing import Final

IDENTITY_COLUMNS: Final[str] = "system_identifier, timeline, database_oid, table_oid"

_TIMELINE: Final[str] = """
CASE WHEN pg_is_in_recovery() THEN 0
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END
"""

ACTUAL_IDENTITY: Final[str] = f"""
SELECT system_identifier, {_TIMELINE} AS timeline,
    (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database_oid,
    'incarnation'::regclass::oid::bigint AS table_oid
FROM pg_control_system()
"""  # noqa: S608 - constants

IS_SAME_DATABASE: Final[str] = f"""
(SELECT ({IDENTITY_COLUMNS}) FROM incarnation) = (SELECT ({IDENTITY_COLUMNS}) FROM ({ACTUAL_IDENTITY}) AS actual)
"""  # noqa: S608 - constants
"""A condition: the stored identity is the actual one; it does not hold where none is stored."""

IS_SAME_TIMELINE: Final[str] = f"""
EXISTS (SELECT FROM incarnation WHERE timeline = {_TIMELINE} AND table_oid = 'incarnation'::regclass::oid::bigint)
"""
"""A condition of every write: timeline and table are those of the stored identity."""
