"""Whether the current assignment of a group is uneven: another one would relieve the member with most partitions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Row

from coordinator_core.analytics.balance import AuditedGroup, AuditedMember, Partition, audit
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.rows import Json

PARTITIONS_MAX: Final = 2_000
"""Larger assignments are judged by the Spark job `assignment_balance_audit` only."""
PAIRS_MAX: Final = 100_000
"""So are those with more pairs of a member and a topic, which may take seconds."""
UNEVEN_RATIO: Final = 1.25
"""The ratio of the most partitions of a member to the most that the best assignment gives one; less is not reported."""


@dataclass(frozen=True, slots=True)
class UnevenAssignment:
    """The member with most partitions, and what a better assignment would give."""

    group_instance_id: str | None
    client_id: str
    client_host: str
    owned: int
    """Its partitions."""
    best_max: int
    """The most partitions of a member in the best assignment."""
    partitions: int
    """Of the whole group."""
    idle_members: int
    """Members without a partition."""
    protocol_name: str


_MEMBERS: Final = """
SELECT members.member_id, members.group_instance_id, members.client_id, members.client_host, members.subscription,
    members.assignment, groups.protocol_name
FROM groups JOIN members USING (group_id)
WHERE groups.group_id = %(group_id)s AND groups.state = 'Stable'
ORDER BY members.member_id
"""

_TOPICS: Final = "SELECT topic, partitions FROM topics WHERE topic = ANY(%(topics)s)"


def read_uneven_assignment(transaction: Transaction, group_id: str) -> UnevenAssignment | None:
    """Judge the assignment of a Stable group; None: it is not uneven, or cannot be judged."""
    rows = transaction.execute(_MEMBERS, {"group_id": group_id}).all()
    if any(row.subscription is None or row.assignment is None for row in rows):
        return None
    members = [
        AuditedMember(row.member_id, frozenset(row.subscription["topics"]), dict.fromkeys(_owned(row.assignment), 0))
        for row in rows
    ]
    topics = sorted({topic for member in members for topic in member.topics})
    partitions = {row.topic: row.partitions for row in transaction.execute(_TOPICS, {"topics": topics})}
    size = max(sum(partitions.values()), sum(len(member.held) for member in members))
    if not members or size > PARTITIONS_MAX or len(members) * len(topics) > PAIRS_MAX:
        return None
    balance = audit(AuditedGroup(0, members, partitions, lags={}, lost={})).group
    place = max(range(len(members)), key=lambda place: len(members[place].held))
    owned = len(members[place].held)
    if owned < UNEVEN_RATIO * balance.best_partitions_max or owned <= balance.best_partitions_max:
        return None
    return _uneven(rows[place], owned, balance.best_partitions_max, balance.partitions, balance.idle_members)


def _uneven(row: Row[*tuple[object, ...]], owned: int, best_max: int, partitions: int, idle: int) -> UnevenAssignment:
    who = (row.group_instance_id, row.client_id, row.client_host)
    return UnevenAssignment(*who, owned, best_max, partitions, idle, row.protocol_name or "")


def _owned(assignment: Json) -> Iterator[Partition]:
    for given in assignment:
        for number in given["partitions"]:
            yield given["topic"], number
