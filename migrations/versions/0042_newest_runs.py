"""Of several proposals as of the same time, the last one is the newest run of a job.

Revision 0042. Nodes of the release before keep using the schema: they read the time of the view only.
"""

from migrations.statements import run_file

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
