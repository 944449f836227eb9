"""Which partitions of history were archived, where, and with which checksum, is a table.

Revision 0007, after 0006. Its statements are in `sql/0007/`.
"""

from migrations.statements import run_file

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "up.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
