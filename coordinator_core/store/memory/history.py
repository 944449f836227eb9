"""Queries of a group's history in memory, by plain loops."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from coordinator_core.protocol.records import CommittedOffset
from coordinator_core.store.history import (
    ListedRebalance,
    Moment,
    OffsetAtTime,
    OffsetTotal,
    PartitionOwnership,
    RebalanceCursor,
    RebalanceWait,
    TransitionCursor,
    WaitQuery,
    cursor_of,
    in_order,
)
from coordinator_core.store.memory.committed_offsets import log_end_of
from coordinator_core.store.memory.groups import Group, History
from coordinator_core.store.memory.log_ends import LogEnds
from coordinator_core.store.rows import GroupRow, RebalanceMemberRow, TransitionRow

ONGOING_MS = float("inf")
"""The end of what is not over yet, for comparisons."""


def rebalances(group: Group, past: History, group_id: str, after: RebalanceCursor | None) -> list[ListedRebalance]:
    """Return every rebalance after a cursor, the one in progress first."""
    over = [ListedRebalance.over(row) for row in past.rebalances if row.group_id == group_id]
    everything = over if group.row is None else over + list(_under_way(group.row))
    newest_first = sorted(everything, key=lambda each: each.cursor, reverse=True)
    return [each for each in newest_first if after is None or each.cursor < after]


def _under_way(row: GroupRow) -> Iterator[ListedRebalance]:
    known = (row.rebalance or {}).get("under_way")
    if known:
        yield ListedRebalance(
            **known,
            group_id=row.group_id,
            shard_id=row.shard_id,
            group_created_at_ms=row.created_at_ms,
            generation=row.generation,
            completed_at_ms=None,
            outcome=None,
            member_count_after=None,
            partitions_moved=None,
        )


def rebalance_members(past: History, group_id: str, rebalance_id: str) -> list[RebalanceMemberRow]:
    """Return the members of a rebalance, the one that was waited for longest first."""
    members = [row for row in past.rebalance_members if (row.group_id, row.rebalance_id) == (group_id, rebalance_id)]
    return sorted(members, key=lambda row: (-row.waited_for_ms, row.member_id))


def waits(group: Group, past: History, query: WaitQuery) -> list[RebalanceWait]:
    """Return every wait that the query selects, the longest first."""
    hosts = {
        row.member_id: row.client_host
        for row in past.sessions
        if row.group_id == query.group_id and row.ended_at_ms >= query.from_ms
    }
    hosts |= {row.member_id: row.client_host for row in group.members.values()}
    found = [
        RebalanceWait(
            row.rebalance_id,
            row.member_id,
            row.group_instance_id,
            row.client_id,
            hosts.get(row.member_id),
            row.waited_for_ms,
            row.outcome,
        )
        for row in past.rebalance_members
        if row.group_id == query.group_id
        and row.completed_at_ms >= query.from_ms
        and row.waited_for_ms >= query.at_least_ms
    ]
    return sorted(found, key=lambda wait: (-wait.waited_for_ms, wait.rebalance_id, wait.member_id))


def transitions(past: History, group_id: str, after: TransitionCursor | None) -> list[TransitionRow]:
    """Return every transition after a cursor, the newest first."""
    newest_first = sorted((row for row in past.transitions if row.group_id == group_id), key=cursor_of, reverse=True)
    return [row for row in newest_first if after is None or cursor_of(row) < after]


def ownership(group: Group, past: History, moment: Moment) -> list[PartitionOwnership]:
    """Return ownerships as of a time."""
    ownerships = [
        owned
        for owned in (*_held(group), *_ended(past, moment.group_id))
        if owned.valid_from_ms <= moment.at_ms < (owned.valid_to_ms or ONGOING_MS)
        and (moment.topic is None or owned.topic == moment.topic)
    ]
    return in_order(ownerships, moment.partition)


def _held(group: Group) -> Iterator[PartitionOwnership]:
    for member in group.members.values():
        for owned in member.ownership:
            yield PartitionOwnership(
                member_id=member.member_id,
                topic=owned["topic"],
                partitions=tuple(owned["partitions"]),
                generation=owned["generation"],
                rebalance_id=owned["rebalance_id"],
                valid_from_ms=owned["since_ms"],
                valid_to_ms=None,
            )


def _ended(past: History, group_id: str) -> Iterator[PartitionOwnership]:
    for row in past.ownerships:
        if row.group_id == group_id:
            yield PartitionOwnership(
                row.member_id,
                row.topic,
                row.partitions,
                row.generation,
                row.rebalance_id,
                row.valid_from_ms,
                row.valid_to_ms,
            )


def offsets_at(group: Group, past: History, moment: Moment) -> list[OffsetAtTime]:
    """Return committed offsets as of a time, by topic and partition."""
    newest: dict[tuple[str, int], tuple[OffsetAtTime, float]] = {}
    for known_offset, removed_at_ms in sorted(_known(group, past, moment.group_id), key=lambda each: _age(*each)):
        if known_offset.committed_at_ms <= moment.at_ms:
            newest[known_offset.topic, known_offset.partition] = known_offset, removed_at_ms
    return [
        known_offset
        for (topic, partition), (known_offset, removed_at_ms) in sorted(newest.items())
        if removed_at_ms > moment.at_ms and moment.topic in {None, topic} and moment.partition in {None, partition}
    ]


def _age(known_offset: OffsetAtTime, removed_at_ms: float) -> tuple[int, bool, float]:
    """Order by commit time; of the same commit, the archived offset comes first, and later ones replace it."""
    return known_offset.committed_at_ms, known_offset.member_id is not None, removed_at_ms


def _known(group: Group, past: History, group_id: str) -> Iterator[tuple[OffsetAtTime, float]]:
    """Yield every known offset, and until when it was valid if it was removed."""
    for archived in past.archived:
        if archived.group_id == group_id:
            yield (
                OffsetAtTime(
                    archived.topic,
                    archived.partition,
                    archived.offset,
                    archived.log_end_offset,
                    archived.committed_at_ms,
                    None,
                ),
                archived.archived_at_ms,
            )
    for old in past.offset_history:
        if old.group_id == group_id:
            at = OffsetAtTime(old.topic, old.partition, old.offset, old.log_end_offset, old.at_ms, old.member_id)
            yield at, ONGOING_MS
    for (topic, partition), known_offset in group.offsets.items():
        record = known_offset.record
        then = OffsetAtTime(topic, partition, record.offset, record.log_end_offset, record.at_ms, record.member_id)
        yield then, ONGOING_MS


def offset_totals(
    groups: Iterable[tuple[str, Group]], log_ends: LogEnds, fresh_since_ms: int, *, by_partition: bool
) -> list[OffsetTotal]:
    """Return the sums of committed offsets, by topic or by partition."""
    found = []
    for group_id, group in groups:
        in_order = sorted(group.offsets)
        for (topic, partition), keys in groupby(in_order, lambda key: (key[0], key[1] if by_partition else None)):
            records = [group.offsets[key].record for key in keys]
            lag, log_end_at_ms = lag_records(records, log_ends, fresh_since_ms)
            offset, newest_ms = sum(each.offset for each in records), max(each.at_ms for each in records)
            of = (group_id, topic, partition, len(records))
            found.append(OffsetTotal(*of, offset, lag, newest_ms, log_end_at_ms))
    return found


def lag_records(
    records: Iterable[CommittedOffset], log_ends: LogEnds, fresh_since_ms: int
) -> tuple[int | None, int | None]:
    """Return the sum of the lag, and the oldest of the times at which the log ends were last reported.

    The first is None where no end is known, or where it is a lower bound of 0.
    """
    known = [(each.offset, end) for each in records if (end := log_end_of(each, log_ends)) is not None]
    if not known:
        return None, None
    lag = sum(max(end.offset - offset, 0) for offset, end in known)
    oldest_ms = min(end.at_ms for _, end in known)
    return (lag if lag > 0 or oldest_ms >= fresh_since_ms else None), oldest_ms
