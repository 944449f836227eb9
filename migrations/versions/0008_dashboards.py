"""What people ask of groups and their lag has a view each.

Revision 0008, after 0007. Its statements are in `sql/0008/`.
"""

from migrations.statements import run_file

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

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
        run_file(revision, f"{view}.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
