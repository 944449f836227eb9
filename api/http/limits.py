"""Every limit of the HTTP front door has its name here; what a node may set comes in as `HttpLimits`."""

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
LEAVERS_MAX = 10_000
PAGE_MAX = 1_000
HEAD_MAX_BYTES = 65_536
"""How much of a request is read while its headers have not ended."""
HEALTH_CONNECTIONS = 16
"""Connections beyond the limits that are kept for a moment, to ask for the node's health."""
HEALTH_HEAD_TIMEOUT_MS = 1_000
"""How long the head of a request may take on such a connection."""
LOG_AGAIN_S = 10.0
"""How often the log says at most that connections are refused."""
MARK_WINDOW = 65_536
"""How many requests that one node has forwarded to another may overtake one of them."""
OPAQUE_READERS_MAX = 100_000
"""Members of type "consumer" that read base64, as far as a node remembers them."""
REPLAYS_MAX = 10_000
"""Answers to changes that a node remembers by their idempotency keys."""
HOSTS_REMEMBERED_MAX = 1_000
"""Host headers that a node remembers to have checked."""
DETAIL_MAX_CHARS = 500
RETRY_AFTER_S = 1
"""What 503 and 429 ask a caller to wait."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits that a node can be given."""

    max_body_bytes: int = 8_388_608
    """How large a request's body may be."""
    max_large_bodies_bytes: int = 67_108_864
    """How large all bodies over 64 KiB may be together that are read or wait for their answers."""
    max_partitions_per_request: int = 10_000
    """How many partitions one commit, query or reset may name."""
    request_timeout_ms: int = 2_000
    """How long a request may take that is no long poll."""
    head_timeout_ms: int = 10_000
    """How long the head of a request may take to arrive, or its first byte on a new connection."""
    body_timeout_ms: int = 30_000
    """How long the body of a request may take to arrive."""
    send_timeout_ms: int = 30_000
    """How long a client may leave an answer unread before the connection is closed."""
    keep_alive_s: int = 75
    """How long an idle connection is kept open."""
    max_connections: int = 8_000
    """How many connections of clients there may be."""
    max_connections_per_ip: int | None = None
    """How many of them one address may hold; None: half of them."""
    max_forward_connections: int = 64
    """How many requests, long polls aside, may be on their way to one other node."""
    forward_max_age_ms: int = 30_000
    """How old a forwarded request may be, and how far the clocks of two nodes may differ."""
    lag_lookback_ms: int = 86_400_000
    """How old reports of a log's end may be, to say since when a group is behind."""
    max_lag_points: int = 1_000
    """How many points one history of a group's lag may have."""
    max_lag_positions: int = 50_000
    """How many positions one history of a group's lag may rest on, a partition and step each."""

    @property
    def connections_per_ip(self) -> int:
        """Return how many connections one address may hold."""
        return self.max_connections_per_ip or max(1, self.max_connections // 2)
