"""HTTP responses, before `asgi` adds the common headers."""

from typing import Final

import msgspec
from msgspec import Struct

from api.shared.errors import NO_ERROR

JSON: Final = b"application/json"

_encoder = msgspec.json.Encoder()


class HttpResponse(Struct, frozen=True):
    """A complete response; `code` is Kafka's name of the error or NONE, for metrics and the log."""

    status: int
    content_type: bytes
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    code: str = NO_ERROR


def json_bytes(value: object) -> bytes:
    """Encode a value as JSON."""
    return _encoder.encode(value)


def json_response(value: object) -> HttpResponse:
    """Return a response of status 200 with a value as JSON."""
    return HttpResponse(200, JSON, json_bytes(value))
