"""The inputs of a decision besides the group and the request: effective settings, topic metadata and time.

Source: settings.md "Group settings"; protocol.md section 16.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS
from coordinator_core.protocol.retention import retention_ms_from_minutes

HEARTBEAT_INTERVAL_MAX_MS = 3_000
"""The default heartbeat interval is a third of the session timeout, but at most this."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The effective settings of one group: default, environment, cluster and group, the narrowest level winning.

    ``None`` for a timeout means that the members' own values count.
    """

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 10_000
    group_max_pending_members: int = 10_000
    group_max_offsets: int = 1_000_000
    group_metadata_max_bytes: int = 16_777_216
    member_metadata_max_bytes: int = 262_144
    member_assignment_max_bytes: int = 1_048_576
    group_new_member_join_timeout_ms: int = 300_000
    group_sync_timeout_scope: Literal["all", "dynamic"] = "all"
    offsets_retention_minutes: int = 10_080
    offset_metadata_max_bytes: int = 4_096

    def effective_session_timeout_ms(self, requested_ms: int) -> int:
        """Return the effective session timeout of a member that requested `requested_ms`."""
        return requested_ms if self.session_timeout_ms is None else self.session_timeout_ms

    def effective_heartbeat_interval_ms(self, session_ms: int) -> int:
        """Return the heartbeat interval for a member with this session timeout.

        A configured interval that is not below the session timeout is ignored.
        """
        if self.heartbeat_interval_ms is not None and self.heartbeat_interval_ms < session_ms:
            return self.heartbeat_interval_ms
        return max(1, min(session_ms // 3, HEARTBEAT_INTERVAL_MAX_MS))

    @property
    def retention_ms(self) -> int:
        """Return the retention in milliseconds; a negative value means unlimited."""
        return retention_ms_from_minutes(self.offsets_retention_minutes)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings of the whole cluster: default, cluster. SQL views read them from `cluster_configs`.

    The environment cannot set them: nodes could differ, and the database would not know.
    """

    log_end_max_age_ms: int = LOG_END_MAX_AGE_MS
    """The maximum age of a log end offset. A lag computed from an older one is a lower bound, and unknown where that is
    0."""


class TopicMetadata(NamedTuple):
    """The metadata of one topic."""

    partitions: int
    version: int
    """The version of the topic metadata at which the count last changed."""


@dataclass(frozen=True, slots=True)
class Context:
    """Everything outside of the group that a decision may read; a value, passed with each request."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    topic_metadata: Mapping[str, TopicMetadata] = field(default_factory=lambda: MappingProxyType({}))
    """Topic → its metadata. An absent topic is unknown, which does not mean that it does not exist."""
    topics_version: int = 0
    deleted_topics: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Topic without metadata → the version at which its metadata was found to be deleted."""

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether a partition may exist: False if it is negative, or at or above a known partition count."""
        known = self.topic_metadata.get(topic)
        return partition >= 0 and (known is None or partition < known.partitions)


class Now(NamedTuple):
    """The current time on two clocks."""

    node_ms: int
    """Milliseconds on a monotonic clock: deadlines are measured with it."""
    wall_ms: int
    """Milliseconds since the epoch: records carry it."""
