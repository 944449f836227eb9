"""Free ports for the servers that tests start."""

from itertools import islice
from random import Random
from typing import Final

from muster.local.ports import is_free_port

SERVER_PORTS: Final = range(9_100, 15_000)
"""Neither a default port of Muster, nor one of embedded Postgres, nor one that the kernel gives to clients.

A client that keeps trying a client port while its server is down can come to connect to itself.
"""


def free_port() -> int:
    """Return a port on which nothing listens."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return different ports on which nothing listens."""
    candidates = Random().sample(SERVER_PORTS, len(SERVER_PORTS))
    return list(islice((port for port in candidates if is_free_port("127.0.0.1", port)), count))


def free_consecutive_ports(count: int) -> int:
    """Return the first of so many ports in a row on which nothing listens."""
    first_ports = Random().sample(SERVER_PORTS[: -count + 1], len(SERVER_PORTS) - count + 1)
    return next(first for first in first_ports if all(is_free_port("127.0.0.1", first + i) for i in range(count)))
