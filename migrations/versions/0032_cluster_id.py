"""The database has a cluster id, by which Kafka's clients know it.

Revision 0032. Nodes of the release before keep using the schema: they do not read the new column.
"""

from migrations.statements import run_file

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
