"""Lag is computed from no log end beyond the one that a group reports now; a group has no rebalance of a former one.

Revision 0035. Nodes of the release before keep using the schema: a function and a view return less.
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
