"""SQL files of migrations: sends them to the database unchanged."""

from pathlib import Path

from alembic import op

FILES = Path(__file__).parent / "sql"


def run_file(revision: str, name: str) -> None:
    """Run a file of a revision's statements in the current migration."""
    # Do not interpret percent signs in the file as parameters.
    connection = op.get_bind().execution_options(no_parameters=True)
    connection.exec_driver_sql((FILES / revision / name).read_text(encoding="utf-8"))
