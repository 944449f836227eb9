"""The socket side: uvicorn with httptools on a socket that is bound already; it stops when it is told, not by signals.

Stopping is in this order: new requests are told to ask elsewhere, whoever is parked gets a retriable error (the
coordinator's part), answers under way go out, connections are closed.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.http.edge import WHOLE_ANSWER, Edge
from api.http.limits import HEAD_MAX_BYTES
from api.http.problems import PROBLEM_JSON, refusal
from coordinator_core.protocol.errors import InvalidRequest

BACKLOG: Final = 2_048
"""How many connections may wait to be accepted."""
KEEP_ALIVE_S: Final = 75
"""How long an idle connection is kept open: longer than agents pause between two heartbeats."""
FAREWELL_S: Final = 2
"""How long answers under way may take to go out at the end."""


class HttpServer:
    """Serves one application on one socket."""

    def __init__(self, app: Edge, listener: socket.socket) -> None:
        """Prepare; `listener` is bound, and closed at the end."""
        config = uvicorn.Config(
            app,
            http=_ProblemProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=FAREWELL_S,
        )
        self._app = app
        self._listener = listener
        self._uvicorn = _Uvicorn(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to accept; when this returns, requests are answered."""
        self._serving = asyncio.create_task(self._uvicorn.serve(sockets=[self._listener]), name="muster-http")
        listening = asyncio.create_task(self._uvicorn.listening.wait())
        await asyncio.wait({self._serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            listening.cancel()
            await self._serving

    def refuse_requests(self) -> None:
        """Tell every new request to ask again elsewhere."""
        self._app.close()

    async def stop(self) -> None:
        """Let answers under way go out, then close every connection."""
        assert self._serving is not None
        self._uvicorn.should_exit = True
        await self._serving
        await self._app.end()


class _Uvicorn(uvicorn.Server):
    """A server that says when it listens, and leaves signals to the node."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _OneWrite:
    """A connection on which an answer's head waits for its body, so that both leave in one write.

    uvicorn writes them one after the other, and each write is a call into the kernel that wakes the caller up: two of
    them cost a heartbeat a sixth of its time.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: bytes | None = None
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a transport has
        return getattr(self._transport, name)

    def hold(self) -> None:
        """Let the next write wait for the one after it."""
        self._held = b""

    def write(self, data: bytes) -> None:
        """Write, or keep what is held back for the next time."""
        held = self._held
        if held is None:
            self._transport.write(data)
        elif not held:
            self._held = data
        else:
            self._held = None
            self._transport.write(held + data)

    def close(self) -> None:
        """Write what is held back, and close."""
        if self._held:
            self._transport.write(self._held)
        self._held = None
        self._transport.close()


class _ProblemProtocol(HttpToolsProtocol):
    """HTTP as httptools reads it; what cannot be read at all is refused as everything else is."""

    _is_in_head = False
    _head_bytes = 0

    def on_message_begin(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._one_write = _OneWrite(transport)
        super().connection_made(cast("asyncio.Transport", self._one_write))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()
        self.scope["extensions"] = {WHOLE_ANSWER: self._one_write.hold}  # type: ignore[dict-item]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX_BYTES:
                self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        body = refusal(InvalidRequest(f"this is not HTTP, or its path or headers are over {HEAD_MAX_BYTES} bytes")).body
        head = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (
            PROBLEM_JSON,
            len(body),
        )
        self.transport.write(head + body)
        self.transport.close()
