"""Which partitions of history were archived, where, and with which checksum, is a table.

Revision 0007, after 0006. Its statements are in `sql/0007/`.
"""

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

STATEMENTS = Path(__file__).parents[1] / "sql" / "0007"


def upgrade() -> None:
    _run("up.sql")


def downgrade() -> None:
    _run("down.sql")


def _run(name: str) -> None:
    # The file is sent as it is: a percent sign in it is no parameter.
    connection = op.get_bind().execution_options(no_parameters=True)
    connection.exec_driver_sql((STATEMENTS / name).read_text(encoding="utf-8"))
