"""Dashboards: lag in seconds goes by no log end that a group reported before the topic was created again.

Revision 0040. Nodes of the release before call the function as before.
"""

from migrations.statements import run_file

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
