"""Advice on timeouts is a row a group and window, beside what the advice would have done.

Revision 0006, after 0005. Its statements are in `sql/0006/`.
"""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

STATEMENTS = Path(__file__).parents[1] / "sql" / "0006"


def upgrade() -> None:
    _run("up.sql")


def downgrade() -> None:
    _run("down.sql")


def _run(name: str) -> None:
    # The file is sent as it is: a percent sign in it is no parameter.
    connection = op.get_bind().execution_options(no_parameters=True)
    connection.exec_driver_sql((STATEMENTS / name).read_text(encoding="utf-8"))
