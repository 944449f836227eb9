"""A client of Kafka's wire protocol that says exactly what a test wants, in any version."""

import io
import socket
import ssl
import struct
from types import TracebackType
from typing import Any, Final, Self

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from api.kafka.apis import APIS, ApiKey
from api.kafka.messages import maker
from tests.support.waiting import PATIENCE_S

_HEADER: Final = struct.Struct(">ihhi")


def frame(key: ApiKey, version: int, client_id: str = "wire", correlation_id: int = 1, /, **values: Any) -> bytes:  # noqa: ANN401  # fields of a request
    """Return a request as a frame, with its size before it."""
    buffer = io.BytesIO()
    schema = load_request_schema(key, version)
    entity_writer(schema)(buffer, maker(schema)(values))
    name = client_id.encode()
    tags = b"\x00" if version >= APIS[key].flexible_from else b""
    body = struct.pack(">h", len(name)) + name + tags + buffer.getvalue()
    return _HEADER.pack(8 + len(body), key, version, correlation_id) + body


def read_response(key: ApiKey, version: int, data: bytes) -> Any:  # noqa: ANN401  # a class for each version
    """Decode a response without its size, from the correlation id on; all bytes must belong to it."""
    is_flexible = key is not ApiKey.API_VERSIONS and version >= APIS[key].flexible_from
    begin = 5 if is_flexible else 4
    response, size = entity_reader(load_response_schema(key, version))(data, begin)
    assert begin + size == len(data), "bytes follow the response"
    return response


class KafkaWire:
    """One connection to a node's Kafka listener."""

    def __init__(
        self,
        address: str,
        client_id: str = "wire",
        ssl_context: ssl.SSLContext | None = None,
        *,
        before: bytes = b"",
        source_host: str = "",
    ) -> None:
        """Connect; `before` is sent before TLS, and `source_host` is the client's own address."""
        self._client_id = client_id
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), PATIENCE_S, (source_host, 0))
        plain.sendall(before)
        self.socket: Final = plain if ssl_context is None else ssl_context.wrap_socket(plain, server_hostname=host)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def ask(self, key: ApiKey, version: int, /, **values: Any) -> None:  # noqa: ANN401  # fields of a request
        """Send a request; `receive` returns its response."""
        self.send(frame(key, version, self._client_id, **values))

    def call(self, key: ApiKey, version: int, /, **values: Any) -> Any:  # noqa: ANN401  # fields of a request
        """Send a request, and return its decoded response."""
        self.ask(key, version, **values)
        return read_response(key, version, self.receive())

    def receive(self) -> bytes:
        """Return the next response, from its correlation id on.

        Raises:
            ConnectionError: the node has closed the connection.
        """
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_closed(self) -> bool:
        """Wait until the node closes the connection or sends something, and return which."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the node has closed the connection")
            data += part
        return data
