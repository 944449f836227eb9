"""Each member's part in a rebalance and each member's stay are history, and two views ask them.

Revision 0004, after 0003. Its statements are in `sql/0004/`.
"""

from migrations.statements import run_file

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "tables.sql")
    run_file(revision, "slowest_members.sql")
    run_file(revision, "spurious_evictions.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
