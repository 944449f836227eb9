"""The database knows its identity and its incarnation, and nodes count their renewals.

Revision 0016, after 0015. Its statements are in `sql/0016/`.
"""

from migrations.statements import run_file

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "up.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
