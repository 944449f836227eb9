"""Limits of the Kafka listener."""

from dataclasses import dataclass

from api.shared.limits import LEAVING_MEMBERS_MAX, ListenerLimits


@dataclass(frozen=True, slots=True)
class KafkaLimits(ListenerLimits):
    """The limits of the listener, beside those of all listeners."""

    max_frame_bytes: int = 8_388_608
    """The maximum size of a request."""
    frame_timeout_ms: int = 10_000
    """How long a request may take to arrive, and the first one after the connection is made."""
    keep_alive_s: int = 600
    """How long a connection may be idle."""

    @property
    def max_items(self) -> int:
        """Return the maximum number of items in all lists of a request: each partition may have a topic of its own."""
        return 2 * max(self.max_partitions_per_request, LEAVING_MEMBERS_MAX)
