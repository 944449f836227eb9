"""Advice on timeouts is a row a group and window, beside what the advice would have done.

Revision 0006, after 0005. Its statements are in `sql/0006/`.
"""

from migrations.statements import run_file

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "up.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
