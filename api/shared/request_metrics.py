"""Request metrics of a node: durations and errors of the requests of all listeners, by the name of the request."""

from collections import Counter
from typing import Final

from api.shared.connection_gate import ConnectionCounts
from api.shared.errors import NO_ERROR
from coordinator_core.protocol.errors import FencedInstanceId, IllegalGeneration, UnknownMemberId
from coordinator_core.runtime.counters import PARKED_S, Distribution

STALE_MEMBER_CODES: Final = (UnknownMemberId.code, IllegalGeneration.code, FencedInstanceId.code)
"""Errors of commits that are exported from 0 on: Prometheus sees no increase when a series appears."""

CLIENT_REQUESTS: Final = "client_quota_requests_per_s"
CLIENT_BYTES: Final = "client_quota_bytes_per_s"
GROUP_REQUESTS: Final = "group_quota_requests_per_s"
GROUP_BYTES: Final = "group_quota_bytes_per_s"
WAITING: Final = "max_waiting_requests_per_client"
LIMITS: Final = (CLIENT_REQUESTS, CLIENT_BYTES, GROUP_REQUESTS, GROUP_BYTES, WAITING)
"""The limits that refuse requests with THROTTLING_QUOTA_EXCEEDED, each by the name of its setting."""


class ListenerMetrics:
    """Counters of one listener beside that of HTTP."""

    def __init__(self, connections: ConnectionCounts) -> None:
        self.connections = connections
        self.requests: Counter[tuple[str, str]] = Counter()
        """(request, Kafka's name of the error, or NONE) → requests answered."""
        self.received_bytes = 0
        self.sent_bytes = 0


class RequestMetrics:
    """Request counters of a node."""

    def __init__(self) -> None:
        self.times_s: dict[str, Distribution] = {}
        """Request → the durations of its responses."""
        self.errors: Counter[tuple[str, str]] = Counter({("OffsetCommit", code): 0 for code in STALE_MEMBER_CODES})
        """(request, Kafka's name of the error) → number of errors."""

        self.throttled: Counter[str] = Counter(dict.fromkeys(LIMITS, 0))
        """Limit of each client or group → requests that it refused."""
        self.listeners: dict[str, ListenerMetrics] = {}
        """Listener → its own counters, for listeners beside that of HTTP."""

    def count(self, request: str, code: str, took_s: float) -> None:
        """Count a response; `code` is NONE or the name of the error."""
        times_s = self.times_s.get(request)
        if times_s is None:
            times_s = self.times_s[request] = Distribution(PARKED_S)
        times_s.add(took_s)
        if code != NO_ERROR:
            self.errors[request, code] += 1
