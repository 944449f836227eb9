"""What the log of a mirrored cluster says, as values: groups with their members, committed offsets, and deletions.

Source: the schemas of `__consumer_offsets` in Kafka's module group-coordinator (`GroupMetadataValue`,
`OffsetCommitValue`, `ConsumerGroup*Value`).
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


class ObservedMember(NamedTuple):
    """A member of a generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    """The member's metadata for the chosen protocol; the log has no other."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ObservedGroup:
    """A group as of one generation, as it was when its assignment was accepted or the group became Empty."""

    group_id: str
    protocol_type: str
    generation: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int | None
    """Wall time of the broker: since when it was in its state; of a generation, the end of the join phase."""
    members: tuple[ObservedMember, ...] = ()
    started_ms: int | None = None
    """Wall time of the broker when the rebalance to this generation started; None: it is not in the log."""
    is_polled: bool = False
    """Whether it was described, and not read from the log: times are those of the poll, the leader is unknown."""


class GroupDeleted(NamedTuple):
    """A group was deleted, or expired: its record is a tombstone."""

    group_id: str
    is_classic: bool = True
    """Whether its protocol was the classic one."""


class ObservedCommit(NamedTuple):
    """A committed offset."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    """-1: unknown."""
    metadata: str
    committed_at_ms: int
    """Wall time of the broker."""
    expires_at_ms: int | None
    """The offset's own expiry, which clients before Kafka 2.1 sent; None: by retention."""


class OffsetDeleted(NamedTuple):
    """A committed offset was deleted, or expired: its record is a tombstone."""

    group_id: str
    topic: str
    partition: int


class ObservedRebalanceStart(NamedTuple):
    """The epoch of a consumer group was raised, so its members need a new assignment."""

    group_id: str
    generation: int
    """The new epoch."""
    at_ms: int
    """Wall time of the broker."""


class UnknownTopicIds(NamedTuple):
    """Topics that an assignment has by ids without a known name: their partitions are left out of it."""

    group_id: str
    topic_ids: tuple[UUID, ...]


class ObservedOtherGroup(NamedTuple):
    """A share or streams group, whose generations are not mirrored."""

    group_id: str
    protocol_type: str
    """`share` or `streams`."""
    state: str
    """Kafka's name of it: Empty, Assigning, Reconciling or Stable; share groups are Empty or Stable."""
    epoch: int | None
    """None, as the number of members: it was polled, and not read from the log."""
    member_count: int | None
    state_since_ms: int
    """Wall time of the broker."""


Observed = ObservedGroup | GroupDeleted | ObservedCommit | OffsetDeleted
