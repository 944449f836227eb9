"""Audits of assignments and reports on rebalances are rows that a re-run replaces.

Revision 0005, after 0004. Its statements are in `sql/0005/`.
"""

from migrations.statements import run_file

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "up.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
