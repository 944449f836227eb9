"""The schema revision of the database."""

from coordinator_core.store.postgres.connections import Transaction


def read_schema(transaction: Transaction) -> str | None:
    """Return the number of the last migration, or None if none was run."""
    if transaction.execute("SELECT to_regclass('alembic_version')").scalar_one() is None:
        return None
    found: str | None = transaction.execute("SELECT version_num FROM alembic_version").scalar()
    return found
