"""What a group's decisions depend on besides the group: settings in force, and the topic catalogue.

Source: settings.md "Of groups"; protocol.md section 16.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS
from coordinator_core.protocol.retention import retention_ms_from_minutes

HEARTBEAT_INTERVAL_MAX_MS = 3_000
"""A third of the session timeout, but at most this, is the heartbeat interval told to members."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of one group, already narrowed: default, environment, cluster, group.

    ``None`` for a timeout means that members' own values count.
    """

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 10_000
    group_max_pending_members: int = 10_000
    group_metadata_max_bytes: int = 16_777_216
    member_metadata_max_bytes: int = 262_144
    member_assignment_max_bytes: int = 1_048_576
    group_new_member_join_timeout_ms: int = 300_000
    group_sync_timeout_scope: Literal["all", "dynamic"] = "all"
    offsets_retention_minutes: int = 10_080
    offset_metadata_max_bytes: int = 4_096

    def session_in_force_ms(self, asked_ms: int) -> int:
        """Return the session timeout of a member that asked for `asked_ms`."""
        return asked_ms if self.session_timeout_ms is None else self.session_timeout_ms

    def heartbeat_in_force_ms(self, session_ms: int) -> int:
        """Return how often a member with this session timeout should heartbeat.

        A configured interval that such a session would not survive is not told.
        """
        if self.heartbeat_interval_ms is not None and self.heartbeat_interval_ms < session_ms:
            return self.heartbeat_interval_ms
        return max(1, min(session_ms // 3, HEARTBEAT_INTERVAL_MAX_MS))

    @property
    def retention_ms(self) -> int:
        """Return the retention in milliseconds; below zero is for ever."""
        return retention_ms_from_minutes(self.offsets_retention_minutes)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings that hold for the whole cluster: default, cluster. SQL views read them from `cluster_config`.

    The environment cannot set them: nodes could differ, and the database does not know it.
    """

    log_end_max_age_ms: int = LOG_END_MAX_AGE_MS
    """The maximum age of a log end offset. A lag computed from an older one is a lower bound, and unknown where that is
    0."""


class CataloguedTopic(NamedTuple):
    """What the catalogue knows of a topic."""

    partitions: int
    version: int
    """The catalogue's version at which the count last changed."""


@dataclass(frozen=True, slots=True)
class Context:
    """Everything outside the group that a decision may look at; a value, handed in with each request."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    catalogue: Mapping[str, CataloguedTopic] = field(default_factory=lambda: MappingProxyType({}))
    """Topic → what is known of it. A topic that is absent is unknown, not missing."""
    topics_version: int = 0

    def has_partition(self, topic: str, partition: int) -> bool:
        """Tell whether a partition may exist: only beyond a known count is it known not to."""
        known = self.catalogue.get(topic)
        return known is None or partition < known.partitions


class Now(NamedTuple):
    """One moment on two clocks."""

    node_ms: int
    """Milliseconds on a clock that never steps: what deadlines are measured with."""
    wall_ms: int
    """Milliseconds since the epoch: what records carry."""
