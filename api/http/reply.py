"""What goes back over the wire, before the edge adds its own headers."""

from typing import Final, NamedTuple

import msgspec

JSON: Final = b"application/json"
NO_ERROR: Final = "NONE"

_encoder = msgspec.json.Encoder()


class Reply(NamedTuple):
    """A whole answer; `code` is Kafka's name of the error, for those who count."""

    status: int
    content_type: bytes
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    code: str = NO_ERROR


def json_bytes(value: object) -> bytes:
    """Return a value of ours as JSON."""
    return _encoder.encode(value)
