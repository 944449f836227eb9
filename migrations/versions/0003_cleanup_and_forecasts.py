"""Groups can be proposed to be retired, and what will expire soon is told group by group.

Revision 0003, after 0002. Its statements are in `sql/0003/`.
"""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STATEMENTS = Path(__file__).parents[1] / "sql" / "0003"


def upgrade() -> None:
    _run("up.sql")


def downgrade() -> None:
    _run("down.sql")


def _run(name: str) -> None:
    op.get_bind().exec_driver_sql((STATEMENTS / name).read_text(encoding="utf-8"))
