"""Whose successor joined before it was put out was really gone, and who came back is looked for in a few hours only.

A forecast is found by its interval, so that it is there whichever run of the interval was the last. Revision 0011,
after 0010. Its statements are in `sql/0011/`.
"""

from migrations.statements import run_file

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("spurious_evictions", "offsets_expiring"):
        run_file(revision, f"{name}.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
