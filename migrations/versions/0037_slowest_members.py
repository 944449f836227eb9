"""The slowest members of a group are none of a former group of its name.

Revision 0037. Nodes of the release before keep using the schema: they do not read the view.
"""

from migrations.statements import run_file

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
