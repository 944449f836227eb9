"""Mirrors poll beside the log: rebalances without a trigger yet, and share and streams groups by name and state.

Revision 0027. Nodes of the release before keep using the schema: they have no mirrors.
"""

from migrations.statements import run_file

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
