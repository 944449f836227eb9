"""A run as of an instant to come counts as the newest from that instant on, and runs are found by index.

Revision 0010, after 0009. Its statements are in `sql/0010/`. The indexes are not made `CONCURRENTLY`: the table has
hundreds of rows a day, so it takes milliseconds, and a concurrent one would wait for whoever waits to migrate.
"""

from migrations.statements import run_file

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("indexes", "offsets_expiring", "newest_runs"):
        run_file(revision, f"{name}.sql")


def downgrade() -> None:
    run_file(revision, "down.sql")
