"""A database may mirror a Kafka cluster: its id, positions in its log, and marks of what is inferred.

Revision 0026. Nodes of the release before keep using the schema: they write neither of the new columns, and no nulls.
"""

from migrations.statements import run_file

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
