"""The server of the Kafka listener: it stops whatever its connections have come to."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, ParamSpec, TypeVar, cast

import pytest

from api.kafka.limits import KafkaLimits
from api.kafka.server import KafkaServer
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from coordinator_core.queries.limits import QueryLimits
from coordinator_core.queries.runner import QueryRunner
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import running

pytestmark = pytest.mark.anyio

P = ParamSpec("P")
T = TypeVar("T")
CLIENTS: Final = 3


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Return the event loop of a node, which accepts connections in another order than asyncio's."""
    return "asyncio", {"use_uvloop": True}


class OneCluster:
    """Knows the id of the cluster."""

    limits = QueryLimits()

    async def run(self, query: Callable[P, T], /, *_arguments: object, **_keywords: object) -> str:
        del query
        return "cluster"


@pytest.mark.parametrize("turns", range(6))
async def test_clients_that_are_just_connecting_are_disconnected_when_the_node_stops(turns: int) -> None:
    async with running(MemoryStore()) as coordinator:
        node = NodeContext(coordinator, cast("QueryRunner", OneCluster()), ListenerLimits())
        with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as clients:
            server = KafkaServer(node, listener, KafkaLimits())
            await server.start()
            connected = [
                clients.enter_context(socket.create_connection(listener.getsockname())) for _ in range(CLIENTS)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.stop()

            for client in connected:
                await asyncio.to_thread(is_disconnected, client)


def is_disconnected(client: socket.socket) -> bool:
    """Wait until the node has closed a connection."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
