"""Members that own no partition have had none since their group's assignment was accepted.

Revision 0038. Nodes of the release before keep using the schema: they do not read the view.
"""

from migrations.statements import run_file

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
