"""Groups and offsets of the live tables, written with SQL."""

from typing import Any

import psycopg2.extensions as pg

from tests.integration.spark.rows import NOW

GROUP = (
    "INSERT INTO groups (group_id, shard_id, state, state_before_join_phase, state_since, generation, protocol_type,"
    " member_count, subscribed_topics, created_at)"
    " VALUES (%(group_id)s, %(shard_id)s, %(state)s, replace(%(state)s, 'PreparingRebalance', 'Stable'),"
    " %(now)s::timestamptz - %(since)s::interval, 4, %(protocol_type)s, 0, %(topics)s,"
    " %(now)s::timestamptz - interval '1 year')"
)

OFFSET = (
    "INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)"
    " VALUES (%(group_id)s, %(shard_id)s, 'orders', %(partition)s, 5, %(now)s::timestamptz - %(age)s::interval)"
)


def rows(connection: pg.connection, statement: str, **values: object) -> list[tuple[Any, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, {"now": NOW, **values})
        return cursor.fetchall() if cursor.description else []


def add_group(connection: pg.connection, group_id: str, shard_id: int, since: str, **columns: object) -> None:
    given = {"state": "Empty", "protocol_type": "consumer", "topics": [], **columns}
    rows(connection, GROUP, group_id=group_id, shard_id=shard_id, since=since, **given)


def add_offset(connection: pg.connection, group_id: str, shard_id: int, age: str, partition: int = 0) -> None:
    rows(connection, OFFSET, group_id=group_id, shard_id=shard_id, age=age, partition=partition)
