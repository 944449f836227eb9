"""Days of history that lie in the archive alone are brought back into Postgres, checked on both sides.

No DAG runs this: it changes a live table, so a person starts it by spark-submit, with the address of the role that owns
the tables in MUSTER_JOBS_DATABASE_URL. Running it again restores what is not back yet.
"""

import argparse
import getpass
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import date

import psycopg2

from spark_jobs.archive.restoring import restore_days
from spark_jobs.database import database_from_environment
from spark_jobs.errors import JobError
from spark_jobs.session import open_session

KIND = "history_restore"


def main(command_line: Sequence[str] | None = None) -> int:
    """Restore the days that are named; return the exit status."""
    parser = argparse.ArgumentParser(prog=KIND, allow_abbrev=False)
    parser.add_argument("--table", required=True, help="the history table")
    parser.add_argument("--first-day", required=True, type=_day, help="as 2026-01-31, in UTC")
    parser.add_argument("--last-day", type=_day, help="the first day, unless said otherwise")
    parser.add_argument("--actor", default=f"user:{getpass.getuser()}", help="who is noted in changes")
    asked = parser.parse_args(command_line)
    last = asked.last_day or asked.first_day
    try:
        database = database_from_environment()
        with closing(database.connect()) as connection, open_session(KIND) as spark:
            restored = restore_days(spark, database, connection, asked.table, asked.first_day, last, asked.actor)
    except (JobError, psycopg2.Error) as error:
        print(f"{KIND}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    print(f"{KIND}: restored {len(restored)} days of {asked.table}: rows {sum(restored.values())}.", flush=True)
    return 0


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-01-31") from None


if __name__ == "__main__":
    sys.exit(main())
