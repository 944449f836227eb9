"""A past that is drawn by a seed and written into the tables of the ledger, of groups of each kind."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import psycopg2.extensions as pg
from psycopg2.extras import execute_values

from coordinator_core.protocol.hashing import shard_of
from tests.support.histories import KINDS, gaps

HOST = "127.0.0.1"
DAY = timedelta(days=1)
Rows = list[tuple[Any, ...]]

SESSIONS = (
    "INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, group_instance_id, client_id,"
    " client_host, generation, session_timeout_ms, joined_at, started_at, ended_at, end_reason, last_heartbeat_at,"
    " heartbeat_count, heartbeat_gap_ms_max, heartbeat_gap_histogram) VALUES %s"
)
REBALANCES = (
    "INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, started_at,"
    " joined_at, completed_at, outcome, restarts, member_count_before, member_count_after, partitions_moved) VALUES %s"
)
PARTS = (
    "INSERT INTO rebalance_members (rebalance_id, group_id, shard_id, group_created_at, completed_at, member_id,"
    " client_id, client_host, joined_after_ms, waited_for_ms, outcome) VALUES %s"
)
GROUPS = "INSERT INTO groups (group_id, shard_id, state, state_since, protocol_type, protocol_name) VALUES %s"
MEMBERS = (
    "INSERT INTO members (group_id, shard_id, member_id, group_instance_id, client_id, client_host, session_timeout_ms,"
    " rebalance_timeout_ms, joined_at, assignment) VALUES %s"
)


@dataclass
class Past:
    """Rows by their tables, of groups that end their history at one instant."""

    end: datetime
    timeout_ms: int = 10_000
    sessions: Rows = field(default_factory=list)
    rebalances: Rows = field(default_factory=list)
    parts: Rows = field(default_factory=list)
    members: Rows = field(default_factory=list)
    groups: Rows = field(default_factory=list)

    def store(self, connection: pg.connection) -> None:
        """Insert all rows."""
        with connection, connection.cursor() as cursor:
            tables = (
                (SESSIONS, self.sessions),
                (REBALANCES, self.rebalances),
                (PARTS, self.parts),
                (GROUPS, self.groups),
                (MEMBERS, self.members),
            )
            for statement, rows in tables:
                execute_values(cursor, statement, rows)

    def group(self, kind: str, seed: int, days: int = 28) -> str:
        """Draw a group of a kind; return its id."""
        chance, group_id = Random(f"{kind} {seed}"), f"{kind}-{seed}"
        for number in range(days):
            day = self.end - (days - number) * DAY
            silences, deaths = KINDS[kind](chance)
            self._hours(group_id, day, [ms for ms in silences if ms <= self.timeout_ms])
            for place, length_ms in enumerate(ms for ms in silences if ms > self.timeout_ms):
                self._eviction(group_id, day + timedelta(hours=2, minutes=7 * place), "flaky", length_ms)
            for place in range(deaths):
                self._eviction(group_id, day + timedelta(hours=9, minutes=place), f"dead-{number}-{place}", None)
        self.member(group_id, "steady", 300_000)
        return group_id

    def assigned(self, group_id: str, protocol_name: str) -> None:
        """Add the group's own row; its partitions are those of its members."""
        self.groups.append((group_id, _shard(group_id), "Stable", self.end - DAY, "consumer", protocol_name))

    def member(
        self,
        group_id: str,
        client_id: str,
        rebalance_timeout_ms: int,
        joined: datetime | None = None,
        partitions: Sequence[int] = (),
    ) -> None:
        who = (group_id, _shard(group_id), f"{client_id}-now", None, client_id, HOST, self.timeout_ms)
        assignment = json.dumps([{"topic": "t", "partitions": list(partitions)}]) if partitions else None
        self.members.append((*who, rebalance_timeout_ms, joined or self.end - 60 * DAY, assignment))

    def session(
        self,
        group_id: str,
        client_id: str,
        joined: datetime,
        ended: datetime,
        end_reason: str,
        **more: Any,  # noqa: ANN401 - columns
    ) -> str:
        member_id = more.get("member_id", f"{client_id}-{joined.isoformat()}")
        lengths: Sequence[int] = more.get("lengths", [3_000] * 5)
        self.sessions.append(
            (
                *(group_id, _shard(group_id), self.end - 90 * DAY, member_id, more.get("instance"), client_id),
                *(
                    more.get("host", HOST),
                    1,
                    more.get("timeout_ms", self.timeout_ms),
                    joined,
                    joined,
                    ended,
                    end_reason,
                    more.get("heard"),
                ),
                *(len(lengths), max(lengths, default=None), list(gaps(lengths))),
            )
        )
        return str(member_id)

    def rebalance(
        self,
        group_id: str,
        started: datetime,
        took_ms: int,
        parts: Sequence[tuple[str, int | None, int, str]] = (),
        **more: Any,  # noqa: ANN401 - columns
    ) -> None:
        """Add a rebalance; a part is a member id, when it joined, how long was waited for it, and its outcome."""
        key, over = str(UUID(int=len(self.rebalances) + 1)), started + timedelta(milliseconds=took_ms)
        who = (group_id, _shard(group_id), self.end - 90 * DAY)
        outcome = ("completed", more.get("restarts", 0), more.get("before", 1), 2, more.get("moved", 0))
        self.rebalances.append((key, *who, 1, more.get("trigger", "member_joined"), started, over, over, *outcome))
        self.parts += [(key, *who, over, name, name, HOST, joined, waited, end) for name, joined, waited, end in parts]

    def _hours(self, group_id: str, day: datetime, lengths: Sequence[int]) -> None:
        """A day of a member that stays, in two pieces."""
        for hour, heard in ((1, [3_000] * 400), (12, [3_000] * 400 + list(lengths))):
            at = day + timedelta(hours=hour)
            self.session(group_id, "steady", self.end - 60 * DAY, at, "hour", member_id="steady-now", lengths=heard)

    def _eviction(self, group_id: str, gone: datetime, client_id: str, length_ms: int | None) -> None:
        self.session(group_id, client_id, gone - timedelta(minutes=5), gone, "session_expired")
        if length_ms is not None:
            back = gone + timedelta(milliseconds=length_ms - self.timeout_ms)
            self.session(
                group_id, client_id, back, back + timedelta(minutes=1), "left", member_id=f"back-{back.isoformat()}"
            )


