"""Messages of Kafka's protocol: kio decodes all, and encodes those that are rare (`hot_responses` has the others).

The fields of a message depend on its version. A handler says all that it knows, by the names of the newest version, and
`encode` leaves out what the version has no field for.
"""

import io
import struct
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from msgspec import Struct

from api.kafka.apis import APIS, NO_TAGS, ApiKey
from api.kafka.lenient_decoding import rewritten
from api.kafka.list_lengths import MalformedFrame, check_lists, skip_tagged_fields

MILLISECOND: Final = timedelta(milliseconds=1)
Fields = Mapping[str, Any]
"""The fields of a message or of a part of it, by name; lists of parts are sequences of Fields."""


NUL: Final = "\x00"
"""The character that Postgres does not store."""
SIZE_BYTES: Final = 4
"""The size of a frame, which precedes it."""
API_KEY: Final = slice(0, 2)
"""Where the API key is in a frame."""
CORRELATION_ID: Final = slice(4, 8)
"""Where the correlation id is in a frame; its response repeats it."""


class RequestHeader(Struct, frozen=True, gc=False):
    """What precedes the body of every request, but for its correlation id."""

    api_key: int
    version: int
    client_id: str | None
    response_tags: bytes
    """The tagged fields in the header of the response: none, but flexible versions say so, except ApiVersions."""
    size: int
    """Bytes of the header: where the body begins."""


_HEADER: Final = struct.Struct(">hh4xh")


def read_header(frame: bytes) -> RequestHeader:
    """Read the header of a request.

    Raises:
        MalformedFrame: it is cut off.
    """
    try:
        key, version, length = _HEADER.unpack_from(frame)
        client_id = None if length < 0 else frame[_HEADER.size : _HEADER.size + length].decode("utf-8", "replace")
        size = _HEADER.size + max(length, 0)
        if size > len(frame):
            raise MalformedFrame("the header is cut off")
        api = APIS.get(key)
        is_flexible = api is not None and version >= api.flexible_from
        if is_flexible:
            size = skip_tagged_fields(frame, size)
        tags = NO_TAGS if is_flexible and key != ApiKey.API_VERSIONS else b""
    except (struct.error, IndexError) as failure:
        raise MalformedFrame(f"the header cannot be read: {failure}") from failure
    return RequestHeader(key, version, client_id, tags, size)


def decode(api_key: int, version: int, frame: bytes, offset: int, max_items: int) -> Any:  # noqa: ANN401  # a class for each version
    """Decode the body of a request; bytes that follow it are ignored, since librdkafka sends some after Metadata.

    Raises:
        MalformedFrame: it is no request of this API and version, or its lists have more than `max_items` items.
    """
    lists_of(api_key, version, frame, offset, max_items)
    return decode_checked(api_key, version, frame, offset)


def lists_of(api_key: int, version: int, frame: bytes, offset: int, max_items: int) -> bytes:
    """Return the bytes of a body that decide how long its lists are, and check them; raises as `decode`."""
    return frame[offset : check_lists(_reader(api_key, version)[0], frame, offset, max_items)]


def decode_checked(api_key: int, version: int, frame: bytes, offset: int) -> Any:  # noqa: ANN401  # as above
    """Decode the body of a request whose lists were checked.

    Raises:
        MalformedFrame: it is no request of this API and version.
    """
    schema, read = _reader(api_key, version)
    try:
        message, _ = read(frame, offset)
    except Exception:  # noqa: BLE001  # kio's errors have no common class
        body = rewritten(schema, frame, offset)
        try:
            message, _ = read(body, 0)
        except Exception as failure:
            raise MalformedFrame(f"{type(failure).__name__}: {failure}") from failure
    return message


def encode(api_key: int, version: int, values: Fields) -> bytes:
    """Encode the body of a response.

    Args:
        api_key: the API.
        version: of the request.
        values: the fields; what is left out has its default, an error code 0, and the throttle time 0.
    """
    buffer = io.BytesIO()
    make, write = _response(api_key, version)
    write(buffer, make(values))
    return buffer.getvalue()


def milliseconds(length: timedelta) -> int:
    """Return a time that kio has decoded in milliseconds."""
    return length // MILLISECOND


def load_all() -> None:
    """Load the schemas of all APIs and versions, which takes most of a second, so that no request waits for it."""
    for key, api in APIS.items():
        for version in range(api.first, api.last + 1):
            _reader(key, version)
            _response(key, version)


@cache
def _reader(api_key: int, version: int) -> tuple[type[Any], Callable[[bytes, int], tuple[Any, int]]]:
    schema = load_request_schema(api_key, version)
    return schema, entity_reader(schema)


@cache
def _response(api_key: int, version: int) -> tuple[Callable[[Fields], Any], Callable[[io.BytesIO, Any], None]]:
    schema = load_response_schema(api_key, version)
    return maker(schema), entity_writer(schema)


def maker(schema: type[Any]) -> Callable[[Fields], Any]:
    """Return what makes a message of a schema from fields, without those that the schema does not have."""
    types = typing.get_type_hints(schema)
    converters: dict[str, Callable[[Any], Any]] = {}
    defaults: dict[str, object] = {}
    for each in fields(schema):
        kind = types[each.name]
        part = None if is_dataclass(kind) else _part_of(kind)  # a message by itself is optional, and stays as it is
        if part is not None:
            converters[each.name] = partial(_many, maker(part))
            if type(None) not in typing.get_args(kind):
                defaults[each.name] = ()
        elif kind is ErrorCode:
            converters[each.name] = ErrorCode
            defaults[each.name] = 0
        elif each.name == "throttle_time":
            defaults[each.name] = timedelta(0)
        if each.default is not MISSING:
            defaults.setdefault(each.name, each.default)
    names = [each.name for each in fields(schema)]

    def make(values: Fields) -> Any:  # noqa: ANN401  # an entity of the schema
        found = {name: values.get(name, defaults.get(name)) for name in names}
        return schema(
            **{name: converters[name](value) if name in converters else value for name, value in found.items()}
        )

    return make


def _part_of(kind: Any) -> type[Any] | None:  # noqa: ANN401  # a type of a field
    """Return the class of the items of a field, which may be null; None: they are no messages."""
    if is_dataclass(kind):
        return typing.cast("type[Any]", kind)
    return next(filter(None, map(_part_of, typing.get_args(kind))), None)


def _many(make: Callable[[Fields], Any], parts: Any) -> Any:  # noqa: ANN401  # the parts of a field, or None
    return None if parts is None else tuple(map(make, parts))
