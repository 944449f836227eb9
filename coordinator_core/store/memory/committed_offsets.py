"""Committed offsets and lag of a group in memory, now and over time, by plain loops."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from coordinator_core.protocol.log_ends import (
    LogEnd,
    latest_log_end,
    monotonic_log_ends,
    relevant_log_ends,
    reported_log_end,
)
from coordinator_core.protocol.records import CommittedOffset
from coordinator_core.protocol.retention import NO_GROUP, GroupFacts
from coordinator_core.store.committed_offsets import (
    GroupOffsets,
    LaggingOffset,
    PartitionOffset,
    PastOffset,
    TimeRange,
    by_time,
    last_of_each_step,
    retention_facts_of,
)
from coordinator_core.store.memory.groups import Group, History, OffsetHistoryRow
from coordinator_core.store.memory.log_ends import LogEnds

TopicPartition = tuple[str, int]

# -- now ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Past:
    """The data that lookups of offsets need in addition to the group."""

    history: History
    log_ends: LogEnds


def group_offsets(group: Group, past: Past, group_id: str, since_ms: int) -> GroupOffsets:
    """Return a group's committed offsets and log ends; log ends from before `since_ms` are ignored."""
    owners = {
        (span["topic"], number): (member.member_id, member.client_id)
        for _, member in sorted(group.members.items(), reverse=True)
        for span in member.ownership
        for number in span["partitions"]
    }
    everything = sorted(owners.keys() | group.offsets.keys())
    return GroupOffsets(
        _facts(group), [_partition_offset(group, past, group_id, since_ms, key, owners) for key in everything]
    )


def _facts(group: Group) -> GroupFacts:
    row = group.row
    if row is None:
        return NO_GROUP
    return retention_facts_of(row.state, row.protocol_type, row.state_since_ms, row.subscribed_topics)


def _partition_offset(
    group: Group,
    past: Past,
    group_id: str,
    since_ms: int,
    key: TopicPartition,
    owners: dict[TopicPartition, tuple[str, str]],
) -> PartitionOffset:
    topic, partition = key
    member_id, client_id = owners.get(key, (None, None))
    stored_offset = group.offsets.get(key)
    if stored_offset is None:
        return PartitionOffset(topic, partition, member_id, client_id, None, None, None, ())
    record = stored_offset.record
    committed = (record.offset, record.at_ms, record.expires_at_ms)
    own = _own_ends(stored_offset.record, past.history, group_id, since_ms)
    trusted = past.log_ends.since(key, since_ms)
    ends = monotonic_log_ends([*relevant_log_ends(own, record.offset), *relevant_log_ends(trusted, record.offset)])
    return PartitionOffset(topic, partition, member_id, client_id, *committed, tuple(ends))


def _own_ends(record: CommittedOffset, past: History, group_id: str, since_ms: int) -> list[LogEnd]:
    """Return the log ends that a group reported, by time; none if its current offset has none."""
    if record.log_end is None:
        return []
    earlier = [
        end
        for old in _of_partition(past, group_id, (record.topic, record.partition), since_ms)
        if (end := reported_log_end(old.offset, old.log_end_offset, old.at_ms)) is not None
    ]
    return sorted([*earlier, record.log_end])


def log_end_of(record: CommittedOffset, log_ends: LogEnds) -> LogEnd | None:
    """Return the known log end of a committed offset, or None."""
    return latest_log_end(record.log_end, log_ends.present_of((record.topic, record.partition)))


def _of_partition(past: History, group_id: str, key: TopicPartition, since_ms: int) -> Iterator[OffsetHistoryRow]:
    for old in past.offset_history:
        if (old.group_id, old.topic, old.partition) == (group_id, *key) and old.at_ms >= since_ms:
            yield old


def lagging(groups: Iterable[tuple[str, Group]], past: Past, since_ms: int) -> Iterator[LaggingOffset]:
    """Return the offsets that lag, by group, topic and partition."""
    for group_id, group in groups:
        for each in group_offsets(group, past, group_id, since_ms).partitions:
            if each.offset is not None and each.ends and each.ends[-1].offset > each.offset:
                yield LaggingOffset(group_id, each.topic, each.partition, each.offset, each.ends)


# -- over time ---------------------------------------------------------------------------------------------


def past_offsets(group: Group, past: History, time_range: TimeRange) -> list[PastOffset]:
    """Return a group's committed offsets over time, by topic, partition and time."""
    everything = sorted(_known(group, past, time_range.group_id), key=by_time)
    within = [one for one in everything if time_range.from_ms <= one.at_ms < time_range.until_ms]
    return last_of_each_step(sorted(within + list(_before(group, everything, time_range)), key=by_time), time_range)


def committed_partitions(group: Group, past: History, time_range: TimeRange) -> set[TopicPartition]:
    """Return the partitions with an offset, or whose offset was removed since the start of the time range."""
    removed = {
        (archived.topic, archived.partition)
        for archived in past.archived
        if archived.group_id == time_range.group_id and archived.archived_at_ms >= time_range.from_ms
    }
    return removed | group.offsets.keys()


def _known(group: Group, past: History, group_id: str) -> Iterator[PastOffset]:
    for old in past.offset_history:
        if old.group_id == group_id:
            yield _past(old.topic, old.partition, old.at_ms, old.offset, old.log_end_offset)
    for archived in past.archived:
        if archived.group_id == group_id:
            yield PastOffset(archived.topic, archived.partition, archived.archived_at_ms, None, None)
    for (topic, partition), stored_offset in group.offsets.items():
        record = stored_offset.record
        end = record.log_end_offset if record.log_end_at_ms is None else None
        yield _past(topic, partition, record.at_ms, record.offset, end)


def _past(topic: str, partition: int, at_ms: int, offset: int, end: int | None) -> PastOffset:
    return PastOffset(topic, partition, at_ms, offset, None if end is None else max(end, offset))


def _before(group: Group, everything: list[PastOffset], time_range: TimeRange) -> Iterator[PastOffset]:
    """Return the offset of each partition as of the start of the time range, if it still has an offset."""
    earlier = [one for one in everything if one.at_ms < time_range.from_ms and one.offset is not None]
    yield from {
        (one.topic, one.partition): one for one in earlier if (one.topic, one.partition) in group.offsets
    }.values()
