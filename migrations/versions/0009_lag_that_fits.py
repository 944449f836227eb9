"""A lag that is added up in the overview stays within its column, whatever ends of logs were reported.

Revision 0009, after 0008. Its statements are in `sql/0009/`.
"""

from migrations.statements import run_file

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "up.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
