"""Values that the coordinator returns to listeners: groups, members, owners, settings, readiness."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from coordinator_core.protocol.consumer_protocol import TopicPartitions
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.protocol.states import GroupState

SettingSource = Literal["default", "environment", "cluster", "group"]


@dataclass(frozen=True, slots=True)
class MemberView:
    """The current state of a member."""

    member: Member
    subscription: bytes
    """Its metadata for the chosen protocol; empty while none is chosen."""
    last_heartbeat_at_ms: int | None
    """Wall time of the last request that restarted the session; None before the first."""
    parked_request: Literal["join", "sync"] | None
    """The member's parked request: the member is ready, and waits for others."""
    missing_request: Literal["join", "sync"] | None
    """The member's request that the group waits for."""
    owned: tuple[TopicPartitions, ...] | None
    """The partitions that the member owns, by topic; during a rebalance those that it owned last. None: not known, as
    its assignment cannot be read."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """The current state of a group. A Dead group has no members and generation 0."""

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
    """Wall time of the phase's deadline; None outside of a rebalance."""
    settings: GroupSettings


@dataclass(frozen=True, slots=True)
class ShardOwner:
    """The owner of a shard; without one `node_id` is None and `listeners` is empty."""

    shard_id: int
    node_id: str | None
    listeners: Mapping[str, str]
    """Listener → its address."""
    epoch: int


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A setting's value and its source."""

    value: int | str | None
    source: SettingSource


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the node can serve, with reasons or notices as sentences."""

    is_ready: bool
    reasons: tuple[str, ...]
