"""A connection of a Kafka client without a socket."""

import asyncio
from typing import Any

from api.kafka.apis import ApiKey
from api.kafka.connection import KafkaConnection
from api.kafka.limits import KafkaLimits
from api.shared.connection_gate import ConnectionCounts, ConnectionGate
from api.shared.node_context import NodeContext
from api.shared.request_metrics import ListenerMetrics
from api.shared.write_batch import WriteBatch
from tests.support.kafka_wire import frame, read_response
from tests.unit.coordinator_core.runtime.nodes import until

Fields = dict[str, Any]


class FakeTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_aborted = False
        self.reads_on = True

    def write(self, data: bytes) -> None:  # type: ignore[override]  # what the connection writes
        """Keep it."""
        self.written += data

    def is_closing(self) -> bool:
        """Return whether the connection was aborted."""
        return self.is_aborted

    def abort(self) -> None:
        """Close it at once."""
        self.is_aborted = True

    def close(self) -> None:
        """Close it; nothing is left to be sent."""
        self.is_aborted = True

    def pause_reading(self) -> None:
        """Note it."""
        self.reads_on = False

    def resume_reading(self) -> None:
        """Note it."""
        self.reads_on = True

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return nothing."""
        del name
        return default


class Wire:
    """A connection without a socket."""

    def __init__(self, node: NodeContext, limits: KafkaLimits | None = None) -> None:
        counts = ConnectionCounts(())
        self._transport = FakeTransport()
        self._connection = KafkaConnection(
            node, ConnectionGate(1, 1, counts), limits or KafkaLimits(), ListenerMetrics(counts), WriteBatch()
        )
        self._connection.connection_made(self._transport)

    @property
    def is_answered(self) -> bool:
        """Return whether there is a response to the last request."""
        return bool(self._transport.written)

    @property
    def is_closed(self) -> bool:
        """Return whether the node has closed the connection."""
        return self._transport.is_aborted

    def is_read(self) -> bool:
        """Return whether the node reads on."""
        return self._transport.reads_on

    def frames(self) -> list[bytes]:
        """Return the responses since the last request was sent, without their sizes."""
        left, frames = self._transport.written, []
        while left:
            end = 4 + int.from_bytes(left[:4])
            frames.append(left[4:end])
            left = left[end:]
        return frames

    def send(self, key: ApiKey, version: int, values: Fields, client_id: str = "wire") -> None:
        """Send a request."""
        self._transport.written = b""
        self._connection.data_received(frame(key, version, client_id, **values))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._connection.data_received(data)

    def stop_receiving(self) -> None:
        """Leave responses unread until the node has no room for more."""
        self._connection.pause_writing()

    def receive_again(self) -> None:
        """Read what the node has sent."""
        self._connection.resume_writing()

    async def call(self, key: ApiKey, version: int, values: Fields, client_id: str = "wire") -> Any:  # noqa: ANN401  # a class for each version
        """Send a request, and return its response."""
        self.send(key, version, values, client_id)
        await until(lambda: self.is_answered or self._transport.is_aborted, "the response")
        assert self.is_answered, "the node has closed the connection"
        return read_response(key, version, self._transport.written[4:])

    async def is_closed_by(self, key: ApiKey, version: int, values: Fields) -> bool:
        """Send a request that is not answered, and return whether the node has closed the connection."""
        self.send(key, version, values)
        await until(lambda: self._transport.is_aborted or self.is_answered, "the response, or the end")
        return self._transport.is_aborted and not self.is_answered

    def abort(self) -> None:
        """Abort the connection on the side of the node, which does not know yet that it is lost."""
        self._connection.abort()

    def close(self) -> None:
        """Close the connection."""
        self._connection.connection_lost(None)