def scattered(past: Past, group_id: str, seed: int) -> None:
    """Add random events of a group, close to every bound of the rules."""
    chance = Random(seed)
    for number, at in enumerate(_moments(chance, past.end)):
        client = f"c{chance.randrange(3)}"
        instance = chance.choice([None, None, f"i{chance.randrange(2)}"])
        who: dict[str, Any] = {
            "instance": instance,
            "host": f"10.0.0.{chance.randrange(2)}",
            "timeout_ms": chance.choice([6_000, 10_000]),
        }
        reason = chance.choice(["session_expired", "rebalance_timeout", "sync_timeout", "left", "hour", "replaced"])
        lengths = [chance.randint(1, 20_000) for _ in range(chance.randrange(4))]
        joined = at - timedelta(milliseconds=chance.choice([1, 30_000, 59_999, 60_000, 60_001, 90_000]))
        heard = at - timedelta(milliseconds=chance.choice([0, 1_999, 2_000, 2_001, 3_334, 30_000]))
        who["heard"] = max(heard, joined) if chance.random() < 0.5 else None
        member_id = past.session(group_id, client, joined, at, reason, member_id=f"m{number}", lengths=lengths, **who)
        waited = chance.randint(0, 90_000)
        outcome = "evicted" if reason == "rebalance_timeout" else chance.choice(["joined", "left"])
        joined_after = None if outcome == "evicted" else chance.choice([None, 0, waited, 2 * waited])
        more = {
            "trigger": chance.choice(["member_joined", "member_joined", "member_left", "admin"]),
            "moved": chance.randrange(4),
        }
        began = at - timedelta(milliseconds=chance.choice([0, 100, 400_000]))
        past.rebalance(
            group_id,
            began,
            chance.choice([500_000, 600_000]),
            [(member_id, joined_after, waited, outcome)],
            before=chance.randrange(3),
            restarts=chance.randrange(2),
            **more,
        )


def _moments(chance: Random, end: datetime) -> Iterator[datetime]:
    """Moments in a cluster within three days of the end, at both of its sides."""
    at = end - 3 * DAY
    while at < end + timedelta(minutes=5):
        yield at
        at += timedelta(milliseconds=chance.choice([1, 20_000, 59_999, 60_000, 60_001, 3_600_000, 20_000_000]))


def _shard(group_id: str) -> int:
    return shard_of(group_id, 50)
