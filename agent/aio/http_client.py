"""HTTP over aiohttp. Another task can abort a request, which ends a long poll at once."""

from __future__ import annotations

import asyncio
import ssl
from io import BytesIO
from typing import Final

import aiohttp

from agent.core.runtime import HttpRequest, HttpResponse, NoResponse

CONNECTIONS_MAX: Final = 4
"""Maximum number of nodes that one client keeps sockets to."""


class AiohttpClient:
    """The `HttpClient` of one task; its session begins with the first request."""

    def __init__(self, ssl_context: ssl.SSLContext | None) -> None:
        self._ssl_context = ssl_context
        self._session: aiohttp.ClientSession | None = None
        self._sending: asyncio.Future[HttpResponse] | None = None
        self._is_aborted = False

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and await its response; see `HttpClient`."""
        if self._is_aborted:
            raise NoResponse("the request was aborted", was_connected=True)
        self._sending = asyncio.ensure_future(self._exchange(request))
        try:
            # Waited for, not awaited, since an abort cancels the request and not the task that has sent it.
            await asyncio.wait((self._sending,))
        except asyncio.CancelledError:
            self._sending.cancel()
            raise
        sending, self._sending = self._sending, None
        if sending.cancelled():
            raise NoResponse("the request was aborted", was_connected=True)
        return sending.result()

    def abort(self) -> None:
        """End the current request, from any task; the client cannot be used again."""
        self._is_aborted = True
        if self._sending is not None:
            self._sending.cancel()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _exchange(self, request: HttpRequest) -> HttpResponse:
        connect_s, response_s = request.connect_timeout_ms / 1000, request.timeout_ms / 1000
        content = None if request.content is None else BytesIO(request.content)  # aiohttp warns of large bytes.
        timeout = aiohttp.ClientTimeout(total=connect_s + response_s, sock_connect=connect_s, sock_read=response_s)
        try:
            async with self._open_session().request(
                request.method,
                request.url,
                data=content,
                headers=request.headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                return HttpResponse(response.status, response.reason or "", response.headers, await response.read())
        except (aiohttp.ClientError, TimeoutError) as problem:
            was_connected = not isinstance(problem, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError))
            raise NoResponse(_reason(problem), was_connected=was_connected) from problem

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=self._ssl_context or True)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


def _reason(problem: Exception) -> str:
    """Return the operating system's message if there is one."""
    if isinstance(problem, aiohttp.ClientConnectorError):
        return str(problem.os_error)
    return str(problem) or "timed out"
