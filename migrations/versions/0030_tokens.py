"""Tokens that are issued by command; changes name the token and the client's address.

Revision 0030. Nodes of the release before keep using the schema: they read no tokens, and leave the new columns null.
"""

from migrations.statements import run_file

revision = "0030"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
