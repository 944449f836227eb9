"""Connection limits: how many connections a node holds, in all and per address, and what happens beyond that.

Of the connections beyond a limit HEALTH_CONNECTIONS are kept for the moment that it takes to ask for the node's health,
so that probes and scrapes work while other clients hold every connection. When another one comes, the oldest of them
that has not sent a whole request is closed.

Source: Kafka's max.connections and max.connections.per.ip.
"""

import ipaddress
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from api.http.limits import HEALTH_CONNECTIONS, LOG_AGAIN_S

log = structlog.get_logger("muster.http")

IN_ALL: Final = "max_connections"
PER_IP: Final = "max_connections_per_ip"
IPV6_NETWORK_BITS: Final = 64
"""IPv6 addresses are counted by their network, since one host has all addresses of it."""


CLOSED_FOR: Final = (IN_ALL, PER_IP, "head_timeout", "body_timeout")
"""Why a node closes a connection before its time."""


class Connection(Protocol):
    """What the gate needs of a connection."""

    has_request: bool
    """Whether the head of a request has arrived whole."""

    def abort(self) -> None:
        """Close the connection at once."""


@dataclass(slots=True)
class ConnectionCounts:
    """What a node counts of its connections."""

    open: int = 0
    limit: int = 0
    closed: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(CLOSED_FOR, 0)))
    """Reason → connections that the node closed before their time."""


class ConnectionGate:
    """Admits connections, and counts them by address."""

    def __init__(
        self,
        max_connections: int,
        max_per_ip: int,
        counts: ConnectionCounts,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            max_connections: how many connections there may be.
            max_per_ip: how many of them one address may hold.
            counts: where connections are counted.
            now_s: a clock that never steps, in seconds.
        """
        self._max_per_ip = max_per_ip
        self._now_s = now_s
        self._counts = counts
        counts.limit = max_connections
        self._admitted: dict[Connection, bytes] = {}
        """Connection → the address under which it is counted."""
        self._per_ip: Counter[bytes] = Counter()
        self._beyond: dict[Connection, None] = {}
        """Connections beyond a limit, the oldest first."""
        self._log_again_at_s = 0.0
        self._unlogged: Counter[str] = Counter()

    def admit(self, connection: Connection, host: str) -> bool:
        """Count a new connection.

        Args:
            connection: new.
            host: the address of its other end; empty where it has none.

        Returns:
            Whether it is within the limits; if not, it is for health alone, and may be closed at once.
        """
        address = _counted_address(host)
        reason = None
        if len(self._admitted) >= self._counts.limit:
            reason = IN_ALL
        elif self._per_ip[address] >= self._max_per_ip:
            reason = PER_IP
        if reason is None:
            self._admitted[connection] = address
            self._per_ip[address] += 1
            self._counts.open = len(self._admitted)
            return True
        self._refuse(connection, reason, host)
        return False

    def release(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._beyond.pop(connection, None)
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
        if self._now_s() >= self._log_again_at_s:
            self._log_again_at_s = self._now_s() + LOG_AGAIN_S
            log.warning("connections_refused", open=self._counts.open, client=host, **self._unlogged)
            self._unlogged.clear()
        self._beyond[connection] = None
        if len(self._beyond) > HEALTH_CONNECTIONS:
            oldest = next((each for each in self._beyond if not each.has_request), connection)
            del self._beyond[oldest]
            oldest.abort()


def _counted_address(host: str) -> bytes:
    """Return what connections of an address are counted under."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host.encode()
    if isinstance(address, ipaddress.IPv4Address):
        return address.packed
    return (address.ipv4_mapped or address).packed[: IPV6_NETWORK_BITS // 8]
