"""Limits of HTTP alone: the fixed ones as constants, the configurable ones in `HttpLimits`."""

from dataclasses import dataclass

from api.shared.limits import ListenerLimits

REQUEST_ID_MAX_CHARS = 128
PAGE_MAX = 1_000
LONG_PAGE_MAX = 10_000
"""The same for lists of members, partitions and topics, which most clients need as a whole."""
HEAD_MAX_BYTES = 65_536
"""How much of a request is read before the end of its headers."""
HEALTH_CONNECTIONS = 16
"""Connections beyond the limits that are kept open briefly, for health requests."""
HEALTH_HEAD_TIMEOUT_MS = 1_000
"""How long the head of a request may take on such a connection."""
REPLAY_WINDOW = 65_536
"""How many later requests of the same sender may overtake a forwarded request."""
BASE64_MEMBERS_MAX = 100_000
"""How many members that use base64 a node remembers."""
IDEMPOTENCY_CACHE_MAX = 10_000
"""How many responses to changes with an idempotency key a node remembers."""
IDEMPOTENCY_CACHE_BODY_MAX_BYTES = 10_000
"""The size of the largest of them; larger ones are read from the database, should the request be repeated."""
HOST_CACHE_MAX = 1_000
"""How many checked Host headers a node remembers."""
DETAIL_MAX_CHARS = 500
RETRY_AFTER_S = 1
"""Retry-After of 429 and 503."""


@dataclass(frozen=True, slots=True)
class HttpLimits(ListenerLimits):
    """The configurable limits of HTTP, with those of all listeners."""

    max_body_bytes: int = 8_388_608
    """The maximum size of a request body."""
    head_timeout_ms: int = 10_000
    """The timeout for the head of a request to arrive, and for its first byte on a new connection."""
    body_timeout_ms: int = 30_000
    """The timeout for the body of a request to arrive."""
    keep_alive_s: int = 75
    """How long an idle connection is kept open."""
    max_forward_connections: int = 64
    """The maximum number of requests, other than long polls, in progress to one other node."""
    forward_max_age_ms: int = 30_000
    """The maximum age of a forwarded request, and the maximum difference between the clocks of two nodes."""
    max_group_series: int = 50_000
    """The maximum number of series of each per-group metric in one scrape, without that of the rest."""
