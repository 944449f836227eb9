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
OPAQUE_READERS_MAX = 100_000
"""Members of type "consumer" that read base64, as far as a node remembers them."""
REPLAYS_MAX = 10_000
"""Answers to changes that a node remembers by their idempotency keys."""
DETAIL_MAX_CHARS = 500
RETRY_AFTER_S = 1
"""What 503 and 429 ask a caller to wait."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits that a node can be given."""

    max_body_bytes: int = 8_388_608
    """How large a request's body may be."""
    max_partitions_per_request: int = 10_000
    """How many partitions one commit, query or reset may name."""
    request_timeout_ms: int = 2_000
    """How long a request may take that is no long poll."""
    max_forward_connections: int = 64
    """How many requests, long polls aside, may be on their way to one other node."""
    lag_lookback_ms: int = 86_400_000
    """How old reports of a log's end may be, to say since when a group is behind."""
    max_lag_points: int = 1_000
    """How many points one history of a group's lag may have."""
    max_lag_positions: int = 50_000
    """How many positions one history of a group's lag may rest on, a partition and step each."""
