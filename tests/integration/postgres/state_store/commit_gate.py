"""A gate in the database that blocks every transaction that changes a table, before it commits."""

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.waiting import wait_until_blocked

LOCK = 4711

TRIGGER = f"""
CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({LOCK});
    RETURN NULL;
END
$$;
CREATE TRIGGER gate AFTER {{event}} ON {{table}} FOR EACH STATEMENT EXECUTE FUNCTION wait_at_gate();
"""


class Gate:
    """The gate, open at first; transactions that wait at it continue when it is opened."""

    def __init__(self, connection: PsycopgConnection, table: str = "offset_log", event: str = "INSERT") -> None:
        self._connection = connection
        self._execute(TRIGGER.format(table=table, event=event))

    def close(self) -> None:
        """Block changes of the table."""
        self._execute(f"SELECT pg_advisory_lock({LOCK})")

    def open(self) -> None:
        """Let all changes continue; no effect if the gate is open."""
        self._execute("SELECT pg_advisory_unlock_all()")

    def wait_for(self, application: str, how_many: int = 1) -> None:
        """Return when connections of this name wait, here or for another lock."""
        wait_until_blocked(self._connection, application, how_many)

    def _execute(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
