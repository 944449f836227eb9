"""Rows that a node could not load are refused by CHECK constraints.

Revision 0015, after 0014. Its statements are in `sql/0015/`. Each file is a transaction of its own, so that no table
stays locked while another is changed or read, and can be run again after a failure. A constraint that an old row
violates is left NOT VALID: it holds for new rows, and `muster doctor` names the old ones. Views pass such rows over.
"""

from alembic import op

from migrations.statements import run_file

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for name in ("groups", "members", "offsets", "others", "ownership", "idle_members", "validate"):
            run_file(revision, f"{name}.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
