"""The schema revision of the database."""

from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.schema_revision import SchemaRevision

READ_SCHEMA = "SELECT version_num, oldest_compatible_schema FROM alembic_version, versions"


def read_schema(transaction: Transaction) -> SchemaRevision | None:
    """Return the revision, or None if no migration was run."""
    if not transaction.execute(
        "SELECT num_nulls(to_regclass('alembic_version'), to_regclass('versions')) = 0"
    ).scalar_one():
        return None
    found = transaction.execute(READ_SCHEMA).one_or_none()
    return None if found is None else SchemaRevision(*found)
