"""Rows of the offset log would be compressed by LZ4, which takes half of the time of Postgres' own method.

Revision 0034. It has no effect while their storage is EXTERNAL, as of 0025: rows are not compressed. Nodes of the
release before keep using the schema: rows compressed in either way can be read.
"""

from migrations.statements import run_file

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
