"""The identity of a Postgres database, and SQL conditions that compare it with the stored one.

Every role may call the functions that read it. The current timeline is read from the name of a WAL file, because
`pg_control_checkpoint` has it only after the first checkpoint that follows a promotion. On a standby the timeline is 0.

Renewing and acquiring leases compares the whole identity. A write compares the incarnation's number, the timeline, and
instead of the rest two marks of the server, which take a microsecond to read (`known_server`).
"""

from typing import Final

from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.rows import Identity, Incarnation

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
"""A condition: the stored identity is the actual one; false without a stored identity."""

MARKS: Final[str] = "SELECT pg_postmaster_start_time()::text, pg_relation_filepath('incarnation')"
"""Texts, which the driver formats fastest; the path of a table's file contains the object id of its database."""

IS_KNOWN_SERVER: Final[str] = f"""
pg_postmaster_start_time() = %(server_started_at)s::timestamptz
AND pg_relation_filepath('incarnation') = %(incarnation_file)s::text
AND EXISTS (SELECT FROM incarnation WHERE number = %(incarnation)s::bigint AND timeline = {_TIMELINE})
"""
"""A condition of every write: known server, known incarnation, and the timeline of the stored identity."""

_INCARNATION: Final[str] = f"""
SELECT number, floor(extract(epoch FROM started_at) * 1000)::bigint, {IDENTITY_COLUMNS} FROM incarnation
"""  # noqa: S608 - a constant


def read_incarnation(transaction: Transaction) -> Incarnation:
    """Return the stored incarnation."""
    number, started_at_ms, *identity = transaction.execute(_INCARNATION).one()
    return Incarnation(number, started_at_ms, None if None in identity else Identity(*identity))


def read_identity(transaction: Transaction) -> Identity:
    """Return the actual identity of the database."""
    return Identity(*transaction.execute(ACTUAL_IDENTITY).one())
