"""Queries of the tests of DAGs."""

from typing import Any

import psycopg2.extensions as pg


def rows(connection: pg.connection, statement: str) -> list[tuple[Any, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []
