"""Let views read from the cluster's settings when the end of a log is stale, and count deletions of ends.

Revision 0018, after 0017. Its statements are in `sql/0018/`.
"""

from migrations.statements import run_file

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

VIEWS = ("partition_lag", "lag_history", "group_overview")


def upgrade() -> None:
    run_file(revision, "up.sql")
    for view in VIEWS:
        run_file(revision, f"{view}.sql")


def downgrade() -> None:
    for view in VIEWS:
        run_file("0012", f"{view}.sql")
    run_file(revision, "down.sql")
