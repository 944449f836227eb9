"""The audit log is append-only, and sealed minute by minute.

Revision 0031. Nodes of the release before keep using the schema: they add changes and mark them as undone, which stays
allowed. The statements are committed before the index is made, which waits for older transactions: a run that fails
there goes on with the index.
"""

from alembic import op
from sqlalchemy import text

from migrations.statements import run_file

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().execute(text("SELECT to_regclass('change_seals')")).scalar_one() is None:
        run_file(revision, "upgrade.sql")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS changes_unsealed")  # One that failed is there, and invalid.
        op.execute("CREATE INDEX CONCURRENTLY changes_unsealed ON changes (change_id) WHERE sealed_minute IS NULL")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
