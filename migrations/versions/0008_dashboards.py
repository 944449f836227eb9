"""What people ask of groups and their lag has a view each.

Revision 0008, after 0007. Its statements are in `sql/0008/`.
"""

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

STATEMENTS = Path(__file__).parents[1] / "sql" / "0008"
VIEWS = (
    "rebalances_per_hour",
    "unsettled_groups",
    "offsets_expiring",
    "idle_members",
    "recent_changes",
    "partition_lag",
    "lag_history",
    "newest_runs",
)


def upgrade() -> None:
    for view in VIEWS:
        _run(f"{view}.sql")


def downgrade() -> None:
    _run("down.sql")


def _run(name: str) -> None:
    # The file is sent as it is: a percent sign in it is no parameter.
    connection = op.get_bind().execution_options(no_parameters=True)
    connection.exec_driver_sql((STATEMENTS / name).read_text(encoding="utf-8"))
