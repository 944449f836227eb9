"""The server of a listener with TLS: what it does with handshakes in progress when it is closed."""

import asyncio
import socket
from pathlib import Path

from api.shared.connection_gate import Connection, ConnectionCounts, ConnectionGate
from api.shared.handshake_server import HandshakeServer
from api.shared.tls import NodeTls, TlsFiles
from tests.support.certificates import Authority
from tests.support.waiting import limited

HOUR_MS = 3_600_000


class NoticingGate(ConnectionGate):
    """A gate that notices when a connection is admitted."""

    def __init__(self, max_connections: int, max_per_ip: int, counts: ConnectionCounts) -> None:
        super().__init__(max_connections, max_per_ip, counts)
        self.admitted = asyncio.Event()

    def admit(self, connection: Connection, host: str) -> bool:
        self.admitted.set()
        return super().admit(connection, host)


def test_closing_ends_handshakes_in_progress(tmp_path: Path) -> None:
    tls = NodeTls(TlsFiles(certificate=Authority(tmp_path).issue("node")))
    counts = ConnectionCounts()

    def connect(_: str | None) -> None:
        raise AssertionError("no handshake is completed")

    async def run() -> bytes:
        listener = socket.create_server(("127.0.0.1", 0))
        gate = NoticingGate(10, 10, counts)
        server = HandshakeServer(listener, connect, gate, tls, HOUR_MS)  # type: ignore[arg-type]  # see there
        async with limited("the connection is accepted, and closed by the server"):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await gate.admitted.wait()
            assert counts.open == 1
            server.close()
            await server.wait_closed()
            received = await reader.read()
        writer.close()
        await writer.wait_closed()
        return received

    assert asyncio.run(run()) == b""
    assert counts.open == 0
