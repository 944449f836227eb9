"""Heartbeats of one member, in a process of its own: how late are their responses while something else happens?"""

import http.client
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Final
from urllib.parse import urlsplit

from bench.group_members import Member, join_groups

PAUSE_S: Final = 0.002
"""How long the member waits between a response and its next heartbeat."""


class HeartbeatProbe:
    """The process that sends heartbeats."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def worst_ms(self) -> float:
        """Return the time of the slowest heartbeat since the last call.

        Raises:
            AssertionError: a heartbeat failed, which has ended the process.
        """
        try:
            self._connection.send(None)
            worst_ms: float = self._connection.recv()
        except (EOFError, OSError) as error:
            raise AssertionError("a heartbeat failed, with the error above") from error
        return worst_ms


@contextmanager
def heartbeat_probe(node_url: str) -> Iterator[HeartbeatProbe]:
    """Send heartbeats to a group of its own during the block."""
    (member,) = join_groups([node_url], 1)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_send_heartbeats, args=(member, theirs), daemon=True)
    process.start()
    theirs.close()  # so that the end of the process is noticed
    try:
        yield HeartbeatProbe(ours)
    finally:
        process.terminate()
        process.join()


def _send_heartbeats(member: Member, connection: Connection) -> None:
    node = http.client.HTTPConnection(urlsplit(member.url).netloc)
    body, headers = member.body(), {"content-type": "application/json"}
    worst_s = 0.0
    while True:
        if connection.poll(PAUSE_S):
            connection.recv()
            connection.send(worst_s * 1_000)
            worst_s = 0.0
        began_s = time.perf_counter()
        node.request("POST", f"{member.path}/heartbeat", body, headers)
        response = node.getresponse()
        response.read()
        assert response.status == http.HTTPStatus.OK, response.status
        worst_s = max(worst_s, time.perf_counter() - began_s)
