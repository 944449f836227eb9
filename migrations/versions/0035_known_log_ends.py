"""Lag is computed from no log end of a group that is beyond the one that it reports now.

Revision 0035. Nodes of the release before keep using the schema: the function returns fewer log ends.
"""

from migrations.statements import run_file

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
