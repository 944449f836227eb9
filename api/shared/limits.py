"""Limits that all listeners share: the fixed ones as constants, the configurable ones in `ListenerLimits`."""

from dataclasses import dataclass, field

from api.shared.quotas import QuotaLimits

GROUP_ID_MAX_CHARS = 255
MIRRORED_GROUP_ID_MAX_CHARS = 1_000
"""Of the groups of a mirror, which are only read."""
TOPIC_MAX_CHARS = 249
PARTITION_COUNT_MAX = 100_000
"""The highest partition count that operators may store: Metadata of Kafka's clients lists each partition."""
CLIENT_ID_MAX_CHARS = 200
INSTANCE_ID_MAX_CHARS = 249
"""As Kafka's."""
MEMBER_ID_MAX_CHARS = 286
"""The longest instance id, a hyphen and a UUID."""
PROTOCOL_NAME_MAX_CHARS = 255
REASON_MAX_CHARS = 1_000
ACTOR_MAX_CHARS = 200
PROTOCOLS_MAX = 100
LEAVING_MEMBERS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The configurable limits that every listener of a node has."""

    max_large_bodies_bytes: int = 67_108_864
    """The maximum total size of the bodies over 64 KiB of all requests in progress."""
    max_large_bodies_bytes_per_s: int = 2_097_152
    """How many bytes of bodies over 64 KiB the node begins to answer a second."""
    max_partitions_per_request: int = 10_000
    """The maximum number of partitions in one commit, query or reset."""
    max_metadata_per_commit: int = 1_048_576
    """The maximum number of characters of metadata of all offsets of one commit."""
    request_timeout_ms: int = 2_000
    """The timeout of a request other than a long poll."""
    handshake_timeout_ms: int = 10_000
    """The timeout of the handshake of a connection with TLS."""
    send_timeout_ms: int = 30_000
    """How long a client may leave a response unread before the connection is closed."""
    max_connections: int = 8_000
    """The maximum number of client connections."""
    max_connections_per_ip: int | None = None
    """The maximum number of them from one address; None: half of `max_connections`."""

    quotas: QuotaLimits = field(default_factory=QuotaLimits)
    """The limits of each client and of each group."""

    @property
    def connections_per_ip(self) -> int:
        """Return the maximum number of connections from one address."""
        return self.max_connections_per_ip or max(1, self.max_connections // 2)
