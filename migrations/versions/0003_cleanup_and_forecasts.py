"""Groups can be proposed to be retired, and what will expire soon is told group by group.

Revision 0003, after 0002. Its statements are in `sql/0003/`.
"""

from migrations.statements import run_file

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "up.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
