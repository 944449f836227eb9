"""What only a node with the Kafka listener has: the listener's address, limits, and server."""

# ruff: noqa: PLC0415 - kio is loaded by nodes with the listener only

import socket
from typing import TYPE_CHECKING

from api.kafka import LISTENER
from api.shared.node_context import NodeContext
from api.shared.trusted_proxies import TrustedProxies
from muster.errors import USAGE_EXIT_CODE, UserError
from muster.node.limits import kafka_limits
from muster.settings import ANY_ADDRESS, Settings

if TYPE_CHECKING:
    from api.kafka.server import KafkaServer


def addresses(settings: Settings) -> dict[str, str]:
    """Return the address of the listener by its name; nothing if the node has none.

    Raises:
        UserError: clients could not connect to it.
    """
    if settings.kafka_port is None:
        return {}
    if settings.kafka_advertised is None and settings.kafka_host in ANY_ADDRESS:
        raise UserError(
            f"MUSTER_KAFKA_HOST is {settings.kafka_host}, which is no address for clients: set MUSTER_KAFKA_ADVERTISED"
            " to the host:port at which they reach this node.",
            USAGE_EXIT_CODE,
        )
    return {LISTENER: settings.kafka_address}


def make_server(node: NodeContext, settings: Settings, listener: socket.socket) -> "KafkaServer":
    """Return the server of the listener.

    Raises:
        UserError: its package is not installed.
    """
    try:
        from api.kafka.server import KafkaServer
    except ModuleNotFoundError as failure:
        raise UserError(
            f"The Kafka listener needs the package {failure.name}: install Muster's extra `kafka`."
        ) from None
    proxies = TrustedProxies(settings.trusted_proxies) if settings.kafka_proxy_protocol else None
    return KafkaServer(node, listener, kafka_limits(settings, node.limits), proxies)


async def start(server: "KafkaServer | None") -> None:
    """Start the server of the listener, if there is one; raises CoordinatorNotAvailable without a database."""
    if server is not None:
        await server.start()
