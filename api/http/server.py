"""The socket side: uvicorn with httptools on a socket that is bound already; it stops when it is told, not by signals.

Stopping is in this order: new requests are told to ask elsewhere, whoever is parked gets a retriable error (the
coordinator's part), answers under way go out, connections are closed.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final, cast

import uvicorn
from litestar.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from api.http.edge import WHOLE_ANSWER, Edge, Headers
from api.http.limits import HEAD_MAX_BYTES
from api.http.problems import PROBLEM_JSON, refusal
from coordinator_core.protocol.errors import InvalidRequest

BACKLOG: Final = 2_048
"""How many connections may wait to be accepted."""
FAREWELL_S: Final = 2
"""How long answers under way may take to go out at the end."""


class HttpServer:
    """Serves one application on one socket."""

    def __init__(self, app: Edge, listener: socket.socket, keep_alive_s: int) -> None:
        """Prepare.

        Args:
            app: answers.
            listener: bound, and closed at the end.
            keep_alive_s: how long an idle connection is kept open.
        """
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
            timeout_keep_alive=keep_alive_s,
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


def send_whole(send: Send, status: int, headers: Headers, body: bytes) -> bool:
    """Send an answer of which nothing is missing, head and body in one write, and end the request.

    uvicorn takes an answer in two calls, and writes twice, which wakes the caller up twice; that costs a heartbeat a
    fifth of its time. What is not the ordinary course is left to it: a connection that ends with this answer, one that
    takes no more for now, a HEAD, or a header that is none.

    Args:
        send: the request's own, as uvicorn gave it to the application.
        status: of the answer.
        headers: all of them but the server's own.
        body: the whole of it.

    Returns:
        Whether it was sent; if not, nothing has happened.
    """
    cycle: RequestResponseCycle = send.__self__  # type: ignore[attr-defined]  # uvicorn gives a method of the request
    if not cycle.keep_alive or cycle.disconnected or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
        return False
    all_headers = (*cycle.default_headers, *headers)
    head = b"%b%b" % (STATUS_LINE[status], b"".join([b"%b: %b\r\n" % header for header in all_headers]))
    if not head.count(b"\r") == head.count(b"\n") == 1 + len(all_headers):
        return False
    cycle.transport.write(b"%b\r\n%b" % (head, body))
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True


# ASGI wants a dictionary for each extension; this one is between the edge and the server alone. It knows no request:
# one that could be reached from its own scope would be garbage that only the collector finds.
EXTENSIONS: Final = cast("dict[str, dict[object, object]]", {WHOLE_ANSWER: send_whole})


class _ProblemProtocol(HttpToolsProtocol):
    """HTTP as httptools reads it; what cannot be read at all is refused as everything else is."""

    _is_in_head = False
    _head_bytes = 0

    def on_message_begin(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_begin()
        self.scope["extensions"] = EXTENSIONS

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

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
