"""The audit log is append-only, and sealed minute by minute.

Revision 0031. Nodes of the release before keep using the schema: they add changes and mark them as undone, which stays
allowed.
"""

from alembic import op

from migrations.statements import run_file

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")
    with op.get_context().autocommit_block():
        op.execute(
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS changes_unsealed ON changes (change_id)"
            " WHERE sealed_minute IS NULL"
        )


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
