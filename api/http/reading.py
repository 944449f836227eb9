"""A body is read strictly: its size, its kind, its text and every field, and a refusal names what is wrong.

A number in quotes is no number, an unknown field is a typing error, and a string that Postgres could not keep
(NUL, half a surrogate pair) stops here.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from litestar.types import Receive

from api.http.body_budget import SMALL_BODY_MAX_BYTES
from api.http.problems import BodyTooLarge, UnsupportedMediaType
from api.http.reply import JSON
from coordinator_core.protocol.errors import InvalidRequest

T = TypeVar("T")

MAY_HAVE_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
PLACE = re.compile(r" - at `(?:key in )?\$(?:\.)?(.*)`$", re.DOTALL)
SURROGATE = re.compile(r"[\ud800-\udfff]")

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class Disconnected(Exception):
    """The caller went away before it had asked."""


async def read_body(
    method: str,
    headers: Mapping[bytes, bytes],
    receive: Receive,
    limit_bytes: int,
    hold: Callable[[int], None],
) -> bytes:
    """Return the whole body, or refuse it before it is all here.

    Args:
        method: of the request; only some have a body.
        headers: of the request, by their names in lower case.
        receive: gives the parts of the body.
        limit_bytes: how large it may be.
        hold: called with the size of a large body before it is read, as far as it is known; may refuse it.

    Raises:
        BodyTooLarge: it is over the limit.
        UnsupportedMediaType: there is one, and it is not declared as JSON, or it is compressed.
        InvalidRequest: it is not UTF-8, or holds a character that no field may have.
        Disconnected: there is nobody to answer.
    """
    if method not in MAY_HAVE_BODY:
        return b""
    declared = int(headers.get(b"content-length", 0))
    if declared > limit_bytes:
        raise BodyTooLarge(limit_bytes)
    encoding = headers.get(b"content-encoding")
    if encoding is not None and encoding.strip().lower() != b"identity":
        raise UnsupportedMediaType("the body must not be compressed")
    if declared > SMALL_BODY_MAX_BYTES:
        hold(declared)
    parts: list[bytes] = []
    size = 0
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] != "http.request":
            raise Disconnected
        parts.append(message["body"])
        size += len(message["body"])
        if size > limit_bytes:
            raise BodyTooLarge(limit_bytes)
        if size > max(declared, SMALL_BODY_MAX_BYTES):  # its length was not declared
            hold(size)
        has_more = message["more_body"]
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    if body:
        _check_is_json(headers.get(b"content-type", b""))
        _check_text(body)
    return body


def read_json(body: bytes, kind: type[T]) -> T:
    """Read a body as a value of `kind`.

    Raises:
        InvalidRequest: it is not JSON, or not of that kind; the detail names the field.
    """
    decoder = _decoders.get(kind) or _decoder(kind)
    try:
        value: T = decoder.decode(body)
        return value
    except msgspec.ValidationError as error:
        raise InvalidRequest(sentence_of(str(error))) from None
    except msgspec.DecodeError as error:
        _refuse_unkeepable_text(body)
        raise InvalidRequest("the body is empty" if not body else f"the body is not JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None


def sentence_of(complaint: str) -> str:
    """Turn what msgspec says into `field: what is wrong with it`."""
    match = PLACE.search(complaint)
    what = (complaint[: match.start()] if match else complaint).replace("`", "")
    what = what[:1].lower() + what[1:]
    place = match.group(1) if match else ""
    return f"{place}: {what}" if place else what


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Make the decoder of a kind; there are as many as there are kinds of bodies."""
    decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


# -- kind and text ------------------------------------------------------------------------------------


def _check_is_json(content_type: bytes) -> None:
    """Accept nothing but JSON by name: a web page cannot send that name to another origin without asking first."""
    if content_type != JSON and content_type.partition(b";")[0].strip().lower() != JSON:
        raise UnsupportedMediaType("the body must be application/json")


def _check_text(body: bytes) -> None:
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"the body is not UTF-8 (byte {error.start})") from None
    if b"\\u0000" in body:
        _refuse_unkeepable_text(body)


def _refuse_unkeepable_text(body: bytes) -> None:
    """Name the first string with NUL or half a surrogate pair, where there is one in JSON that is whole."""
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
    """Walk over every string of a JSON value, keys included, with the path to it."""
    if isinstance(value, str):
        yield place or "the body", value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield "a field's name", key
            yield from _strings(item, f"{place}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, f"{place}[{index}]")
