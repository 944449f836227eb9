"""Dashboards: a damaged JSON value fails no view, and removed offsets count in the history of lag until they were.

Revision 0039. Nodes of the release before keep using the schema: they read of these views the time of `newest_runs`.
"""

from migrations.statements import run_file

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
