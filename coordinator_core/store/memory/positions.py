"""Positions of one group, now and over time, looked up row by row: slow, and obviously right."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from coordinator_core.protocol.log_ends import LogEnd, furthest, own_log_end, rising, telling
from coordinator_core.protocol.records import CommittedOffset
from coordinator_core.protocol.retention import NO_GROUP, GroupFacts
from coordinator_core.store.memory.groups import Group, History, PastOffset
from coordinator_core.store.memory.log_ends import LogEnds
from coordinator_core.store.positions import (
    GroupPositions,
    HeldPosition,
    LaggingPosition,
    PastPosition,
    Stretch,
    facts_of,
    in_time,
    last_of_each_step,
)

TopicPartition = tuple[str, int]

# -- now ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Past:
    """What positions are looked up in beside their group."""

    history: History
    log_ends: LogEnds


def group_positions(group: Group, past: Past, group_id: str, since_ms: int) -> GroupPositions:
    """Return where a group stands; ends that were reported before an instant are not looked at."""
    owners = {
        (span["topic"], number): (member.member_id, member.client_id)
        for _, member in sorted(group.members.items(), reverse=True)
        for span in member.held
        for number in span["partitions"]
    }
    everything = sorted(owners.keys() | group.offsets.keys())
    return GroupPositions(
        _facts(group), [_held_position(group, past, group_id, since_ms, key, owners) for key in everything]
    )


def _facts(group: Group) -> GroupFacts:
    row = group.row
    if row is None:
        return NO_GROUP
    return facts_of(row.state, row.protocol_type, row.state_since_ms, row.subscribed_topics)


def _held_position(
    group: Group,
    past: Past,
    group_id: str,
    since_ms: int,
    key: TopicPartition,
    owners: dict[TopicPartition, tuple[str, str]],
) -> HeldPosition:
    topic, partition = key
    member_id, client_id = owners.get(key, (None, None))
    position = group.offsets.get(key)
    if position is None:
        return HeldPosition(topic, partition, member_id, client_id, None, None, None, ())
    record = position.record
    stands = (record.offset, record.at_ms, record.expires_at_ms)
    own = _own_ends(position.record, past.history, group_id, since_ms)
    trusted = past.log_ends.since(key, since_ms)
    ends = rising([*telling(own, record.offset), *telling(trusted, record.offset)])
    return HeldPosition(topic, partition, member_id, client_id, *stands, tuple(ends))


def _own_ends(record: CommittedOffset, past: History, group_id: str, since_ms: int) -> list[LogEnd]:
    """Return the ends that a group reported, by time; none where its present offset came without one."""
    if record.log_end is None:
        return []
    earlier = [
        end
        for old in _of_partition(past, group_id, (record.topic, record.partition), since_ms)
        if (end := own_log_end(old.offset, old.log_end_offset, old.at_ms)) is not None
    ]
    return sorted([*earlier, record.log_end])


def log_end_of(record: CommittedOffset, log_ends: LogEnds) -> LogEnd | None:
    """Return where the log of a committed offset ends, as far as it is known."""
    return furthest(record.log_end, log_ends.present_of((record.topic, record.partition)))


def _of_partition(past: History, group_id: str, key: TopicPartition, since_ms: int) -> Iterator[PastOffset]:
    for old in past.offset_history:
        if (old.group_id, old.topic, old.partition) == (group_id, *key) and old.at_ms >= since_ms:
            yield old


def lagging(groups: Iterable[tuple[str, Group]], past: Past, since_ms: int) -> Iterator[LaggingPosition]:
    """Return which offsets of groups are behind, by group, topic and partition."""
    for group_id, group in groups:
        for each in group_positions(group, past, group_id, since_ms).partitions:
            if each.offset is not None and each.ends and each.ends[-1].offset > each.offset:
                yield LaggingPosition(group_id, each.topic, each.partition, each.offset, each.ends)


# -- over time ---------------------------------------------------------------------------------------------


def past_positions(group: Group, past: History, stretch: Stretch) -> list[PastPosition]:
    """Return a group's positions over time, by topic, partition and time."""
    everything = sorted(_known(group, past, stretch.group_id), key=in_time)
    within = [one for one in everything if stretch.from_ms <= one.at_ms < stretch.until_ms]
    return last_of_each_step(sorted(within + list(_before(group, everything, stretch)), key=in_time), stretch)


def committed_partitions(group: Group, past: History, stretch: Stretch) -> set[TopicPartition]:
    """Return the partitions that a group has committed, or lost since the stretch began."""
    gone = {
        (archived.topic, archived.partition)
        for archived in past.archived
        if archived.group_id == stretch.group_id and archived.archived_at_ms >= stretch.from_ms
    }
    return gone | group.offsets.keys()


def _known(group: Group, past: History, group_id: str) -> Iterator[PastPosition]:
    for old in past.offset_history:
        if old.group_id == group_id:
            yield _past(old.topic, old.partition, old.at_ms, old.offset, old.log_end_offset)
    for archived in past.archived:
        if archived.group_id == group_id:
            yield PastPosition(archived.topic, archived.partition, archived.archived_at_ms, None, None)
    for (topic, partition), position in group.offsets.items():
        record = position.record
        end = record.log_end_offset if record.log_end_at_ms is None else None
        yield _past(topic, partition, record.at_ms, record.offset, end)


def _past(topic: str, partition: int, at_ms: int, offset: int, end: int | None) -> PastPosition:
    return PastPosition(topic, partition, at_ms, offset, None if end is None else max(end, offset))


def _before(group: Group, everything: list[PastPosition], stretch: Stretch) -> Iterator[PastPosition]:
    """Return, of each partition that still has a position, the one it had when the stretch began."""
    earlier = [one for one in everything if one.at_ms < stretch.from_ms and one.offset is not None]
    yield from {
        (one.topic, one.partition): one for one in earlier if (one.topic, one.partition) in group.offsets
    }.values()
