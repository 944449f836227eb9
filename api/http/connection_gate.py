"""Connection limits: the number of connections of a node, in total and per address.

Beyond a limit, HEALTH_CONNECTIONS connections are kept open for one health request each, so that probes and scrapes
work while other clients hold every connection. The next connection closes the oldest of them that has not sent a
complete request.

Source: Kafka's max.connections and max.connections.per.ip.
"""

import ipaddress
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from api.http.limits import HEALTH_CONNECTIONS, LOG_INTERVAL_S

log = structlog.get_logger("muster.http")

MAX_CONNECTIONS: Final = "max_connections"
MAX_CONNECTIONS_PER_IP: Final = "max_connections_per_ip"
IPV6_NETWORK_BITS: Final = 64
"""IPv6 addresses are counted by network, since one host has all addresses of its network."""

CLOSE_REASONS: Final = (MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP, "head_timeout", "body_timeout")
"""Why a node closes a connection because of a limit."""


class Connection(Protocol):
    """The part of a connection that the gate uses."""

    has_request: bool
    """Whether a complete head of a request has arrived."""

    def abort(self) -> None:
        """Close the connection at once."""


@dataclass(slots=True)
class ConnectionCounts:
    """Connection counters of a node."""

    open: int = 0
    limit: int = 0
    closed: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(CLOSE_REASONS, 0)))
    """Reason → connections that the node closed because of a limit."""


class ConnectionGate:
    """Admits connections, and counts them by address."""

    def __init__(
        self,
        max_connections: int,
        max_per_ip: int,
        counts: ConnectionCounts,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with no connections.

        Args:
            max_connections: the limit in total.
            max_per_ip: the limit per address.
            counts: the counters to update.
            now_s: a monotonic clock, in seconds.
        """
        self._max_per_ip = max_per_ip
        self._now_s = now_s
        self._counts = counts
        counts.limit = max_connections
        self._admitted: dict[Connection, bytes] = {}
        """Connection → the address under which it is counted."""
        self._per_ip: Counter[bytes] = Counter()
        self._over_limit: dict[Connection, None] = {}
        """Connections beyond a limit, the oldest first."""
        self._next_log_at_s = 0.0
        self._unlogged: Counter[str] = Counter()

    def admit(self, connection: Connection, host: str) -> bool:
        """Count a new connection.

        Args:
            connection: the new connection.
            host: the client's address; empty if it has none.

        Returns:
            Whether it is within the limits; if not, it serves one health request, and may be closed at any time.
        """
        address = _counted_address(host)
        reason = None
        if len(self._admitted) >= self._counts.limit:
            reason = MAX_CONNECTIONS
        elif self._per_ip[address] >= self._max_per_ip:
            reason = MAX_CONNECTIONS_PER_IP
        if reason is None:
            self._admitted[connection] = address
            self._per_ip[address] += 1
            self._counts.open = len(self._admitted)
            return True
        self._refuse(connection, reason, host)
        return False

    def release(self, connection: Connection) -> None:
        """Stop counting a closed connection."""
        self._over_limit.pop(connection, None)
        address = self._admitted.pop(connection, None)
        if address is not None:
            self._per_ip[address] -= 1
            if not self._per_ip[address]:
                del self._per_ip[address]
            self._counts.open = len(self._admitted)

    def timed_out(self, phase: str) -> None:
        """Count a connection that is closed because its head or body did not arrive in time."""
        self._counts.closed[f"{phase}_timeout"] += 1

    def _refuse(self, connection: Connection, reason: str, host: str) -> None:
        self._counts.closed[reason] += 1
        self._unlogged[reason] += 1
        if self._now_s() >= self._next_log_at_s:
            self._next_log_at_s = self._now_s() + LOG_INTERVAL_S
            log.warning("connections_refused", open=self._counts.open, client=host, **self._unlogged)
            self._unlogged.clear()
        self._over_limit[connection] = None
        if len(self._over_limit) > HEALTH_CONNECTIONS:
            oldest = next((each for each in self._over_limit if not each.has_request), connection)
            del self._over_limit[oldest]
            oldest.abort()


def _counted_address(host: str) -> bytes:
    """Return the address or network under which connections are counted."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host.encode()
    if isinstance(address, ipaddress.IPv4Address):
        return address.packed
    return (address.ipv4_mapped or address).packed[: IPV6_NETWORK_BITS // 8]
