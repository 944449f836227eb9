"""Add the ends of logs as trusted reporters of any group name them, their history, and the views of lag over them.

Revision 0012, after 0011. Its statements are in `sql/0012/`.
"""

from migrations.statements import run_file

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

VIEWS = ("known_log_ends", "log_ends_around", "partition_lag", "lag_history", "group_overview")


def upgrade() -> None:
    run_file(revision, "tables.sql")
    for view in VIEWS:
        run_file(revision, f"{view}.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
    for earlier, name in (("0008", "partition_lag.sql"), ("0008", "lag_history.sql"), ("0009", "up.sql")):
        run_file(earlier, name)
