"""Jobs propose through functions, and can no longer write runs, candidates or outcomes themselves.

Revision 0017, after 0016. Its statements are in `sql/0017/`.
"""

from migrations.statements import run_file

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("proposing", "roles"):
        run_file(revision, f"{name}.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
