"""A history and current groups with known job results, inserted into the tables of a running platform.

No node has the groups in memory, so none changes them.
"""

from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2

from tests.support.random_history import Past
from tests.support.stored_history import group, insert, member, rebalance, rows, session

REPORTED_GROUP = "reported"
LOPSIDED = "lopsided"
FLAPPING = "flapping-1"
TOPIC = "parcels"
"""Read by no other test."""

REPORTED_DAY = datetime.now(UTC).date() - timedelta(days=1)
REBALANCES = {"rebalances": 2, "took_max_ms": 3_000, "took_total_ms": 5_000, "evicted": 1, "spuriously_evicted": 1}
"""Of `REPORTED_GROUP`, yesterday."""

SPREAD = {"members": 2, "idle_members": 1, "partitions_max": 10, "best_partitions_max": 5, "score": 50}
"""Of `LOPSIDED`: half of the partitions of the one member belong to the other."""

ADVICE = {"session_verdict": "change", "session_present_ms": 10_000}
"""To `FLAPPING`, whose living members are silent for longer than their sessions."""

OLD_DAY = REPORTED_DAY - timedelta(days=60)
OLD_PARTITION = f"offset_history_p{OLD_DAY:%Y%m%d}"
OLD_ROWS = 100

OLD = """
CREATE TABLE {partition} PARTITION OF offset_history
FOR VALUES FROM ('{day} 00:00:00+00') TO ('{next_day} 00:00:00+00');
INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, member_id)
SELECT 'long-gone', 7, 'orders', n, timestamptz '{day} 09:00:00+00' + n * interval '1 second', n, ''
FROM generate_series(1, {rows}) AS n
"""


def store(url: str) -> None:
    """Insert a day's rebalances, four weeks of heartbeat gaps, an uneven group, and an old day."""
    with closing(psycopg2.connect(url)) as connection:
        noon = datetime.combine(REPORTED_DAY, datetime.min.time(), UTC) + timedelta(hours=12)
        row = {"group_id": REPORTED_GROUP}
        insert(connection, "rebalances", *(rebalance(noon + timedelta(hours=n), 2 + n, **row) for n in (0, 1)))
        back = noon + timedelta(seconds=30)
        insert(
            connection,
            "member_sessions",
            session("before", noon - timedelta(hours=1), noon, **row),
            session("after", back, back + timedelta(hours=1), end_reason="left", **row),
        )
        ten = {TOPIC: dict.fromkeys(range(10), 5)}
        members = member("all", [TOPIC], ten), member("none", [TOPIC], {})
        insert(connection, "groups", group(LOPSIDED))
        insert(connection, "members", *({**one, "group_id": LOPSIDED} for one in members))
        past = Past(datetime.now(UTC) - timedelta(hours=1))
        assert past.group("flapping", 1) == FLAPPING
        past.store(connection)
        day = {"partition": OLD_PARTITION, "day": OLD_DAY, "next_day": OLD_DAY + timedelta(days=1), "rows": OLD_ROWS}
        rows(connection, OLD.format(**day))
