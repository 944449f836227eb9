"""Each member's part in a rebalance and each member's stay are history, and two views ask them.

Revision 0004, after 0003. Its statements are in `sql/0004/`.
"""

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STATEMENTS = Path(__file__).parents[1] / "sql" / "0004"


def upgrade() -> None:
    _run("tables.sql")
    _run("slowest_members.sql")
    _run("spurious_evictions.sql")


def downgrade() -> None:
    _run("down.sql")


def _run(name: str) -> None:
    # The file is sent as it is: a percent sign in it is no parameter.
    connection = op.get_bind().execution_options(no_parameters=True)
    connection.exec_driver_sql((STATEMENTS / name).read_text(encoding="utf-8"))
