"""Log ends in a test's database: read them, wait for them, make them older."""

from typing import Any

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.offset_log import wait_for_checkpoint
from tests.support.waiting import poll_until


def run_sql(rows: PsycopgConnection, question: str, *parameters: object) -> list[tuple[Any, ...]]:
    with rows.cursor() as cursor:
        cursor.execute(question, parameters)
        return cursor.fetchall() if cursor.description else []


def end_is(rows: PsycopgConnection, topic: str, end: int) -> None:
    """Wait until the topic-wide end of the topic's one partition is stored."""
    stored = "SELECT log_end_offset FROM log_end_offsets WHERE topic = %s"
    poll_until(lambda: run_sql(rows, stored, topic) == [(end,)])


def age(rows: PsycopgConnection, topic: str, by_s: int) -> None:
    """Move all log ends of a topic into the past by a length of time, and committed offsets with them."""
    wait_for_checkpoint(rows)
    past = {"by": by_s, "topic": topic}
    with rows.cursor() as cursor:
        for table, columns in (
            ("offsets", ("committed_at", "log_end_at")),
            ("log_end_offsets", ("reported_at", "first_reported_at")),
            ("log_end_history", ("at",)),
        ):
            moved = ", ".join(f"{name} = {name} - make_interval(secs => %(by)s)" for name in columns)
            cursor.execute(f"UPDATE {table} SET {moved} WHERE topic = %(topic)s", past)  # noqa: S608 - written here
