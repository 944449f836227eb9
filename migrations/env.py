"""Alembic environment: one run at a time, bounded lock waits, a transaction per migration, then comments.sql.

Rules:

* One run at a time in a database: a connection of its own keeps `alembic_version` locked around all of it, and a run
  that waited for another finds nothing left to do. A role that only reads cannot hold that lock.
* A migration waits at most `LOCK_TIMEOUT_MS` for a table. It fails then, and the queue that formed behind it goes on.
* Each migration is one transaction, so a failed one leaves the schema as the one before left it.
* An upgrade to the newest revision ends with `comments.sql`, which describes every table, view and column. Comments are
  no part of a revision: a text is changed in that file, and the next `muster migrate` applies it.

The address comes from whoever runs Alembic (`muster.schema`): the attribute `database_url`, else MUSTER_DATABASE_URL.
"""

import os
from pathlib import Path

from alembic import context
from sqlalchemy import create_engine, pool, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

LOCK_TIMEOUT_MS = 5_000
STATEMENT_TIMEOUT_MS = 300_000
OTHER_RUN_TIMEOUT_MS = 120_000
CONNECT_TIMEOUT_S = 10
COMMENTS = Path(__file__).with_name("comments.sql")
VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS alembic_version (
    version_num varchar(32) NOT NULL CONSTRAINT alembic_version_pkc PRIMARY KEY
)
"""
"""As Alembic makes it."""


def run() -> None:
    """Run the migrations that were asked for, over one connection."""
    engine = create_engine(
        context.config.attributes.get("database_url") or os.environ["MUSTER_DATABASE_URL"],
        poolclass=pool.NullPool,
        connect_args={"application_name": "muster-migrations", "connect_timeout": CONNECT_TIMEOUT_S},
    )
    with engine.connect() as guard, engine.connect() as connection:
        take_lock(guard)
        set_timeouts(connection, LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS)
        context.configure(connection=connection, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()
        if context.get_context().get_current_revision() == context.get_head_revision():
            connection.connection.cursor().execute(COMMENTS.read_text())
            connection.commit()


def take_lock(guard: Connection) -> None:
    """Wait for another run on this database, and leave a transaction open that holds the lock until the run's end."""
    set_timeouts(guard, LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS)
    guard.execute(text("SELECT set_config('idle_in_transaction_session_timeout', '0', false)"))
    try:
        guard.execute(text(VERSION_TABLE))
        guard.commit()
    except IntegrityError:
        guard.rollback()  # Another run made the table at the same time.
    set_timeouts(guard, OTHER_RUN_TIMEOUT_MS, OTHER_RUN_TIMEOUT_MS)
    guard.execute(text("LOCK TABLE alembic_version IN SHARE UPDATE EXCLUSIVE MODE"))


def set_timeouts(connection: Connection, lock_ms: int, statement_ms: int) -> None:
    """Bound what the session waits for from now on."""
    settings = {"lock_timeout": lock_ms, "statement_timeout": statement_ms}
    for name, value_ms in settings.items():
        connection.execute(text("SELECT set_config(:name, :value, false)"), {"name": name, "value": str(value_ms)})
    # Left open, the transaction would be Alembic's to end, and it would end none.
    connection.commit()


run()
