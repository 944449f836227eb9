"""Groups and their past, by hand, as nodes would have stored them: each builder fills in what a test does not name."""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2.extensions as pg
from psycopg2.sql import SQL, Identifier, Placeholder

DAY = datetime(2026, 11, 1, tzinfo=UTC)
BORN = datetime(2026, 10, 1, tzinfo=UTC)
GROUP = "orders"
SHARD = 7

Row = dict[str, Any]


def rows(connection: pg.connection, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run a statement in its own transaction, and return its rows."""
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def insert(connection: pg.connection, table: str, *added: Row) -> None:
    """Insert rows; lists of dicts and dicts go in as JSON."""
    with connection, connection.cursor() as cursor:
        for row in added:
            statement = SQL("INSERT INTO {} ({}) VALUES ({})").format(
                Identifier(table),
                SQL(", ").join(map(Identifier, row)),
                SQL(", ").join(map(Placeholder, row)),
            )
            cursor.execute(statement, {name: _adapted(value) for name, value in row.items()})


def table_rows(connection: pg.connection, table: str, *omitted_columns: str) -> list[Row]:
    """Return a table's rows by column, but for some columns, in the order of their text."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(SQL("SELECT * FROM {}").format(Identifier(table)))
        assert cursor.description is not None, "a select has columns"
        names = [column.name for column in cursor.description]
        found = [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
    connection.commit()
    return sorted(({k: v for k, v in row.items() if k not in omitted_columns} for row in found), key=str)


def at(hours: float = 0, seconds: float = 0) -> datetime:
    """Return a moment of the day that the tests are about."""
    return DAY + timedelta(hours=hours, seconds=seconds)


def name_of(*parts: object) -> str:
    """Return a UUID that these parts always have."""
    return str(uuid.UUID(bytes=hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()))


# -- the past ---------------------------------------------------------------------------------------------------


def rebalance(started_at: datetime, took_s: float = 2, **columns: object) -> Row:
    """Build a rebalance that was completed."""
    group_id = columns.get("group_id", GROUP)
    return {
        "rebalance_id": name_of(group_id, started_at),
        "group_id": group_id,
        "shard_id": SHARD,
        "group_created_at": BORN,
        "generation": 3,
        "trigger": "member_joined",
        "started_at": started_at,
        "completed_at": started_at + timedelta(seconds=took_s),
        "outcome": "completed",
        "restarts": 0,
        "member_count_before": 1,
        "member_count_after": 2,
        "partitions_moved": 0,
        **columns,
    }


def wait(of: Row, member_id: str, waited_for_ms: int, **columns: object) -> Row:
    """Build a member's part in a rebalance."""
    shared = {name: of[name] for name in ("rebalance_id", "group_id", "shard_id", "group_created_at", "completed_at")}
    columns_given: Row = {"client_id": f"client of {member_id}", "client_host": "/10.0.0.1"}
    columns_given |= {"waited_for_ms": waited_for_ms, "outcome": "joined"}
    return {**shared, "member_id": member_id, **columns_given, **columns}


def session(member_id: str, joined_at: datetime, ended_at: datetime, **columns: object) -> Row:
    """Build a stay that ended when its session ran out."""
    return {
        "group_id": GROUP,
        "shard_id": SHARD,
        "group_created_at": BORN,
        "member_id": member_id,
        "client_id": "billing",
        "client_host": "/10.0.0.1",
        "generation": 3,
        "session_timeout_ms": 10_000,
        "joined_at": joined_at,
        "started_at": joined_at,
        "ended_at": ended_at,
        "end_reason": "session_expired",
        "heartbeat_count": 0,
        "heartbeat_gap_histogram": [0] * 23,
        **columns,
    }


# -- the present --------------------------------------------------------------------------------------------------


def group(group_id: str = GROUP, **columns: object) -> Row:
    """Build a group that is Stable in its fifth generation."""
    given = {"state": "Stable", "state_before_join_phase": "Stable", "generation": 5, "protocol_type": "consumer"}
    return {"group_id": group_id, "shard_id": SHARD, "state_since": DAY, "created_at": BORN, **given, **columns}


def member(member_id: str, topics: Sequence[str], held: Mapping[str, Mapping[int, int]], **columns: object) -> Row:
    """Build a member; `held` is topic → partition → generation of the assignment."""
    spans = [
        {"topic": topic, "partitions": [number], "generation": generation, "since_ms": 0, "rebalance_id": ""}
        for topic, numbers in held.items()
        for number, generation in numbers.items()
    ]
    return {
        "group_id": GROUP,
        "shard_id": SHARD,
        "member_id": member_id,
        "client_id": "billing",
        "client_host": "/10.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "subscription": {"topics": list(topics)},
        "assignment": [{"topic": topic, "partitions": list(numbers)} for topic, numbers in held.items()],
        "ownership": spans,
        "joined_at": DAY,
        **columns,
    }


def _adapted(value: object) -> object:
    is_json = isinstance(value, dict) or (isinstance(value, list) and all(isinstance(one, dict) for one in value))
    return json.dumps(value) if is_json else value
