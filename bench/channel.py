"""A connection that sends one request at a time and returns the bytes of its response."""

import asyncio
from typing import Self, cast

from bench.closed_loop import IsAnswered, connect


class Channel(asyncio.Protocol):
    """A connection, for requests one after the other."""

    def __init__(self, is_answered: IsAnswered) -> None:
        self._is_answered = is_answered
        self._transport: asyncio.Transport
        self._received = b""
        self._response: asyncio.Future[bytes] | None = None

    @classmethod
    async def connected(cls, url: str, is_answered: IsAnswered) -> Self:
        """Open a connection."""
        return await connect(url, lambda: cls(is_answered))

    async def ask(self, request: bytes) -> bytes:
        """Send a request and return its response.

        Raises:
            AssertionError: the response is an error.
            ConnectionError: the server closed the connection.
        """
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._response

    def close(self) -> None:
        """Close the connection."""
        self._transport.abort()

    # -- what the transport calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to write requests."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Complete the request when its response is complete."""
        self._received += data
        assert self._response is not None, "data without a request"
        try:
            if self._is_answered(self._received):
                response, self._received = self._received, b""
                self._response.set_result(response)
        except AssertionError as error:
            self._response.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that waits."""
        if self._response is not None and not self._response.done():
            self._response.set_exception(ConnectionError("the server closed the connection"))
