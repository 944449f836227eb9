"""A history with known job results, inserted into the tables of a running platform."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2

from tests.support.stored_history import insert, rebalance, rows, session

REPORTED_GROUP = "reported"

REPORTED_DAY = datetime.now(UTC).date() - timedelta(days=1)
REBALANCES = {"rebalances": 2, "took_max_ms": 3_000, "took_total_ms": 5_000, "evicted": 1, "spuriously_evicted": 1}
"""Of `REPORTED_GROUP`, yesterday."""

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
    """Insert a day's rebalances, and an old day."""
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
        day = {"partition": OLD_PARTITION, "day": OLD_DAY, "next_day": OLD_DAY + timedelta(days=1), "rows": OLD_ROWS}
        rows(connection, OLD.format(**day))
