"""What a node does with connections: what comes before it closes one, and how many it has and had."""

import contextlib
import socket

from tests.support.http_client import Client


def read_all(connection: socket.socket) -> bytes:
    """Return what comes until the node closes the connection."""
    parts: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):
        parts.extend(iter(lambda: connection.recv(65_536), b""))
    return b"".join(parts)


def counted(client: Client, name: str) -> float:
    """Return the value of a metric of the node."""
    lines = client.send("GET", "/metrics?detail=node").body.decode().splitlines()
    (line,) = [each for each in lines if each.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


def closed_for(client: Client, reason: str) -> float:
    """Return how many connections the node has closed for a reason."""
    return counted(client, f'muster_connections_closed_total{{reason="{reason}"}}')
