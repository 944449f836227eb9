"""The history of mirrored groups, from Kafka's own log and from the tables of the mirror, to be compared.

The log must be complete: read before compaction, and begun after the mirror.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.consumer_protocol import partitions_of
from mirror.consumer_groups import ConsumerGroups, Result
from mirror.group_records import GroupRecord
from mirror.observed import GroupDeleted, ObservedCommit, ObservedGroup, ObservedMember
from mirror.offsets_topic import Decoded, UnknownRecord, decode
from tests.support.kafka_log import OFFSETS_TOPIC, read_topic

MINUTE_MS = 60_000


class Generation(NamedTuple):
    """A generation, and the ids of its members."""

    number: int
    members: tuple[str, ...]


class Owned(NamedTuple):
    """A partition that a member owned from a generation on."""

    topic: str
    partition: int
    generation: int
    member_id: str


class Commit(NamedTuple):
    """A committed offset."""

    committed_ms: int
    offset: int
    metadata: str


@dataclass(slots=True)
class GroupHistory:
    """What is known of a group."""

    generations: list[Generation] = field(default_factory=list)
    """In order; those without members too."""
    owned: list[Owned] = field(default_factory=list)
    """Sorted."""
    offsets: dict[tuple[str, int], Commit] = field(default_factory=dict)
    """The committed offsets, by topic and partition."""
    minutes: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    """The earlier committed offsets, the last of each minute: (time, offset) by topic and partition."""


History = dict[str, GroupHistory]
"""By group id."""


# -- the log ---------------------------------------------------------------------------------------------------


def read_log(bootstrap: str, topic_names: dict[UUID, str]) -> list[Decoded | Result]:
    """Return what the log of a cluster says, partition after partition.

    Args:
        bootstrap: the cluster.
        topic_names: the names of the topics in groups of the consumer protocol.
    """
    groups: dict[int, ConsumerGroups] = defaultdict(lambda: ConsumerGroups(topic_names.get))
    seen: list[Decoded | Result] = []
    for record in asyncio.run(read_topic(bootstrap, OFFSETS_TOPIC)):
        decoded = decode(record.key, record.value)
        if isinstance(decoded, GroupRecord):
            seen += groups[record.partition].apply(decoded, record.appended_ms)
        elif not isinstance(decoded, UnknownRecord | None):
            seen.append(decoded)
    return seen


def logged_history(seen: list[Decoded | Result], prefix: str) -> History:
    """Return the history of the groups whose ids have a prefix."""
    history: dict[str, _Fold] = defaultdict(_Fold)
    for each in seen:
        if isinstance(each, ObservedGroup | ObservedCommit | GroupDeleted) and each.group_id.startswith(prefix):
            history[each.group_id].add(each)
    return {group_id: fold.result() for group_id, fold in history.items()}


class _Fold:
    """The history of one group, record after record."""

    def __init__(self) -> None:
        self._found = GroupHistory()
        self._known: tuple[int, dict[str, set[tuple[str, int]]]] = (0, {})
        self._owners: dict[tuple[str, int], Owned] = {}

    def add(self, seen: ObservedGroup | ObservedCommit | GroupDeleted) -> None:
        """Take a record; Kafka deletes an Empty group that has no offsets."""
        match seen:
            case ObservedGroup():
                self._generation(seen)
            case ObservedCommit():
                self._commit(seen)
            case GroupDeleted():
                assert not self._found.offsets, "the group has no offsets"
                self._known = (0, {})

    def _generation(self, seen: ObservedGroup) -> None:
        """Take a generation, unless it is known; in the same one a static member may have a new id.

        A coordinator whose write fails for want of replicas writes the same generation again, with other members: the
        log has both.
        """
        number, before = self._known
        after = {member.member_id: _assigned(member) for member in seen.members}
        self._known = seen.generation, after
        if (seen.generation, after) == (number, before):
            return
        new = [member for member in seen.members if member.member_id not in before]
        is_static = len(new) == 1 and new[0].group_instance_id is not None
        is_replaced = is_static and seen.generation == number and len(after) == len(before)
        if not is_replaced and seen.generation > 0:
            self._found.generations.append(Generation(seen.generation, tuple(sorted(after))))
        owners = {partition: member_id for member_id, owned in after.items() for partition in owned}
        for partition, member_id in owners.items():
            known = self._owners.get(partition)
            if known is None or known.member_id != member_id:
                since = known.generation if known is not None and is_replaced else seen.generation
                self._owners[partition] = Owned(*partition, since, member_id)
                self._found.owned.append(self._owners[partition])
        self._owners = {partition: owned for partition, owned in self._owners.items() if partition in owners}

    def _commit(self, seen: ObservedCommit) -> None:
        """Take a commit; what it replaces is kept if its minute is over."""
        key = seen.topic, seen.partition
        before = self._found.offsets.get(key)
        if before is not None and before.committed_ms // MINUTE_MS < seen.committed_at_ms // MINUTE_MS:
            self._found.minutes.setdefault(key, []).append((before.committed_ms, before.offset))
        self._found.offsets[key] = Commit(seen.committed_at_ms, seen.offset, seen.metadata)

    def result(self) -> GroupHistory:
        """Return what is known at the end."""
        self._found.owned.sort()
        return self._found


def _assigned(member: ObservedMember) -> set[tuple[str, int]]:
    return {(topic, number) for topic, numbers in partitions_of(member.assignment) or () for number in numbers}


# -- the tables ------------------------------------------------------------------------------------------------

# A rebalance that a poll saw, and that led to no generation, was abandoned.
GENERATIONS = """
    SELECT r.group_id, r.generation, array_agg(m.member_id ORDER BY m.member_id) FILTER (WHERE m.outcome = 'joined')
    FROM rebalances r LEFT JOIN rebalance_members m USING (rebalance_id, completed_at)
    WHERE starts_with(r.group_id, %s) AND r.outcome <> 'abandoned'
    GROUP BY r.rebalance_id, r.completed_at, r.group_id, r.generation, r.joined_at
    ORDER BY r.completed_at, r.generation
"""
OWNED = """
    SELECT group_id, topic, number, generation, member_id
    FROM dashboards.ownership CROSS JOIN unnest(partitions) AS number
    WHERE starts_with(group_id, %s)
    ORDER BY topic, number, generation, member_id
"""
OFFSETS = """
    SELECT
        group_id, topic, partition, round(extract(epoch FROM committed_at) * 1000)::bigint, committed_offset, metadata
    FROM offsets WHERE starts_with(group_id, %s)
"""
MINUTES = """
    SELECT group_id, topic, partition, round(extract(epoch FROM at) * 1000)::bigint, committed_offset
    FROM offset_history WHERE starts_with(group_id, %s) ORDER BY at
"""


def stored_history(rows: Connection, prefix: str) -> History:
    """Return the history of the groups whose ids have a prefix, from a connection in autocommit."""
    history: History = defaultdict(GroupHistory)
    with rows.cursor() as cursor:
        cursor.execute(GENERATIONS, (prefix,))
        for group_id, generation, members in cursor:
            history[group_id].generations.append(Generation(generation, tuple(members or ())))
        cursor.execute(OWNED, (prefix,))
        for group_id, *owned in cursor:
            history[group_id].owned.append(Owned(*owned))
        cursor.execute(OFFSETS, (prefix,))
        for group_id, topic, partition, *commit in cursor:
            history[group_id].offsets[topic, partition] = Commit(*commit)
        cursor.execute(MINUTES, (prefix,))
        for group_id, topic, partition, at_ms, offset in cursor:
            history[group_id].minutes.setdefault((topic, partition), []).append((at_ms, offset))
    return dict(history)
