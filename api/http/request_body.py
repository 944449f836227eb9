"""Reading and strict decoding of request bodies: size, media type, text and every field are checked.

A number in quotes is refused, and so are an unknown field and a string that Postgres cannot hold (NUL, an unpaired
surrogate). The error names the field.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from litestar.types import Receive

from api.http.problems import BodyTooLarge, UnsupportedMediaType
from api.http.response import JSON
from api.shared.body_budget import SMALL_BODY_MAX_BYTES
from api.shared.turns import SMALL_REQUEST_MAX_BYTES
from api.shared.validation import validation_message
from coordinator_core.protocol.errors import InvalidRequest

T = TypeVar("T")

MAY_HAVE_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
NUL: Final = rb"\u0000"
ESCAPED_BACKSLASH: Final = rb"\\"
"""Before `u0000` it is no part of a NUL."""
SURROGATE = re.compile(r"[\ud800-\udfff]")

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class ClientDisconnected(Exception):
    """The client closed its connection before its request was complete, or before it was forwarded."""


def declared_bytes(headers: Mapping[bytes, bytes]) -> int:
    """Return the declared size of a body, 0 without one; before the number there may be more zeros than `int` reads."""
    return int(b"0" + headers.get(b"content-length", b"").lstrip(b"0"))


async def read_body(
    method: str,
    headers: Mapping[bytes, bytes],
    receive: Receive,
    limit_bytes: int,
    reserve: Callable[[int], None],
) -> bytes:
    """Read the body of a request; empty for methods without a body.

    Args:
        method: the method of the request.
        headers: the headers by lower-case name.
        receive: the ASGI callable that returns the parts of the body.
        limit_bytes: the maximum size.
        reserve: called with the size of a large body before it is read, as far as it is known; may raise.

    Raises:
        BodyTooLarge: the body exceeds the limit; the rest is not read.
        UnsupportedMediaType: the body is compressed or not declared as JSON.
        InvalidRequest: the body has an unknown transfer coding, is not UTF-8, or contains a character that the database
            cannot hold.
        ClientDisconnected: the client disconnected.
    """
    if method not in MAY_HAVE_BODY:
        return b""
    declared = declared_bytes(headers)
    if declared > limit_bytes:
        raise BodyTooLarge(limit_bytes)
    if headers.get(b"transfer-encoding", b"chunked").strip().lower() != b"chunked":
        raise InvalidRequest("the body has a transfer coding other than chunked")
    encoding = headers.get(b"content-encoding")
    if encoding is not None and encoding.strip().lower() != b"identity":
        raise UnsupportedMediaType("the body must not be compressed")
    if declared > SMALL_BODY_MAX_BYTES:
        reserve(declared)
    parts: list[bytes] = []
    size = 0
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnected
        parts.append(message["body"])
        size += len(message["body"])
        if size > limit_bytes:
            raise BodyTooLarge(limit_bytes)
        if size > max(declared, SMALL_BODY_MAX_BYTES):  # its length was not declared
            reserve(size)
        has_more = message["more_body"]
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    if body:
        _check_is_json(headers.get(b"content-type", b""))
        check_text(body)
    return body


def read_json(body: bytes, kind: type[T]) -> T:
    """Decode a body as a value of the type `kind`.

    Raises:
        InvalidRequest: the body is not JSON, or does not fit the type; the detail names the field.
    """
    decoder = _decoders.get(kind) or _decoder(kind)
    try:
        value: T = decoder.decode(body)
        return value
    except msgspec.ValidationError as error:
        raise InvalidRequest(validation_message(str(error))) from None
    except msgspec.DecodeError as error:
        _reject_unstorable_text(body)
        raise InvalidRequest("the body is empty" if not body else f"the body is not JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Create and cache the decoder of a type; there is one per type of body."""
    decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


# -- media type and text ------------------------------------------------------------------------------


def _check_is_json(content_type: bytes) -> None:
    """Require application/json, which a web page cannot send to another origin without a preflight."""
    if content_type != JSON and content_type.partition(b";")[0].strip().lower() != JSON:
        raise UnsupportedMediaType("the body must be application/json")


def check_text(body: bytes) -> None:
    """Raise `InvalidRequest` if a body is not UTF-8, or contains a character that the database cannot hold."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"the body is not UTF-8 (byte {error.start})") from None
    # A search for one byte takes a tenth of the time.
    if b"\\" in body and NUL in body and NUL in body.replace(ESCAPED_BACKSLASH, b""):
        _reject_unstorable_text(body)
        raise InvalidRequest("a text holds NUL")


def _reject_unstorable_text(body: bytes) -> None:
    """Refuse valid JSON with NUL or an unpaired surrogate in a string, and name the first such field.

    A large body is left to its caller: reading it would keep the event loop busy for up to a second.
    """
    if len(body) > SMALL_REQUEST_MAX_BYTES:
        return
    try:
        for place, text in _strings(json.loads(body), ""):
            if "\0" in text:
                raise InvalidRequest(f"{place}: holds NUL")
            if SURROGATE.search(text):
                raise InvalidRequest(f"{place}: holds an unpaired surrogate")
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None
    except ValueError:
        return


def _strings(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield every string of a JSON value, keys included, with its path."""
    if isinstance(value, str):
        yield place or "the body", value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield "a field's name", key
            yield from _strings(item, f"{place}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, f"{place}[{index}]")
