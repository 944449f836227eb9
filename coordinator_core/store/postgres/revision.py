"""Which schema the database has, as the migrations left it."""

from coordinator_core.store.postgres.connections import Transaction


def read_schema(transaction: Transaction) -> str | None:
    """Return the newest migration that was run, or None where none was."""
    if transaction.execute("SELECT to_regclass('alembic_version')").scalar_one() is None:
        return None
    found: str | None = transaction.execute("SELECT version_num FROM alembic_version").scalar()
    return found
