"""Restore archived days of history to Postgres, with verification.

It changes live tables, so no DAG runs it: an operator starts it by `muster job` or spark-submit, as the role that owns
the tables. Without `--execute` it compares the files and changes nothing. Running it again restores the missing days.
"""

import argparse
import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date

from spark_jobs.archive.archive_restore import restore_days
from spark_jobs.archive.days import history_tables
from spark_jobs.database import OWNER_VARIABLE, database_from_environment
from spark_jobs.error_message import FAILURES, one_line_message
from spark_jobs.session import open_session
from spark_jobs.submit import HISTORY_RESTORE, archive_uri


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the job; return the exit status."""
    asked = read_command_line(command_line)
    try:
        restored = _restore(asked)
    except FAILURES as failure:
        print(f"{HISTORY_RESTORE}: {one_line_message(failure)}", file=sys.stderr)
        return 1
    print(describe(restored, is_dry_run=not asked.execute), flush=True)
    return 0


def read_command_line(command_line: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; on an error, exit with status 2 and a message."""
    parser = argparse.ArgumentParser(prog=HISTORY_RESTORE, allow_abbrev=False)
    parser.add_argument("--table", default="", help="the history table (default: all of them)")
    parser.add_argument("--first-day", required=True, type=_day, help="the first day (UTC), such as 2026-01-31")
    parser.add_argument("--last-day", type=_day, help="the last day (default: the first day)")
    parser.add_argument("--archive", default=archive_uri(), help="the archive's directory, if it was moved")
    parser.add_argument("--actor", default=f"user:{_os_user()}", help="the actor recorded in changes")
    parser.add_argument("--execute", action="store_true", help="restore, instead of only comparing the files")
    asked = parser.parse_args(command_line)
    asked.last_day = asked.last_day or asked.first_day
    if asked.last_day < asked.first_day:
        parser.error(f"the last day ({asked.last_day}) is before the first ({asked.first_day})")
    return asked


def describe(restored: Mapping[str, Mapping[date, int]], *, is_dry_run: bool) -> str:
    """Return the result in one line."""
    verb = "would restore" if is_dry_run else "restored"
    copies_text = [
        f"{table} {len(days)} {'day' if len(days) == 1 else 'days'} (rows {sum(days.values())})"
        for table, days in sorted(restored.items())
        if days
    ]
    return f"{HISTORY_RESTORE}: {verb} {', '.join(copies_text) or 'nothing: no such day is only in the archive'}."


def _restore(asked: argparse.Namespace) -> dict[str, dict[date, int]]:
    """Return how many rows came back, by table and day."""
    database = database_from_environment([OWNER_VARIABLE])
    with closing(database.connect()) as connection, open_session(HISTORY_RESTORE) as spark:
        return {
            table: restore_days(
                *(spark, database, connection, table, asked.first_day, asked.last_day),
                actor=asked.actor if asked.execute else None,
                archive=asked.archive,
            )
            for table in ([asked.table] if asked.table else history_tables(connection))
        }


def _os_user() -> str:
    """Return the name of the operating system's user, or its number if it has no account, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-01-31") from None


if __name__ == "__main__":
    sys.exit(main())
