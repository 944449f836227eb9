"""Links between processes: TCP proxies that can delay bytes, or swallow them without closing a connection."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"
CHUNK_BYTES = 65_536


class Link:
    """Passes the bytes of connections on to a server; usable from any thread."""

    def __init__(self, server_port: int, host: str = HOST, port: int = 0) -> None:
        """Listen.

        Args:
            server_port: the port of the server, on 127.0.0.1.
            host: the address to listen on.
            port: the port to listen on; 0: a free one.
        """
        self.delay_s = 0.0
        """How long each chunk of bytes takes on top, in either direction."""
        self._server_port = server_port
        self._is_silent = False
        self._accepted = 0
        self._last_silent = 0
        """The number of the last connection that stays silent for ever."""
        self._connections: dict[int, asyncio.Task[None] | None] = {}
        """Keeps the tasks of connections, of which asyncio has weak references only."""
        self._listener = socket.create_server((host, port))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"link-{self.port}")

    @contextmanager
    def running(self) -> Iterator["Link"]:
        """Pass on for the time of the block; at its end close every connection."""
        self._thread.start()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def fall_silent(self) -> None:
        """Swallow all bytes from now on, also those of new connections, and acknowledge them."""
        self._is_silent = True

    def restore(self) -> None:
        """Pass on without a delay; connections that there are keep swallowing, as after a firewall forgot them."""
        self.delay_s = 0.0
        if self._is_silent:
            self._last_silent = self._accepted
            self._is_silent = False

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connect, sock=self._listener))
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.set_exception_handler(lambda *_: None)  # asyncio reports each cancelled task of a connection.
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))  # Aborted transports close in the next turn.
        self._loop.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted += 1
        number = self._accepted
        self._connections[number] = asyncio.current_task()
        try:
            server_reader, server_writer = await asyncio.open_connection(HOST, self._server_port)
        except OSError:
            del self._connections[number]
            writer.close()
            return
        ways = [
            asyncio.create_task(self._pass_on(number, reader, server_writer)),
            asyncio.create_task(self._pass_on(number, server_reader, writer)),
        ]
        try:
            await asyncio.wait(ways)
        finally:
            for one in (writer, server_writer):
                one.transport.abort()
            del self._connections[number]

    async def _pass_on(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on the bytes of one side until it ends; an end that is swallowed is passed on by nothing."""
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if not self._swallows(number):
                    writer.write(data)
                    await writer.drain()
        if not self._swallows(number):
            with suppress(OSError, RuntimeError):
                writer.write_eof()

    def _swallows(self, number: int) -> bool:
        return self._is_silent or number <= self._last_silent
