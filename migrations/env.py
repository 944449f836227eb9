"""Alembic environment: one run at a time, bounded lock waits, a transaction per migration, then the comments.

Rules:

* One run at a time per database: a separate connection locks `alembic_version` for the whole run. A run that waited for
  another one finds nothing to do. Read-only roles cannot take this lock.
* A migration waits at most `LOCK_TIMEOUT_MS` for a table, and then fails, so that it does not block other sessions.
* Each migration is one transaction, so a failed one changes nothing.
* An upgrade to the newest revision ends with `comments/`, which describes every table, view and column. Comments are
  not part of a revision: edit them, and the next `muster migrate` applies it.

The database URL is the attribute `database_url` of the configuration (`muster.node.schema`), else MUSTER_DATABASE_URL.
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
COMMENTS = Path(__file__).parent / "comments"
VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS alembic_version (
    version_num varchar(32) NOT NULL CONSTRAINT alembic_version_pkc PRIMARY KEY
)
"""
"""The table as Alembic creates it."""


def run() -> None:
    """Run the requested migrations on one connection."""
    engine = create_engine(
        context.config.attributes.get("database_url") or os.environ["MUSTER_DATABASE_URL"],
        poolclass=pool.NullPool,
        connect_args={
            "application_name": "muster-migrations",
            "client_encoding": "utf8",
            "connect_timeout": CONNECT_TIMEOUT_S,
        },
    )
    with engine.connect() as guard, engine.connect() as connection:
        take_lock(guard)
        set_session(connection, LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS)
        context.configure(connection=connection, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()
        if context.get_context().get_current_revision() == context.get_head_revision():
            for file in sorted(COMMENTS.glob("*.sql")):
                connection.execution_options(no_parameters=True).exec_driver_sql(file.read_text(encoding="utf-8"))
            connection.commit()


def take_lock(guard: Connection) -> None:
    """Wait for other runs on this database; leave a transaction open, which keeps the lock until the end of the run."""
    set_session(guard, LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS)
    guard.execute(text("SELECT set_config('idle_in_transaction_session_timeout', '0', false)"))
    try:
        guard.execute(text(VERSION_TABLE))
        guard.commit()
    except IntegrityError:
        guard.rollback()  # Another run created the table at the same time.
    set_session(guard, OTHER_RUN_TIMEOUT_MS, OTHER_RUN_TIMEOUT_MS)
    guard.execute(text("LOCK TABLE alembic_version IN SHARE UPDATE EXCLUSIVE MODE"))


def set_session(connection: Connection, lock_ms: int, statement_ms: int) -> None:
    """Set the session's timeouts, and the schema of objects without one."""
    settings = {"lock_timeout": str(lock_ms), "statement_timeout": str(statement_ms), "search_path": "public"}
    for name, value in settings.items():
        connection.execute(text("SELECT set_config(:name, :value, false)"), {"name": name, "value": value})
    # Alembic does not commit a transaction that is already open.
    connection.commit()


run()
