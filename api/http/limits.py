"""Limits of the HTTP API: the fixed ones as constants, the configurable ones in `HttpLimits`."""

from dataclasses import dataclass

GROUP_ID_MAX_CHARS = 255
TOPIC_MAX_CHARS = 249
CLIENT_ID_MAX_CHARS = 200
INSTANCE_ID_MAX_CHARS = 200
MEMBER_ID_MAX_CHARS = 255
PROTOCOL_NAME_MAX_CHARS = 255
REASON_MAX_CHARS = 1_000
ACTOR_MAX_CHARS = 200
REQUEST_ID_MAX_CHARS = 128
PROTOCOLS_MAX = 100
LEAVING_MEMBERS_MAX = 10_000
PAGE_MAX = 1_000
HEAD_MAX_BYTES = 65_536
"""How much of a request is read before the end of its headers."""
HEALTH_CONNECTIONS = 16
"""Connections beyond the limits that are kept open briefly, for health requests."""
HEALTH_HEAD_TIMEOUT_MS = 1_000
"""How long the head of a request may take on such a connection."""
LOG_INTERVAL_S = 10.0
"""The minimum time between two log events about refused connections."""
REPLAY_WINDOW = 65_536
"""How many later requests of the same sender may overtake a forwarded request."""
BASE64_MEMBERS_MAX = 100_000
"""How many members that use base64 a node remembers."""
IDEMPOTENCY_CACHE_MAX = 10_000
"""How many responses to changes with an idempotency key a node remembers."""
HOST_CACHE_MAX = 1_000
"""How many checked Host headers a node remembers."""
DETAIL_MAX_CHARS = 500
RETRY_AFTER_S = 1
"""Retry-After of 429 and 503."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The configurable limits of a node."""

    max_body_bytes: int = 8_388_608
    """The maximum size of a request body."""
    max_large_bodies_bytes: int = 67_108_864
    """The maximum total size of the bodies over 64 KiB of all requests in progress."""
    max_partitions_per_request: int = 10_000
    """The maximum number of partitions in one commit, query or reset."""
    request_timeout_ms: int = 2_000
    """The timeout of a request other than a long poll."""
    head_timeout_ms: int = 10_000
    """The timeout for the head of a request to arrive, and for its first byte on a new connection."""
    body_timeout_ms: int = 30_000
    """The timeout for the body of a request to arrive."""
    send_timeout_ms: int = 30_000
    """How long a client may leave a response unread before the connection is closed."""
    keep_alive_s: int = 75
    """How long an idle connection is kept open."""
    max_connections: int = 8_000
    """The maximum number of client connections."""
    max_connections_per_ip: int | None = None
    """The maximum number of them from one address; None: half of `max_connections`."""
    max_forward_connections: int = 64
    """The maximum number of requests, other than long polls, in progress to one other node."""
    forward_max_age_ms: int = 30_000
    """The maximum age of a forwarded request, and the maximum difference between the clocks of two nodes."""
    lag_lookback_ms: int = 86_400_000
    """How old log end reports may be from which time lag is computed."""
    max_lag_points: int = 1_000
    """The maximum number of points in one lag history."""
    max_lag_positions: int = 50_000
    """The maximum number of committed offsets that one lag history reads, one per partition and step."""

    @property
    def connections_per_ip(self) -> int:
        """Return the maximum number of connections from one address."""
        return self.max_connections_per_ip or max(1, self.max_connections // 2)
