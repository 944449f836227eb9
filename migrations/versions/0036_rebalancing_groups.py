"""A rebalancing group's timeout is the one that nodes use, and its previous rebalance none of a former group.

Revision 0036. Nodes of the release before keep using the schema: they do not read the view.
"""

from migrations.statements import run_file

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "upgrade.sql")


def downgrade() -> None:
    run_file(revision, "downgrade.sql")
