"""Commits that rewind, and commits without a member, name the token and the address of their client.

Revision 0033. Nodes of the release before keep using the schema: they neither write nor read the new columns.
"""

from migrations.statements import run_file

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
