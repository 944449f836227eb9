"""Connection limits: the number of connections of a node, in total and per address.

Beyond a limit, a listener may keep a few connections open for one request each, for probes and scrapes that must work
while other clients hold every connection. The next connection closes the oldest of them that has not sent a complete
request.

Source: Kafka's max.connections and max.connections.per.ip.
"""

import ipaddress
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Protocol

import structlog

log = structlog.get_logger("muster.api")

LOG_INTERVAL_S: Final = 10.0
"""The minimum time between two log events about refused connections."""

MAX_CONNECTIONS: Final = "max_connections"
MAX_CONNECTIONS_PER_IP: Final = "max_connections_per_ip"
IPV6_NETWORK_BITS: Final = 64
"""IPv6 addresses are counted by network, since one host has all addresses of its network."""


class Connection(Protocol):
    """The part of a connection that the gate uses."""

    has_request: bool
    """Whether a complete head of a request has arrived."""

    def abort(self) -> None:
        """Close the connection at once."""


class ConnectionCounts:
    """Connection counters of a listener."""

    __slots__ = ("closed", "limit", "open")

    def __init__(self, close_reasons: Sequence[str] = ()) -> None:
        """Count from 0; `close_reasons` are further reasons for which the listener closes connections."""
        self.open = 0
        self.limit = 0
        self.closed = Counter(dict.fromkeys((MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP, *close_reasons), 0))
        """Reason → connections that the node closed because of a limit."""


class ConnectionGate:
    """Admits connections, and counts them by address."""

    def __init__(
        self,
        max_connections: int,
        max_per_ip: int,
        counts: ConnectionCounts,
        spare_connections: int = 0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with no connections.

        Args:
            max_connections: the limit in total.
            max_per_ip: the limit per address.
            counts: the counters to update.
            spare_connections: how many connections beyond the limits are kept open for one request each.
            now_s: a monotonic clock, in seconds.
        """
        self._max_per_ip = max_per_ip
        self._spare_connections = spare_connections
        self._now_s = now_s
        self._counts = counts
        counts.limit = max_connections
        self._admitted: dict[Connection, str] = {}
        """Connection → the address under which it is counted."""
        self._per_ip: Counter[str] = Counter()
        self._over_limit: dict[Connection, None] = {}
        """Connections beyond a limit, the oldest first."""
        self._next_log_at_s = 0.0
        self._unlogged: Counter[str] = Counter()

    def admit(self, connection: Connection, host: str, *, is_proxy: bool = False) -> bool:
        """Count a new connection.

        Args:
            connection: the new connection.
            host: the client's address; empty if it has none.
            is_proxy: whether it is the address of a proxy, of which the limit of an address does not hold.

        Returns:
            Whether it is within the limits; if not, it may send one request, and may be closed at any time. Of a
            connection that was handed over, what was decided then.
        """
        if connection in self._admitted or connection in self._over_limit:
            return connection in self._admitted
        address = counted_address(host)
        reason = None
        if len(self._admitted) >= self._counts.limit:
            reason = MAX_CONNECTIONS
        elif not is_proxy and self._per_ip[address] >= self._max_per_ip:
            reason = MAX_CONNECTIONS_PER_IP
        if reason is None:
            self._admitted[connection] = address
            self._per_ip[address] += 1
            self._counts.open = len(self._admitted)
            return True
        self._refuse(connection, reason, host)
        return False

    def hand_over(self, connection: Connection, successor: Connection) -> None:
        """Count another connection in place of one; it is admitted if that was."""
        address = self._admitted.pop(connection, None)
        if address is not None:
            self._admitted[successor] = address
        elif connection in self._over_limit:
            del self._over_limit[connection]
            self._over_limit[successor] = None

    def release(self, connection: Connection) -> None:
        """Stop counting a closed connection."""
        self._over_limit.pop(connection, None)
        address = self._admitted.pop(connection, None)
        if address is not None:
            self._per_ip[address] -= 1
            if not self._per_ip[address]:
                del self._per_ip[address]
            self._counts.open = len(self._admitted)

    def count_closed(self, reason: str) -> None:
        """Count a connection that the listener closes because of a limit of its own."""
        self._counts.closed[reason] += 1

    def _refuse(self, connection: Connection, reason: str, host: str) -> None:
        self._counts.closed[reason] += 1
        self._unlogged[reason] += 1
        if self._now_s() >= self._next_log_at_s:
            self._next_log_at_s = self._now_s() + LOG_INTERVAL_S
            log.warning("connections_refused", open=self._counts.open, client=host, **self._unlogged)
            self._unlogged.clear()
        self._over_limit[connection] = None
        if len(self._over_limit) > self._spare_connections:
            oldest = next((each for each in self._over_limit if not each.has_request), connection)
            del self._over_limit[oldest]
            oldest.abort()


@lru_cache(maxsize=4_096)
def counted_address(host: str) -> str:
    """Return the address or network under which a client without a token is counted."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))
