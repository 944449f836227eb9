"""Invariants that hold after any faults, checked against the journals of agents."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.offset_log import wait_for_checkpoint
from tests.system.chaos.journal import CommitOffsetsResponse, Event, OffsetsFetched, PartitionsAssigned


class Invariant(NamedTuple):
    """An invariant, the number of checked items, and the violations."""

    name: str
    checked: int
    violations: list[str]


def check_invariants(events: list[Event], connection: PsycopgConnection) -> list[Invariant]:
    """Check every invariant.

    Args:
        events: the journal of all agents, by time.
        connection: to the database as it is now.
    """
    assignments = [event for event in events if isinstance(event, PartitionsAssigned)]
    committed = [event for event in events if isinstance(event, CommitOffsetsResponse)]
    return [
        every_answered_commit_is_stored(committed, connection),
        every_answered_commit_is_fetched(events),
        no_minute_has_two_offsets_of_a_partition(connection),
        no_partition_has_two_owners_in_a_generation(assignments),
        no_generation_is_used_twice(connection),
        no_partition_is_owned_twice_at_a_time(connection),
    ]


def every_answered_commit_is_stored(
    committed: Iterable[CommitOffsetsResponse], connection: PsycopgConnection
) -> Invariant:
    """Offsets of a partition only grow, so the stored one is at least the greatest successful commit."""
    furthest: dict[tuple[str, int], int] = defaultdict(int)
    answered = 0
    for event in committed:
        for partition, offset in event.offsets.items():
            answered += 1
            key = (event.group_id, partition)
            furthest[key] = max(furthest[key], offset)
    wait_for_checkpoint(connection)
    with connection.cursor() as cursor:
        cursor.execute("SELECT group_id, partition, committed_offset FROM offsets")
        stored = {(group_id, partition): offset for group_id, partition, offset in cursor.fetchall()}
    violations = [
        f"{group_id}/{partition}: {offset} was answered, {stored.get((group_id, partition))} is stored"
        for (group_id, partition), offset in furthest.items()
        if stored.get((group_id, partition), -1) < offset
    ]
    return Invariant("every answered commit is stored", answered, violations)


def every_answered_commit_is_fetched(events: Iterable[Event]) -> Invariant:
    """A fetch that begins after the response to a commit returns it, or a later one, at any node."""
    moments = [(event.began_s if isinstance(event, OffsetsFetched) else event.at_s, event) for event in events]
    furthest: dict[tuple[str, int], int] = {}
    checked, violations = 0, []
    for _, event in sorted(moments, key=lambda moment: moment[0]):
        if isinstance(event, CommitOffsetsResponse):
            for partition, offset in event.offsets.items():
                key = (event.group_id, partition)
                furthest[key] = max(offset, furthest.get(key, 0))
        elif isinstance(event, OffsetsFetched):
            for (group_id, partition), offset in furthest.items():
                if group_id == event.group_id:
                    checked += 1
                    found = event.offsets.get(partition)
                    if found is None or found < offset:
                        answered = f"{group_id}/{partition}: {offset} was answered"
                        violations.append(f"{answered}, {event.node} returns {found}")
    return Invariant("every answered commit is fetched", checked, violations)


def no_minute_has_two_offsets_of_a_partition(connection: PsycopgConnection) -> Invariant:
    """History has the last committed offset of a partition in each minute, once."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM offsets")
        ((partitions,),) = cursor.fetchall()
        cursor.execute(
            "SELECT group_id, topic, partition, date_trunc('minute', at), count(*) FROM offset_history"
            " GROUP BY 1, 2, 3, 4 HAVING count(*) > 1"
        )
        found = cursor.fetchall()
    violations = [f"{'/'.join(map(str, key))}: {times} times" for *key, times in found]
    return Invariant("no minute has two offsets of a partition", partitions, violations)


def no_partition_has_two_owners_in_a_generation(assignments: Iterable[PartitionsAssigned]) -> Invariant:
    """Within a generation, at most one agent was assigned a partition."""
    owners: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    for event in assignments:
        for partition in event.partitions:
            owners[event.group_id, event.generation, partition].add(event.member_id)
    violations = [
        f"{group_id}/{partition} in generation {generation}: {', '.join(sorted(members))}"
        for (group_id, generation, partition), members in owners.items()
        if len(members) > 1
    ]
    return Invariant("no partition has two owners in a generation", len(owners), violations)


def no_generation_is_used_twice(connection: PsycopgConnection) -> Invariant:
    """In one lifetime of a group each generation is started once, by members or by the group becoming Empty."""
    with connection.cursor() as cursor:
        cursor.execute(_GENERATIONS)
        found = cursor.fetchall()
    violations = [f"{group_id}: generation {generation} began {times} times" for group_id, generation, times in found]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM group_transitions WHERE to_state = 'CompletingRebalance'")
        (checked,) = cursor.fetchone() or (0,)
    return Invariant("no generation is used twice", checked, violations)


_GENERATIONS = """
    SELECT group_id, generation, count(*) FROM group_transitions
    WHERE to_state = 'CompletingRebalance'
    GROUP BY group_id, group_created_at, generation HAVING count(*) > 1
"""


def no_partition_is_owned_twice_at_a_time(connection: PsycopgConnection) -> Invariant:
    """Ownership intervals of one partition do not overlap."""
    with connection.cursor() as cursor:
        cursor.execute(_OVERLAPS)
        violations = [str(row) for row in cursor.fetchall()]
        cursor.execute("SELECT count(*) FROM partition_ownership")
        (checked,) = cursor.fetchone() or (0,)
    return Invariant("no partition is owned twice at a time", checked, violations)


_OVERLAPS = """
    WITH spans AS (
        SELECT group_id, topic, unnest(partitions) AS partition, member_id, valid_from, valid_to
        FROM partition_ownership
    )
    SELECT group_id, topic, partition, member_id, valid_from, valid_to, next_from
    FROM (
        SELECT *, lead(valid_from) OVER partition_by_time AS next_from FROM spans
        WINDOW partition_by_time AS (PARTITION BY group_id, topic, partition ORDER BY valid_from, valid_to)
    ) AS ordered
    WHERE next_from < valid_to
"""


def agents_without_commits_since(events: Iterable[Event], names: set[str], since_s: float) -> set[str]:
    """Return the agents without a successful commit since then."""
    alive = {event.agent for event in events if isinstance(event, CommitOffsetsResponse) and event.at_s > since_s}
    return names - alive
