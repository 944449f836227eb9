"""Times and days that a node cannot read are refused in what jobs write, and in rows that are changed by hand.

Revision 0019, after 0018. Its statements are in `sql/0019/`. A constraint that an old row violates is left NOT VALID,
as in 0015.
"""

from alembic import op

from migrations.statements import run_file

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.get_context().autocommit_block():
        run_file(revision, "times.sql")
        run_file("0015", "validate.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
