"""A change says what took it back, and a maintenance run says what it takes back.

Revision 0002, after 0001. Its statements are in `sql/0002/`.
"""

from migrations.statements import run_file

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file(revision, "up.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
