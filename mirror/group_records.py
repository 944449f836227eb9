"""Records of groups of Kafka's consumer, share and streams protocols, as values: epochs, members and assignments.

A group of the classic protocol is one record, `ObservedGroup`. These groups are several, each with a key of its own,
and `mirror/consumer_groups.py` puts them together. None in place of a content: the record was deleted.

Source: `ConsumerGroup*Value`, `ShareGroup*Value` and `StreamsGroup*Value` of Kafka's module group-coordinator.
"""

from enum import StrEnum
from typing import NamedTuple
from uuid import UUID


class GroupType(StrEnum):
    """The protocol of a group, by the names that Kafka's tools show."""

    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class TopicIdPartitions(NamedTuple):
    """Partitions of one topic, which these records know by its id only."""

    topic_id: UUID
    partitions: tuple[int, ...]


class GroupEpoch(NamedTuple):
    """The epoch of a group, raised when its members, their subscriptions or the topics' partitions have changed."""

    group_type: GroupType
    group_id: str
    epoch: int | None


class Subscription(NamedTuple):
    """What a member has sent of itself."""

    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int | None
    """None: this type of group has none, or it is unknown."""
    topics: tuple[str, ...]
    topic_regex: str | None
    """The regular expression that it subscribes to beside the topics; None or empty: none."""
    server_assignor: str | None
    """The assignor that it prefers; None: the broker's default."""
    classic_session_timeout_ms: int | None
    """The session timeout of a member that uses the classic protocol in a consumer group; None: the broker's."""


class MemberSubscription(NamedTuple):
    """A member of a group."""

    group_type: GroupType
    group_id: str
    member_id: str
    subscription: Subscription | None


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression stands for in a consumer group."""

    group_id: str
    regex: str
    topics: tuple[str, ...] | None


class TargetAssignmentEpoch(NamedTuple):
    """The group epoch for which the target assignment was computed."""

    group_type: GroupType
    group_id: str
    epoch: int | None
    computed_at_ms: int | None
    """Wall time of the broker; None: not in the record, as before Kafka 4.3."""


class TargetAssignment(NamedTuple):
    """What a member of a consumer group is to own."""

    group_id: str
    member_id: str
    partitions: tuple[TopicIdPartitions, ...] | None


class Reconciliation(NamedTuple):
    """How far a member has come towards its target assignment."""

    epoch: int
    """The group epoch that the member has reached; -1 and -2: it has left, and as a static member it may come back."""
    is_stable: bool
    """Whether it has revoked and received everything that this epoch wants."""
    assigned: tuple[TopicIdPartitions, ...]
    """Empty for share and streams groups."""
    pending_revocation: tuple[TopicIdPartitions, ...]
    """What it has to give up before it reaches the next epoch; empty for share and streams groups."""


class CurrentAssignment(NamedTuple):
    """What a member owns."""

    group_type: GroupType
    group_id: str
    member_id: str
    reconciliation: Reconciliation | None


GroupRecord = (
    GroupEpoch | MemberSubscription | ResolvedRegex | TargetAssignmentEpoch | TargetAssignment | CurrentAssignment
)
