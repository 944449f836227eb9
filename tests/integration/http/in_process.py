"""The ASGI application without a socket, with a coordinator whose database can stop answering."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from api.http.app import make_app
from api.http.asgi import AsgiApp
from api.http.limits import HttpLimits
from coordinator_core.runtime.clock import SystemThreads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.store.memory import MemoryStore
from tests.support.http_client import Json

T = TypeVar("T")


class Reads(SystemThreads):
    """Threads whose reads return until the database hangs, and never afterwards."""

    def __init__(self) -> None:
        super().__init__(readers=1)
        self.is_silent = False
        self.unanswered = asyncio.Event()
        """Set once a request waits for a response that will not come."""

    def read(self, call: Callable[[], T]) -> asyncio.Future[T]:
        if not self.is_silent:
            return super().read(call)
        self.unanswered.set()
        return asyncio.get_running_loop().create_future()


@asynccontextmanager
async def http_server(limits: HttpLimits | None = None) -> AsyncIterator[tuple[AsgiApp, Reads]]:
    """Give an application, and what its reads of the database go through."""
    reads = Reads()
    coordinator = Coordinator(MemoryStore(), NodeConfig("a", "http://a"), threads=reads)
    await coordinator.start()
    app = make_app(coordinator, limits or HttpLimits(), "1")
    try:
        yield app, reads
    finally:
        await coordinator.stop()
        await app.close()


async def answer_of(app: AsgiApp, path: str, query: str = "") -> tuple[int, bytes]:
    """Return the status and the body with which a GET is answered."""
    sent: list[Json] = []

    async def receive() -> Json:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Json) -> None:
        sent.append(message)

    scope: Json = {
        "type": "http",
        "http_version": "1.0",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
        "client": None,
    }
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]
