"""Writes that are made together at the end of an iteration of the event loop.

A write wakes up a client that waits, which costs the node more than the rest of a heartbeat's system calls. A client
with many connections is woken up once by a batch, and finds all of its responses.
"""

import asyncio
from typing import Any, Final

LARGE_WRITE_BYTES: Final = 65_536
"""Data of this size is written at once: the transport says when its buffer is full."""


class WriteBatch:
    """The transports that have something to write, of all connections of a listener."""

    def __init__(self) -> None:
        self._transports: list[BatchedTransport] = []

    def add(self, transport: "BatchedTransport") -> None:
        """Write what a transport has when the callbacks that are ready now have run."""
        if not self._transports:
            asyncio.get_running_loop().call_soon(self._flush)
        self._transports.append(transport)

    def _flush(self) -> None:
        transports, self._transports = self._transports, []
        for transport in transports:
            try:
                transport.flush()
            except MemoryError:
                transport.abort()  # Its client asks again; the others get their responses.


class BatchedTransport(asyncio.Transport):
    """The transport of a connection, whose writes are made in a batch, in order, and before it is closed."""

    __slots__ = ("_batch", "_data", "_transport")

    def __init__(self, transport: asyncio.Transport, batch: WriteBatch) -> None:
        """Wrap a transport.

        Args:
            transport: of the connection.
            batch: of its listener.
        """
        self._transport = transport
        self._batch = batch
        self._data: list[bytes] = []

    def write(self, data: Any) -> None:  # noqa: ANN401  # bytes-like, as a transport has it
        """Write in the next batch; large data at once."""
        if not self._data:
            self._batch.add(self)
        self._data.append(data)
        if len(data) >= LARGE_WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is left, unless the connection is closed."""
        data, self._data = self._data, []
        if data and not self._transport.is_closing():
            self._transport.write(data[0] if len(data) == 1 else b"".join(data))

    def close(self) -> None:
        """Write what is left, and close the connection."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once; what the client has no room for is lost."""
        self.flush()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or closing."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Read no more from the client."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: object = None) -> Any:  # noqa: ANN401  # as a transport has it
        """Return what is known of the connection."""
        return self._transport.get_extra_info(name, default)
