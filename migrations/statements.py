"""A migration's statements are files beside it, which are sent as they are."""

from pathlib import Path

from alembic import op

FILES = Path(__file__).parent / "sql"


def run_file(revision: str, name: str) -> None:
    """Run a file of a revision's statements in the migration under way."""
    # A percent sign in a file is no parameter.
    connection = op.get_bind().execution_options(no_parameters=True)
    connection.exec_driver_sql((FILES / revision / name).read_text(encoding="utf-8"))
