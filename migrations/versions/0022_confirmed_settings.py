"""Store with each node the version of the cluster's settings that it has applied.

Revision 0022, after 0021. A node of an earlier release counts as one that has not applied any change.
"""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE nodes ADD COLUMN cluster_configs bigint NOT NULL DEFAULT 0")


def downgrade() -> None:
    op.execute("ALTER TABLE nodes DROP COLUMN cluster_configs")
