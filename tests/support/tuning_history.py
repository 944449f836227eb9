"""A group's history from which timeouts are advised, written with SQL."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.hashing import shard_of
from tests.support.http_client import Group, Json

SESSION = (
    "INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, client_id, client_host, generation,"
    " session_timeout_ms, joined_at, started_at, ended_at, end_reason, heartbeat_count, heartbeat_gap_ms_max,"
    " heartbeat_gap_histogram) VALUES (%s, %s, now(), %s, %s, '127.0.0.1', 1, %s, %s, %s, %s, %s, 400, 3000, %s)"
)

REBALANCE = (
    "INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, started_at,"
    " completed_at, outcome, restarts, member_count_before, member_count_after, partitions_moved)"
    " VALUES (gen_random_uuid(), %s, %s, now(), 1, %s, %s, %s, 'completed', 0, 2, 2, 0)"
)

REPORT = (
    "INSERT INTO timeout_advice (group_id, shard_id, interval_start, interval_end, run_id, as_of, window_start,"
    " heartbeats, session_present_ms, session_advised_ms, session_verdict, session_confidence, session_reason,"
    " session_effect, rebalance_present_ms, rebalance_verdict, rebalance_confidence, rebalance_reason,"
    " rebalance_effect, initial_delay_present_ms, initial_delay_verdict, initial_delay_confidence,"
    " initial_delay_reason, initial_delay_effect, back_test, recommendations)"
    " VALUES (%(group_id)s, 1, %(at)s - interval '1 day', %(at)s, gen_random_uuid(), %(at)s,"
    " %(at)s - interval '28 days', 12, %(present)s, 20000, 'change', 'high', 'it flaps', %(effect)s,"
    " NULL, 'too_little_data', 'none', 'few', '{}',"
    " 0, 'too_little_data', 'none', 'few', '{}', %(back_test)s, '[]')"
)


class Past:
    """A group's past, written into the tables as its coordinator would have."""

    def __init__(self, group: Group, rows: PsycopgConnection) -> None:
        self.group = group
        self._rows = rows
        self.now = datetime.now(UTC)

    def session(
        self, client_id: str, ended: datetime, end_reason: str, joined: datetime, timeout_ms: int = 10_000
    ) -> None:
        member_id = f"{client_id}-{ended.isoformat()}"
        at = (timeout_ms, joined, joined, ended, end_reason, GAPS)
        self.execute(SESSION, (self.group.group_id, shard_of(self.group.group_id, 50), member_id, client_id, *at))

    def flap(self, days: int, back_after: timedelta, timeout_ms: int = 10_000) -> None:
        """Add a daily eviction of a member that rejoins soon, remains for an hour and leaves."""
        for number in range(days):
            gone = self.now - (number + 1) * DAY + timedelta(hours=2)
            self.session("flapping", gone, "session_expired", gone - MINUTE, timeout_ms)
            back = gone + back_after
            self.session("flapping", back + 60 * MINUTE, "left", back, timeout_ms)

    def rebalance(self, at: datetime, trigger: str) -> None:
        """Add one that was over after two seconds."""
        who = (self.group.group_id, shard_of(self.group.group_id, 50), trigger, at, at + timedelta(seconds=2))
        self.execute(REBALANCE, who)

    def report(self, at: datetime, present_ms: int) -> None:
        effect, test = json.dumps({"evictions_avoided": 7}), json.dumps({"is_passed": True})
        values = {"group_id": self.group.group_id, "at": at, "present": present_ms, "effect": effect, "back_test": test}
        self.execute(REPORT, values)

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> None:
        with self._rows.cursor() as cursor:
            cursor.execute(statement, values)

    def tuning(self, query: str = "") -> Json:
        return self.group.client.ok("GET", f"{self.group.path}/tuning{query}")


MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)

GAPS = [0] * 12 + [400] + [0] * 10
"""400 gaps of 3 seconds."""
