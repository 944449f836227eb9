"""Offsets without a group row have not changed since the forecast of their expiry, unless none is left.

Revision 0040. Nodes of the release before keep using the schema: they do not read the column.
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
