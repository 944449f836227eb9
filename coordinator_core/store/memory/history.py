"""What history answers about one group, looked up row by row: slow, and obviously right."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from coordinator_core.protocol.records import CommittedOffset
from coordinator_core.store.history import (
    GroupPosition,
    ListedRebalance,
    Moment,
    OwnedSpan,
    PositionThen,
    RebalancePlace,
    RebalanceWait,
    TransitionPlace,
    WaitQuestion,
    in_order,
    place_of,
)
from coordinator_core.store.memory.groups import Group, History
from coordinator_core.store.memory.log_ends import LogEnds
from coordinator_core.store.memory.positions import log_end_of
from coordinator_core.store.rows import GroupRow, RebalanceMemberRow, TransitionRow

GOES_ON_MS = float("inf")
"""When what still stands will be over, for comparison."""


def rebalances(group: Group, past: History, group_id: str, after: RebalancePlace | None) -> list[ListedRebalance]:
    """Return every rebalance after a place, the one under way first."""
    over = [ListedRebalance.over(row) for row in past.rebalances if row.group_id == group_id]
    everything = over if group.row is None else over + list(_under_way(group.row))
    newest_first = sorted(everything, key=lambda each: each.place, reverse=True)
    return [each for each in newest_first if after is None or each.place < after]


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
    """Return everybody's part, who was waited for longest first."""
    parts = [row for row in past.rebalance_members if (row.group_id, row.rebalance_id) == (group_id, rebalance_id)]
    return sorted(parts, key=lambda row: (-row.waited_for_ms, row.member_id))


def waits(group: Group, past: History, question: WaitQuestion) -> list[RebalanceWait]:
    """Return every wait that is long enough, the longest first."""
    hosts = {
        row.member_id: row.client_host
        for row in past.sessions
        if row.group_id == question.group_id and row.ended_at_ms >= question.from_ms
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
        if row.group_id == question.group_id
        and row.completed_at_ms >= question.from_ms
        and row.waited_for_ms >= question.at_least_ms
    ]
    return sorted(found, key=lambda wait: (-wait.waited_for_ms, wait.rebalance_id, wait.member_id))


def transitions(past: History, group_id: str, after: TransitionPlace | None) -> list[TransitionRow]:
    """Return every transition after a place, the newest first."""
    newest_first = sorted((row for row in past.transitions if row.group_id == group_id), key=place_of, reverse=True)
    return [row for row in newest_first if after is None or place_of(row) < after]


def ownership(group: Group, past: History, moment: Moment) -> list[OwnedSpan]:
    """Return who held what."""
    spans = [
        span
        for span in (*_held(group), *_ended(past, moment.group_id))
        if span.valid_from_ms <= moment.at_ms < (span.valid_to_ms or GOES_ON_MS)
        and (moment.topic is None or span.topic == moment.topic)
    ]
    return in_order(spans, moment.partition)


def _held(group: Group) -> Iterator[OwnedSpan]:
    for member in group.members.values():
        for span in member.held:
            yield OwnedSpan(
                member_id=member.member_id,
                topic=span["topic"],
                partitions=tuple(span["partitions"]),
                generation=span["generation"],
                rebalance_id=span["rebalance_id"],
                valid_from_ms=span["since_ms"],
                valid_to_ms=None,
            )


def _ended(past: History, group_id: str) -> Iterator[OwnedSpan]:
    for row in past.ownerships:
        if row.group_id == group_id:
            yield OwnedSpan(
                row.member_id,
                row.topic,
                row.partitions,
                row.generation,
                row.rebalance_id,
                row.valid_from_ms,
                row.valid_to_ms,
            )


def positions(group: Group, past: History, moment: Moment) -> list[PositionThen]:
    """Return what was committed, by topic and partition."""
    newest: dict[tuple[str, int], tuple[PositionThen, float]] = {}
    for position, gone_at_ms in sorted(_known(group, past, moment.group_id), key=lambda each: _age(*each)):
        if position.committed_at_ms <= moment.at_ms:
            newest[position.topic, position.partition] = position, gone_at_ms
    return [
        position
        for (topic, partition), (position, gone_at_ms) in sorted(newest.items())
        if gone_at_ms > moment.at_ms and moment.topic in {None, topic} and moment.partition in {None, partition}
    ]


def _age(position: PositionThen, gone_at_ms: float) -> tuple[int, bool, float]:
    """Order by when it was committed; of the same commit, what the archive has comes first, and is overruled."""
    return position.committed_at_ms, position.member_id is not None, gone_at_ms


def _known(group: Group, past: History, group_id: str) -> Iterator[tuple[PositionThen, float]]:
    """Every position that is known, and until when it stood if it was taken away."""
    for archived in past.archived:
        if archived.group_id == group_id:
            yield (
                PositionThen(
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
            at = PositionThen(old.topic, old.partition, old.offset, old.log_end_offset, old.at_ms, old.member_id)
            yield at, GOES_ON_MS
    for (topic, partition), position in group.offsets.items():
        record = position.record
        then = PositionThen(topic, partition, record.offset, record.log_end_offset, record.at_ms, record.member_id)
        yield then, GOES_ON_MS


def group_positions(
    groups: Iterable[tuple[str, Group]], log_ends: LogEnds, fresh_since_ms: int, *, by_partition: bool
) -> list[GroupPosition]:
    """Return what groups have committed, added up by topic or partition."""
    found = []
    for group_id, group in groups:
        in_order = sorted(group.offsets)
        for (topic, partition), keys in groupby(in_order, lambda key: (key[0], key[1] if by_partition else None)):
            records = [group.offsets[key].record for key in keys]
            lag, log_end_at_ms = lag_records(records, log_ends, fresh_since_ms)
            offset, newest_ms = sum(each.offset for each in records), max(each.at_ms for each in records)
            of = (group_id, topic, partition, len(records))
            found.append(GroupPosition(*of, offset, lag, newest_ms, log_end_at_ms))
    return found


def lag_records(
    records: Iterable[CommittedOffset], log_ends: LogEnds, fresh_since_ms: int
) -> tuple[int | None, int | None]:
    """Return the records behind, added up, and the oldest instant at which one of the logs' ends was reported last.

    The first is None where no end is known, or where it is a lower bound of 0.
    """
    known = [(each.offset, end) for each in records if (end := log_end_of(each, log_ends)) is not None]
    if not known:
        return None, None
    lag = sum(max(end.offset - offset, 0) for offset, end in known)
    oldest_ms = min(end.at_ms for _, end in known)
    return (lag if lag > 0 or oldest_ms >= fresh_since_ms else None), oldest_ms
