"""Commits go to a log, and follow into `offsets` with checkpoints.

Revision 0023, after 0022. Its statements are in `sql/0023/`. A downgrade needs a log that is empty: stop the nodes
first, so that they checkpoint their shards.
"""

from alembic import op
from sqlalchemy import text

from migrations.statements import run_file

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "up.sql")


def downgrade() -> None:
    pending = op.get_bind().execute(text("SELECT count(*) FROM offset_log")).scalar_one()
    if pending:
        raise RuntimeError(f"offset_log has {pending} rows that are not checkpointed: start and stop a node first")
    run_file(revision, "down.sql")
