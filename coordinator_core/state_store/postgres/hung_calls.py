"""Hung calls: the socket of a connection is shut down when an answer is long overdue.

The server ends statements that take too long, and reports it. If the report never arrives because a proxy or firewall
between has forgotten the connection, and still acknowledges what is sent, then neither TCP keepalives nor the driver
ever end the wait.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

log = structlog.get_logger("muster.runtime")

OVERDUE: Final = 2
"""After how many times its statement timeout an answer is overdue."""
CHECK_S: Final = 0.25


class HungCalls:
    """The calls under way in this process, and the thread that ends those that hang; usable from any thread."""

    def __init__(self) -> None:
        """Start no thread before the first call."""
        self._lock = threading.Lock()
        self._under_way: dict[object, tuple[int, float]] = {}
        """Call → the file descriptor of its connection, and when its answer is overdue."""
        self._is_started = False

    @contextmanager
    def ended(self, connection: PsycopgConnection, statement_timeout_ms: int) -> Iterator[None]:
        """Shut down the connection's socket, which makes the call fail, if the block takes far longer than it may."""
        if connection.closed:
            yield
            return
        call = object()
        with self._lock:
            self._start()
            overdue_s = time.monotonic() + OVERDUE * statement_timeout_ms / 1000
            self._under_way[call] = connection.fileno(), overdue_s
        try:
            yield
        finally:
            with self._lock:
                self._under_way.pop(call, None)

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name="muster-hung-calls", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(CHECK_S)
            with self._lock:
                now_s = time.monotonic()
                for call, (descriptor, overdue_s) in list(self._under_way.items()):
                    if now_s > overdue_s:
                        del self._under_way[call]
                        _shut_down(descriptor)


HUNG_CALLS: Final = HungCalls()
"""Those of this process."""


def _shut_down(descriptor: int) -> None:
    log.warning("database_call_hung")
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # The driver has closed it by now.
