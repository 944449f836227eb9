"""The first tables, two views and two roles; the database learns how many shards it is made for.

Revision 0001, the first. Its statements are in `sql/0001/`.
"""

from pathlib import Path

from alembic import context, op
from sqlalchemy import text

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STATEMENTS = Path(__file__).parents[1] / "sql" / "0001"
DEFAULT_SHARDS = 50
MAX_SHARDS = 10_000


def upgrade() -> None:
    shards = _shard_count()
    _run("tables.sql")
    op.execute("CREATE SCHEMA dashboards")
    _run("group_overview.sql")
    _run("ownership.sql")
    _run("roles.sql")
    connection = op.get_bind()
    connection.execute(text("INSERT INTO versions (shard_count) VALUES (:shards)"), {"shards": shards})
    connection.execute(
        text("INSERT INTO shard_leases (shard_id) SELECT generate_series(0, :shards - 1)"), {"shards": shards}
    )


def downgrade() -> None:
    _run("down.sql")


def _shard_count() -> int:
    """Read the attribute `shards`, else `-x shards=…`."""
    asked = context.config.attributes.get("shards") or context.get_x_argument(as_dictionary=True).get("shards")
    shards = int(asked or DEFAULT_SHARDS)
    if not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"a database has 1 to {MAX_SHARDS} shards, not {shards}")
    return shards


def _run(name: str) -> None:
    # The file is sent as it is: a percent sign in it is no parameter.
    connection = op.get_bind().execution_options(no_parameters=True)
    connection.exec_driver_sql((STATEMENTS / name).read_text(encoding="utf-8"))
