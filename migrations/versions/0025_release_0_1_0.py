"""The schema of release 0.1.0; the database learns how many shards it is made for.

Revision 0025, the first: databases of earlier revisions are from before the release, and are not upgraded. Its
statements are in `sql/0025/`.
"""

from alembic import context, op
from sqlalchemy import text

from migrations.statements import run_file

revision = "0025"
down_revision = None
branch_labels = None
depends_on = None

DEFAULT_SHARDS = 50
MAX_SHARDS = 10_000

VIEWS = (
    "log_end_max_age",
    "known_log_ends",
    "log_ends_around",
    "group_overview",
    "idle_members",
    "lag_history",
    "newest_runs",
    "offsets_expiring",
    "ownership",
    "partition_lag",
    "rebalances_per_hour",
    "rebalancing_groups",
    "recent_changes",
    "slowest_members",
    "spurious_evictions",
)
"""The views and the functions that they call, which come first."""


def upgrade() -> None:
    shards = _shard_count()
    for name in ("tables", "history", "maintenance", "reports", "proposals"):
        run_file(revision, f"{name}.sql")
    op.execute("CREATE SCHEMA dashboards")
    for name in VIEWS:
        run_file(revision, f"views/{name}.sql")
    run_file(revision, "roles.sql")
    connection = op.get_bind()
    connection.execute(
        text("INSERT INTO versions (shard_count, oldest_compatible_schema) VALUES (:shards, :revision)"),
        {"shards": shards, "revision": revision},
    )
    for table in ("shard_leases", "shard_checkpoints"):
        connection.execute(
            text(f"INSERT INTO {table} (shard_id) SELECT generate_series(0, :shards - 1)"), {"shards": shards}
        )


def downgrade() -> None:
    run_file(revision, "drop.sql")


def _shard_count() -> int:
    """Read the attribute `shards`, else `-x shards=…`."""
    asked = context.config.attributes.get("shards") or context.get_x_argument(as_dictionary=True).get("shards")
    shards = int(asked or DEFAULT_SHARDS)
    if not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"a database has 1 to {MAX_SHARDS} shards, not {shards}")
    return shards
