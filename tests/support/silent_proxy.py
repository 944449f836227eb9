"""A TCP proxy that stops forwarding without closing connections, as a hanging server does."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

CHUNK_BYTES = 65_536


class SilentProxy:
    """Passes bytes both ways until `fall_silent`; later connections wait without end."""

    def __init__(self, url: str) -> None:
        """Listen; `url` is that of the server, of which only host and port are replaced."""
        self._parts = urlsplit(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._ear, self._mouth = socket.socketpair()
        """Ends the thread."""
        self._thread = threading.Thread(target=self._pass_on, name="silent-proxy")

    @property
    def url(self) -> str:
        """The server's address by way of the proxy."""
        user, _, _ = self._parts.netloc.rpartition("@")
        return urlunsplit(self._parts._replace(netloc=f"{user}@127.0.0.1:{self._listener.getsockname()[1]}"))

    @contextmanager
    def running(self) -> Iterator["SilentProxy"]:
        """Pass on for the time of the block; with its end every connection is closed."""
        self._thread.start()
        try:
            yield self
        finally:
            self.fall_silent()
            for each in (*self._sockets, self._ear, self._mouth):
                each.close()

    def fall_silent(self) -> None:
        """Stop passing bytes on; when this returns, none are in transit."""
        self._mouth.send(b".")
        self._thread.join()

    def _pass_on(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._ear:
                        return
                    if key.fileobj is self._listener:
                        self._connect(selector)
                    elif not _passed(key):
                        selector.unregister(key.fileobj)

    def _connect(self, selector: selectors.BaseSelector) -> None:
        caller, _ = self._listener.accept()
        server = socket.create_connection((self._parts.hostname or "", self._parts.port or 0))
        self._sockets += [caller, server]
        selector.register(caller, selectors.EVENT_READ, server)
        selector.register(server, selectors.EVENT_READ, caller)


def _passed(key: selectors.SelectorKey) -> bool:
    """Pass on the bytes of one side; return whether it may send more."""
    assert isinstance(key.fileobj, socket.socket)
    try:
        said = key.fileobj.recv(CHUNK_BYTES)
        if said:
            key.data.sendall(said)
        else:
            key.data.shutdown(socket.SHUT_WR)
    except OSError:
        return False
    return bool(said)
