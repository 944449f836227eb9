"""The offset log of a running node's database."""

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.waiting import poll_until


def wait_for_checkpoint(connection: PsycopgConnection) -> None:
    """Return when the table `offsets` has every commit that was answered before the call."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(seq) FROM offset_log")
        ((last,),) = cursor.fetchall()

    def is_checkpointed() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT NOT EXISTS (SELECT FROM offset_log WHERE seq <= %s)", (last,))
            ((is_so,),) = cursor.fetchall()
        return bool(is_so)

    poll_until(is_checkpointed)
