"""The ASGI application without a socket, whose queries of the database are never answered."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Concatenate, ParamSpec, TypeVar

from api.http.app import make_app
from api.http.asgi import AsgiApp
from api.http.limits import HttpLimits
from api.shared.node_context import NodeContext
from coordinator_core.queries.limits import QueryLimits
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.postgres.connections import Transaction
from tests.support.http_client import Json
from tests.support.memory_store import MemoryStore

P = ParamSpec("P")
T = TypeVar("T")


class HangingQueries:
    """Runs queries of a database that hangs."""

    limits = QueryLimits()

    def __init__(self) -> None:
        self.unanswered = asyncio.Event()
        """Set once a request waits for a result that will not come."""
        self.failure: Exception | None = None
        """Raised instead, if there is one."""

    async def run(
        self, _query: Callable[Concatenate[Transaction, P], T], /, *_arguments: P.args, **_keywords: P.kwargs
    ) -> T:
        if self.failure is not None:
            raise self.failure
        self.unanswered.set()
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        return await result

    def close(self) -> None:
        """Do nothing."""


@asynccontextmanager
async def http_server(limits: HttpLimits | None = None) -> AsyncIterator[tuple[AsgiApp, HangingQueries]]:
    """Give an application, and its queries."""
    queries = HangingQueries()
    coordinator = Coordinator(MemoryStore(), NodeConfig("a", {"http": "http://a"}))
    await coordinator.start()
    limits = limits or HttpLimits()
    app = make_app(NodeContext(coordinator, queries, limits), limits, "1")
    try:
        yield app, queries
    finally:
        await coordinator.stop()
        await app.close()


async def answer_of(app: AsgiApp, path: str, query: str = "", method: str = "GET") -> tuple[int, bytes]:
    """Return the status and the body with which a request without a body is answered."""
    sent: list[Json] = []

    async def receive() -> Json:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Json) -> None:
        sent.append(message)

    scope: Json = {
        "type": "http",
        "http_version": "1.0",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
        "client": None,
    }
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]
