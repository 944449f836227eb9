"""A change says what took it back, and a maintenance run says what it takes back.

Revision 0002, after 0001. Its statements are in `sql/0002/`.
"""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STATEMENTS = Path(__file__).parents[1] / "sql" / "0002"


def upgrade() -> None:
    _run("up.sql")


def downgrade() -> None:
    _run("down.sql")


def _run(name: str) -> None:
    op.get_bind().exec_driver_sql((STATEMENTS / name).read_text(encoding="utf-8"))
