"""A JSON value that is not what nodes write makes no view fail for all groups.

Revision 0039. Nodes of the release before keep using the schema: they do not read the views.
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
