"""Records of `__consumer_offsets` as a broker writes them: of commits and of groups of all protocols."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mirror.group_records import (
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    GroupType,
    MemberSubscription,
    Reconciliation,
    ResolvedRegex,
    Subscription,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicIdPartitions,
)
from mirror.observed import GroupDeleted, Observed, ObservedCommit, ObservedGroup, OffsetDeleted
from tests.support.offsets_topic_bytes import (
    array,
    compact,
    flexible_value,
    group_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
    tags,
)

EPOCHS: Final = {GroupType.CONSUMER: 3, GroupType.SHARE: 11, GroupType.STREAMS: 17}
SUBSCRIPTIONS: Final = {GroupType.CONSUMER: 5, GroupType.SHARE: 10}
TARGET_EPOCHS: Final = {GroupType.CONSUMER: 6, GroupType.SHARE: 12, GroupType.STREAMS: 20}
CURRENT_ASSIGNMENTS: Final = {GroupType.CONSUMER: 8, GroupType.SHARE: 14, GroupType.STREAMS: 22}


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as a reader returns it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def record(offset: int, at_ms: int, seen: Observed | GroupRecord) -> LogRecord:
    """Return the record that says this."""
    key, value = _key_and_value(seen)
    return LogRecord(offset, at_ms, key, value)


def _key_and_value(seen: Observed | GroupRecord) -> tuple[bytes, bytes | None]:
    match seen:
        case OffsetDeleted():
            return offset_commit_key(seen.group_id, seen.topic, seen.partition), None
        case ObservedCommit():
            return offset_commit_key(seen.group_id, seen.topic, seen.partition), offset_commit_value(seen)
        case GroupDeleted():
            return group_key(2, seen.group_id), None
        case ObservedGroup():
            return group_key(2, seen.group_id), group_metadata_value(seen)
        case GroupEpoch(group_type, group_id, epoch):
            return group_key(EPOCHS[group_type], group_id), _epoch(epoch)
        case TargetAssignmentEpoch(group_type, group_id, epoch):
            return group_key(TARGET_EPOCHS[group_type], group_id), _epoch(epoch)
        case MemberSubscription(group_type, group_id, member_id, subscription):
            key = group_key(SUBSCRIPTIONS[group_type], group_id, member_id)
            return key, None if subscription is None else _subscription(group_type, subscription)
        case TargetAssignment(group_id, member_id, partitions):
            key = group_key(7, group_id, member_id)
            return key, None if partitions is None else flexible_value(_partitions(partitions))
        case CurrentAssignment(group_type, group_id, member_id, reached):
            key = group_key(CURRENT_ASSIGNMENTS[group_type], group_id, member_id)
            return key, None if reached is None else _reconciliation(group_type, reached)
        case ResolvedRegex(group_id, regex, topics):
            key = group_key(16, group_id, regex)
            return key, None if topics is None else flexible_value(array(list(map(compact, topics))))


def _epoch(epoch: int | None) -> bytes | None:
    return None if epoch is None else flexible_value(struct.pack(">i", epoch))


def _subscription(group_type: GroupType, of_member: Subscription) -> bytes:
    client = [compact(of_member.client_id), compact(of_member.client_host)]
    topics = array(list(map(compact, of_member.topics)))
    if group_type is GroupType.SHARE:
        return flexible_value(compact(None), *client, topics)
    timeout_ms = -1 if of_member.rebalance_timeout_ms is None else of_member.rebalance_timeout_ms
    names = [compact(of_member.group_instance_id), compact(None), *client]
    wanted = [topics, compact(of_member.topic_regex), struct.pack(">i", timeout_ms), compact(of_member.server_assignor)]
    return flexible_value(*names, *wanted)


def _reconciliation(group_type: GroupType, reached: Reconciliation) -> bytes:
    reached_epoch = struct.pack(">iib", reached.epoch, reached.epoch, 0 if reached.is_stable else 1)
    if group_type is not GroupType.CONSUMER:
        return flexible_value(reached_epoch)
    return flexible_value(reached_epoch, _partitions(reached.assigned), _partitions(reached.pending_revocation))


def _partitions(partitions: Iterable[TopicIdPartitions]) -> bytes:
    return array(
        [
            each.topic_id.bytes + array([struct.pack(">i", number) for number in each.partitions]) + tags()
            for each in partitions
        ]
    )
