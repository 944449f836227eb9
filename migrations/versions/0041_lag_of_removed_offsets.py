"""In the history of lag an offset counts until it is reset or deleted.

Revision 0041. Nodes of the release before keep using the schema: they do not read the view.
"""

from migrations.statements import run_file

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
