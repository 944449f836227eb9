"""Generate millions of offsets and weeks of history in Postgres, reproducibly from a seed.

Groups are drawn in Python, because their shards depend on their names; SQL generates the rest.
"""

import io
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg2.extensions as pg
from psycopg2.sql import SQL, Identifier

from coordinator_core.protocol.hashing import shard_of

SHARDS: Final = 50
STATES: Final = {"stable": 60, "empty_lately": 38, "empty_long": 1, "simple": 1}
"""Groups of each kind in a hundred; offsets of the last two are older than a week's retention.

This is far more than a run every ten minutes finds in practice.
"""

HISTORY_DAYS: Final = ("rebalances", "rebalance_members", "member_sessions", "partition_ownership", "offset_history")


@dataclass(frozen=True, slots=True)
class HistorySize:
    """How much history a group has."""

    groups: int = 5_000
    days: int = 30
    members: int = 3
    rebalances_a_day: int = 2
    sessions_a_day: int = 24
    """Session intervals of a member; one is written each hour."""
    commits_a_day: int = 48


def fill_offsets(connection: pg.connection, offsets: int, groups: int, *, seed: int = 1, is_due: bool = False) -> None:
    """Insert offsets, spread evenly over new groups; `is_due`: all of them are due."""
    with _quick(connection) as cursor:
        cursor.execute("CREATE TEMP TABLE drawn (group_id text, shard_id smallint, kind text) ON COMMIT DROP")
        cursor.copy_expert("COPY drawn FROM STDIN", io.StringIO("".join(_drawn(groups, seed, is_due=is_due))))
        cursor.execute(_GROUPS)
        cursor.execute(_OFFSETS, {"a_group": offsets // groups})
    _analyze(connection, "groups", "offsets")


def fill_history(connection: pg.connection, past: HistorySize, *, seed: int = 1) -> None:
    """Fill the history tables with the days before today, one partition per day."""
    values = {"seed": (seed % 1_000) / 1_000, **{name: getattr(past, name) for name in HistorySize.__slots__}}
    with _quick(connection) as cursor:
        for table in HISTORY_DAYS:
            cursor.execute(_PARTITIONS, {"table": table, "days": past.days})
        cursor.execute("CREATE TEMP TABLE drawn (group_id text, shard_id smallint, kind text) ON COMMIT DROP")
        cursor.copy_expert("COPY drawn FROM STDIN", io.StringIO("".join(_drawn(past.groups, seed, is_due=False))))
        cursor.execute("SELECT setseed(%(seed)s)", values)
        for statement in (
            _REBALANCES,
            _REBALANCE_MEMBERS,
            _MEMBER_SESSIONS,
            _RECONNECTS,
            _PARTITION_OWNERSHIP,
            _OFFSET_HISTORY,
        ):
            cursor.execute(statement, values)
    _analyze(connection, *HISTORY_DAYS)


def _drawn(groups: int, seed: int, *, is_due: bool) -> Iterator[str]:
    """Draw groups in the order of their names, so that rows are in key order."""
    chance = random.Random(seed)
    for number in range(groups):
        name = f"bench-{seed}-{number:08d}"
        kind = "simple" if is_due else chance.choices(tuple(STATES), tuple(STATES.values()))[0]
        yield f"{name}\t{shard_of(name, SHARDS)}\t{kind}\n"


_GROUPS = """
INSERT INTO members (group_id, shard_id, member_id, client_id, client_host, session_timeout_ms, rebalance_timeout_ms,
    protocol_names, protocol_metadata)
SELECT group_id, shard_id, 'm', 'c', 'h', 1800000, 300000, '{range}', '{""}' FROM drawn WHERE kind = 'stable';
INSERT INTO groups (group_id, shard_id, state, state_before_join_phase, state_since, generation,
    protocol_type, subscribed_topics,
    leader_id, protocol_name, member_count)
SELECT group_id, shard_id, CASE kind WHEN 'stable' THEN 'Stable' ELSE 'Empty' END,
    CASE kind WHEN 'stable' THEN 'Stable' ELSE 'Empty' END,
    now() - CASE kind WHEN 'empty_long' THEN interval '30 days' ELSE interval '1 day' END, 3, 'consumer',
    CASE kind WHEN 'stable' THEN ARRAY['orders'] ELSE ARRAY[]::text[] END,
    CASE kind WHEN 'stable' THEN 'm' END, CASE kind WHEN 'stable' THEN 'range' END, (kind = 'stable')::integer
FROM drawn WHERE kind <> 'simple'
"""

_OFFSETS = """
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, log_end_offset, committed_at)
SELECT group_id, shard_id, 'orders', place, 1000 + place, 2000 + place,
    now() - interval '20 days' - place * interval '1 minute'
FROM drawn CROSS JOIN generate_series(0, %(a_group)s - 1) AS place
"""

_PARTITIONS = """
DO $$
DECLARE day date;
BEGIN
    FOR day IN SELECT (now() AT TIME ZONE 'UTC')::date - n FROM generate_series(0, %(days)s) AS n LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %%I PARTITION OF %%I FOR VALUES FROM (%%L) TO (%%L)',
            %(table)s || '_p' || to_char(day, 'YYYYMMDD'), %(table)s,
            day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
    END LOOP;
END
$$
"""

_REBALANCES = """
INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, started_at, joined_at,
    completed_at, outcome, restarts, member_count_before, member_count_after, partitions_moved)
SELECT md5(group_id || n)::uuid, group_id, shard_id, date_trunc('day', now(), 'UTC') - interval '60 days', n,
    CASE n %% 4 WHEN 0 THEN 'session_expired' WHEN 1 THEN 'member_left' ELSE 'member_joined' END,
    over_at - interval '3 seconds', over_at - interval '1 second', over_at, 'completed', 0, %(members)s, %(members)s, 2
FROM drawn CROSS JOIN generate_series(1, %(days)s * %(rebalances_a_day)s) AS n
CROSS JOIN LATERAL (
    SELECT date_trunc('day', now(), 'UTC') - n * interval '1 day' / %(rebalances_a_day)s
        + (hashtext(group_id) & 32767) * interval '1 second' / 4 AS over_at
) AS ended
"""

_REBALANCE_MEMBERS = """
INSERT INTO rebalance_members (rebalance_id, group_id, shard_id, group_created_at, completed_at, member_id, client_id,
    client_host, joined_after_ms, synced_after_ms, waited_for_ms, outcome)
SELECT rebalance_id, group_id, shard_id, group_created_at, completed_at, 'member-' || m, 'client-' || m, '10.0.0.1',
    (random() * 2000)::bigint, 2000 + (random() * 900)::bigint, (random() * 2000)::bigint,
    CASE WHEN trigger = 'session_expired' AND m = 1 THEN 'evicted' ELSE 'joined' END
FROM rebalances CROSS JOIN generate_series(1, %(members)s) AS m
"""

_MEMBER_SESSIONS = """
INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, client_id, client_host, generation,
    session_timeout_ms, joined_at, started_at, ended_at, end_reason, last_heartbeat_at, heartbeat_count,
    heartbeat_gap_ms_max, heartbeat_gap_histogram)
SELECT group_id, shard_id, date_trunc('day', now(), 'UTC') - interval '60 days', 'member-' || m, 'client-' || m,
    '10.0.0.' || m, n, 10000, ended_at - interval '1 day', ended_at - interval '1 day' / %(sessions_a_day)s, ended_at,
    CASE WHEN random() < 0.01 THEN 'session_expired' ELSE 'hour' END, ended_at - interval '1 second', 1200,
    3000 + (random() * 5000)::integer, ARRAY[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1000, 190, (random() * 10)::integer]
FROM drawn CROSS JOIN generate_series(1, %(members)s) AS m
CROSS JOIN generate_series(0, %(days)s * %(sessions_a_day)s - 1) AS n
CROSS JOIN LATERAL (
    SELECT date_trunc('day', now(), 'UTC') - n * interval '1 day' / %(sessions_a_day)s - interval '1 second' AS ended_at
) AS ended
"""

_RECONNECTS = """
INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, client_id, client_host, generation,
    session_timeout_ms, joined_at, started_at, ended_at, end_reason, last_heartbeat_at, heartbeat_count,
    heartbeat_gap_ms_max, heartbeat_gap_histogram)
SELECT group_id, shard_id, group_created_at, member_id || '-again', client_id, client_host, generation,
    session_timeout_ms, reconnected_at, reconnected_at, reconnected_at + interval '10 minutes',
    'left', reconnected_at + interval '10 minutes', 200,
    3500, ARRAY[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 180, 20]
FROM member_sessions
CROSS JOIN LATERAL (SELECT ended_at + random() * interval '2 minutes' AS reconnected_at) AS returned
WHERE end_reason = 'session_expired' AND generation > 0
"""
"""Evicted members rejoin within two minutes, half of them within one, except in the last hour."""

_PARTITION_OWNERSHIP = """
INSERT INTO partition_ownership (group_id, shard_id, group_created_at, rebalance_id, generation, member_id,
    topic, partitions,
    valid_from, valid_to)
SELECT group_id, shard_id, group_created_at, rebalance_id, generation, 'member-' || m, 'orders',
    ARRAY[m * 2, m * 2 + 1], completed_at - interval '1 hour', completed_at
FROM rebalances CROSS JOIN generate_series(1, %(members)s) AS m
"""

_OFFSET_HISTORY = """
INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, log_end_offset, member_id)
SELECT group_id, shard_id, 'orders', n %% 6, at, 1000000 - n * 10, 1000000, 'member-1'
FROM drawn CROSS JOIN generate_series(0, %(days)s * %(commits_a_day)s - 1) AS n
CROSS JOIN LATERAL (
    SELECT date_trunc('day', now(), 'UTC') - n * interval '1 day' / %(commits_a_day)s - interval '1 second' AS at
) AS taken
"""


@contextmanager
def _quick(connection: pg.connection) -> Iterator[pg.cursor]:
    """Commit the block's statements without waiting for the disk."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off")
        yield cursor


def _analyze(connection: pg.connection, *tables: str) -> None:
    # Update the planner's statistics for the reads that follow.
    for table in tables:
        with connection, connection.cursor() as cursor:
            cursor.execute(SQL("ANALYZE {}").format(Identifier(table)))
