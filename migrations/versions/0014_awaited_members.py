"""Store which members a long rebalance waits for; `dashboards.unsettled_groups` names them.

Revision 0014, after 0013. Its statements are in `sql/0014/`.
"""

from migrations.statements import run_file

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("up", "unsettled_groups"):
        run_file(revision, f"{name}.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
