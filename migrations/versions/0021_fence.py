"""A write proves its leases by one row: the fence of its writer.

Revision 0021, after 0020. Its statements are in `sql/0021/`.
"""

from migrations.statements import run_file

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "up.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
