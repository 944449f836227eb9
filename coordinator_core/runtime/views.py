"""What the coordinator shows of itself and its groups: values for the front doors."""

from dataclasses import dataclass
from typing import Literal

from coordinator_core.protocol.consumer_protocol import TopicPartitions
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.protocol.states import GroupState

SettingSource = Literal["default", "environment", "cluster", "group"]


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member as its coordinator sees it now."""

    member: Member
    subscription: bytes
    """Its metadata for the chosen protocol; empty while none is chosen."""
    last_heartbeat_at_ms: int | None
    """Wall time of the last sign of life; None before the first."""
    awaiting: Literal["join", "sync"] | None
    """Which request of the member is parked: it is ready, and waits for other members."""
    awaited: Literal["join", "sync"] | None
    """Which request of the member the group waits for."""
    owned: tuple[TopicPartitions, ...] | None
    """The partitions that the member owns, by topic; during a rebalance those that it owned last. None: not known, as
    its assignment cannot be read."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as its coordinator sees it now. A Dead one has no members and generation 0."""

    group_id: str
    state: GroupState
    state_since_ms: int | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    members: tuple[MemberView, ...]
    pending_member_count: int
    waiting_for: tuple[str, ...]
    waiting_until_ms: int | None
    """Wall time at which the phase under way ends at the latest."""
    settings: GroupSettings


@dataclass(frozen=True, slots=True)
class ShardOwner:
    """Who serves a shard; `node_id` and `url` are None while nobody does."""

    shard_id: int
    node_id: str | None
    url: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """A setting's value and where it comes from."""

    value: int | str | None
    source: SettingSource


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the node serves, and if not, why not."""

    is_ready: bool
    reasons: tuple[str, ...]
