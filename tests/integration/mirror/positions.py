"""How far a mirror has read."""

from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name


def partitions_read(rows: Connection) -> int:
    """Return of how many partitions the first read is over: what comes later is history."""
    with rows.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM mirror_positions")
        return int(cursor.fetchall()[0][0])
