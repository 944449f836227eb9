"""Groups for the console's tests: healthy, flapping, stuck, many, and maintenance runs."""

from concurrent.futures import Future, wait
from uuid import uuid4

import psycopg2
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.settings import psql_url
from tests.support.http_client import Answer, Client, Group, Json, Member, fresh_id, gives, join_body, position
from tests.support.nodes import Node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.waiting import PATIENCE_S, poll_until

LONG_MS = 900_000
"""Timeouts long enough that no member is evicted during a test."""
SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}


class SampleGroups:
    """Makes groups through the API, and more of them by SQL."""

    def __init__(self, client: Client, node: Node) -> None:
        assert node.settings.database_url is not None
        self.client = client
        self.rows: PsycopgConnection = psycopg2.connect(psql_url(node.settings.database_url.get_secret_value()))
        self.rows.autocommit = True
        self._parked: list[tuple[Member, Future[Answer]]] = []

    def close(self) -> None:
        """Remove the members whose joins are parked, and close the connection."""
        for member, _ in self._parked:
            member.group.post("leave", {"members": [{"member_id": member.member_id}]})
        wait([parked for _, parked in self._parked], PATIENCE_S)
        self.rows.close()

    def healthy(self, name: str = "healthy", partitions: int = 12) -> Group:
        """Create a stable group of two members with lag."""
        group = self.client.group(fresh_id(name))
        first = group.join(**_long("payments-1"))
        _check(first.sync(_assignment_of(first.member_id, range(partitions))))
        joining = self.client.later(group, "join", _long_body(group, "payments-2"))
        first = self._rejoin(first, "payments-1")
        second = group.member(joining.result(PATIENCE_S))
        half = partitions // 2
        parts = (
            _assignment_of(first.member_id, range(half)),
            _assignment_of(second.member_id, range(half, partitions)),
        )
        _check(first.sync(*parts))
        _check(second.sync())
        first.commit(
            *(
                position(1_000 * number, partition=number, log_end_offset=1_000 * number + 7**number)
                for number in range(partitions)
            )
        )
        return group

    def large(self, members: int, topic: str = "orders") -> Group:
        """Create a stable group of so many members: worker-1 owns one partition, worker-2 two, and so on."""
        first, ids = self.unsynced(members, topic)
        owned = [range(n * (n - 1) // 2, n * (n + 1) // 2) for n in range(1, members + 1)]
        parts = [gives(each, *numbers, topic=topic) for each, numbers in zip(ids, owned, strict=True)]
        _check(first.sync(*parts))
        for each in ids[1:]:
            _check(Member(first.group, each, first.generation, {}).sync())
        return first.group

    def unsynced(self, members: int, topic: str = "orders") -> tuple[Member, list[str]]:
        """Create a group that waits for the syncs of so many members; return its leader, and the ids of all."""
        group = self.client.group(fresh_id("large"))
        first = group.join(topic=topic, **_long("worker-1"))
        _check(first.sync(gives(first.member_id, 0, topic=topic)))
        ids = [first.member_id]
        for number in range(2, members + 1):
            long = _long(f"worker-{number}")
            ids.append(group.handshake(topic=topic, **long))
            joining = join_body(topic, member_id=ids[-1], **long, max_wait_ms=1)
            assert group.post("join", joining).code == "REBALANCE_IN_PROGRESS"
        return self._rejoin(first, "worker-1", topic), ids

    def flapping(self, times: int = 12) -> Group:
        """Create a group whose one member joins and leaves repeatedly."""
        group = self.client.group(fresh_id("flapping"))
        for number in range(times):
            member = group.join(**_long("courier"), reason="the consumer is started")
            _check(member.sync(_assignment_of(member.member_id, range(3))))
            if number < times - 1:
                reason = "consumer poll timeout has expired"
                group.post("leave", {"members": [{"member_id": member.member_id, "reason": reason}]})
        return group

    def stuck(self) -> Group:
        """Create a group that waits for its first member to rejoin."""
        group = self.client.group(fresh_id("stuck"))
        member = group.join(**_long("slowpoke"))
        _check(member.sync(_assignment_of(member.member_id, range(4))))
        self._parked.append((member, self.client.later(group, "join", _long_body(group, "eager"))))
        poll_until(lambda: group.describe()["state"] == "PreparingRebalance")
        return group

    def proposal(self, group: Group, offsets: int = 3) -> str:
        """Add a proposed run with offsets of an empty group; none of them is due."""
        group.post(
            "offsets", {**SIMPLE_CONSUMER, "offsets": [position(7, partition=number) for number in range(offsets)]}
        )
        wait_for_checkpoint(self.rows)
        run_id = str(uuid4())
        with self.rows.cursor() as cursor:
            cursor.execute(
                "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
                " VALUES (%s, 'offset_retention', now(), 'proposed', jsonb_build_object('candidates', %s))",
                (run_id, offsets),
            )
            cursor.execute(
                "INSERT INTO expiry_candidates"
                " (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)"
                " SELECT %s, group_id, shard_id, topic, partition, commit_version, committed_at, 'group_empty'"
                " FROM offsets WHERE group_id = %s",
                (run_id, group.group_id),
            )
        return run_id

    def insert_many(self, number: int) -> None:
        """Insert groups by SQL, each with four offsets, every tenth with rebalances in the last hour."""
        with self.rows.cursor() as cursor:
            cursor.execute(_MANY_GROUPS, {"number": number})

    def _rejoin(self, member: Member, client_id: str, topic: str = "orders") -> Member:
        """Rejoin once the group is rebalancing."""
        poll_until(lambda: member.post("heartbeat").status != 200)
        answer = member.group.post("join", join_body(topic, member_id=member.member_id, **_long(client_id)))
        return member.group.member(answer)


_MANY_GROUPS = """
INSERT INTO groups (group_id, shard_id, state, state_since, state_before_join_phase, generation, protocol_type,
    member_count,
    topics_version, must_rebalance, created_at)
SELECT 'crowd-' || n, n %% 50, CASE n %% 3 WHEN 0 THEN 'Empty' ELSE 'Stable' END, now(),
    CASE n %% 3 WHEN 0 THEN 'Empty' ELSE 'Stable' END, 1, 'consumer', n %% 3, 0, false, now()
FROM generate_series(1, %(number)s) AS n;
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, log_end_offset, committed_at)
SELECT 'crowd-' || n, n %% 50, 'orders', p, n, n + p, now()
FROM generate_series(1, %(number)s) AS n, generate_series(0, 3) AS p;
INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, started_at,
    completed_at, outcome, restarts, member_count_before, member_count_after, partitions_moved)
SELECT gen_random_uuid(), 'crowd-' || n, n %% 50, now(), 1, 'member_left', now(), now() - r * interval '5 minutes',
    'completed', 0, 1, 1, 0
FROM generate_series(10, %(number)s, 10) AS n, generate_series(1, 20) AS r;
ANALYZE groups, offsets, rebalances
"""


def _check(answer: Answer) -> None:
    assert answer.status == 200, answer


def _long(client_id: str) -> Json:
    return {"client_id": client_id, "session_timeout_ms": LONG_MS, "rebalance_timeout_ms": LONG_MS}


def _long_body(group: Group, client_id: str) -> Json:
    long = _long(client_id)
    return join_body(member_id=group.handshake(**long), **long)


def _assignment_of(member_id: str, partitions: range) -> Json:
    assignment = {"partitions": [{"topic": "orders", "partitions": list(partitions)}]}
    return {"member_id": member_id, "assignment": assignment}
