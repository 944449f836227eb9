"""Demonstration offsets, some past retention and some not, for the first maintenance run.

They are inserted by SQL while no node runs, once in the life of a data directory. Their topics are none that the
demonstration consumers read, whose log ends would give these groups an absurd lag:

* `nightly-export` is a simple group (no member ever joined it) that last committed a month ago: its offsets are due.
* `orders-v1` has been empty for a month: its offsets are due, whenever they were committed.
* `orders-replay` became empty just now: its offsets are kept, however old they are.
"""

import datetime as dt
from dataclasses import dataclass

from sqlalchemy import Connection, create_engine, func, select
from sqlalchemy.dialects.postgresql import insert

from coordinator_core.protocol.hashing import shard_of
from coordinator_core.state_store.tables import groups, offsets, versions

LONG_AGO = dt.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ExpiredGroup:
    """An abandoned group; `empty_for` is None if no member ever joined it."""

    group_id: str
    topic: str
    partition_count: int
    empty_for: dt.timedelta | None


EXPIRED_GROUPS = (
    ExpiredGroup("nightly-export", "exports", 3, None),
    ExpiredGroup("orders-v1", "orders-2025", 12, LONG_AGO),
    ExpiredGroup("orders-replay", "orders-2025", 12, dt.timedelta(0)),
)


def insert_expired_groups(database_url: str, shard_count: int) -> int:
    """Insert the groups and their offsets, except rows that exist.

    Args:
        database_url: a database whose schema is the newest.
        shard_count: how many shards a database has that no node has started on yet.

    Returns:
        How many of the offsets are due.
    """
    engine = create_engine(database_url)
    try:
        with engine.begin() as connection:
            kept_count = connection.execute(select(versions.c.shard_count)).scalar()
            for past in EXPIRED_GROUPS:
                _insert(connection, past, shard_of(past.group_id, kept_count or shard_count))
    finally:
        engine.dispose()
    return sum(past.partition_count for past in EXPIRED_GROUPS if past.empty_for != dt.timedelta(0))


def _insert(connection: Connection, past: ExpiredGroup, shard_id: int) -> None:
    now = func.clock_timestamp()
    was_joined = past.empty_for is not None
    group = {
        "group_id": past.group_id,
        "shard_id": shard_id,
        "state": "Empty",
        "state_since": now - (LONG_AGO if past.empty_for is None else past.empty_for),
        "state_before_join_phase": "Empty",
        "generation": 7 if was_joined else 0,
        "protocol_type": "consumer" if was_joined else None,
        "member_count": 0,
        "subscribed_topics": [] if was_joined else None,
        "created_at": now - 2 * LONG_AGO,
    }
    connection.execute(insert(groups).values(group).on_conflict_do_nothing())
    for partition in range(past.partition_count):
        offset = {
            "group_id": past.group_id,
            "shard_id": shard_id,
            "topic": past.topic,
            "partition": partition,
            "committed_offset": 1_000 + 10 * partition,
            "log_end_offset": 1_000 + 12 * partition,
            "committed_at": now - LONG_AGO,
        }
        connection.execute(insert(offsets).values(offset).on_conflict_do_nothing())
