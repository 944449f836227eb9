"""The first tables, two views and two roles; the database learns how many shards it is made for.

Revision 0001, the first. Its statements are in `sql/0001/`.
"""

from alembic import context, op
from sqlalchemy import text

from migrations.statements import run_file

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

DEFAULT_SHARDS = 50
MAX_SHARDS = 10_000


def upgrade() -> None:
    shards = _shard_count()
    run_file(revision, "tables.sql")
    op.execute("CREATE SCHEMA dashboards")
    run_file(revision, "group_overview.sql")
    run_file(revision, "ownership.sql")
    run_file(revision, "roles.sql")
    connection = op.get_bind()
    connection.execute(text("INSERT INTO versions (shard_count) VALUES (:shards)"), {"shards": shards})
    connection.execute(
        text("INSERT INTO shard_leases (shard_id) SELECT generate_series(0, :shards - 1)"), {"shards": shards}
    )


def downgrade() -> None:
    run_file(revision, "down.sql")


def _shard_count() -> int:
    """Read the attribute `shards`, else `-x shards=…`."""
    asked = context.config.attributes.get("shards") or context.get_x_argument(as_dictionary=True).get("shards")
    shards = int(asked or DEFAULT_SHARDS)
    if not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"a database has 1 to {MAX_SHARDS} shards, not {shards}")
    return shards
