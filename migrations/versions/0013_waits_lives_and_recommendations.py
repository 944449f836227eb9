"""Add the hosts of members in a rebalance, a group's life within a report's interval, and recommendations.

The view `slowest_members` ranks consumers instead of member ids. Revision 0013, after 0012. Its statements are in
`sql/0013/`.
"""

from migrations.statements import run_file

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("columns", "slowest_members"):
        run_file(revision, f"{name}.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
