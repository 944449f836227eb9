"""The lengths of the lists of a request, which are checked before it is decoded (DECISIONS.md, 95).

kio's decoder reserves memory for as many items as a list announces, and ends the process if there is not so much: a
frame of 24 bytes may announce 2^32 of them. Each item has at least a byte of the frame. A tagged field counts as an
item: a frame of 8 MiB could have four million, which would take the event loop seconds.

A request is walked no further than to the length of its last list, so a commit of very many partitions costs the same
as that of one.
"""

import struct
import typing
from collections.abc import Sequence
from dataclasses import fields
from enum import Enum, auto
from functools import cache
from typing import Any, Final, NamedTuple

VARINT_MAX_BYTES: Final = 5
"""The longest number of 32 bits, seven of them in a byte."""
TAGGED_FIELDS_MAX: Final = 1_000
"""How many tagged fields there may be at one place of a request; Kafka's requests have one or two."""
TOO_LONG: Final = "a length is greater than the rest of the request"
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
FIXED_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "uuid": 16,
}
"""Type of a field → its size in bytes, where that is fixed."""


class MalformedFrame(Exception):  # as the errors of the protocol
    """The bytes of a frame are no request that the listener knows."""


class _Kind(Enum):
    FIXED = auto()
    STRING = auto()
    BYTES = auto()
    LIST = auto()
    TAGGED = auto()


class _Step(NamedTuple):
    """A field of a request, or several of fixed size, in the order of the bytes."""

    kind: _Kind
    size: int = 0
    """Of what has a fixed size, in bytes."""
    item: "Sequence[_Step]" = ()
    """Of a list: the fields of an item."""
    item_has_lists: bool = False
    is_nullable: bool = False
    """Of a list."""
    is_before_list: bool = False
    """Whether a list follows in the same part of the request."""


class _Plan(NamedTuple):
    """How a request of one API and version is walked."""

    steps: Sequence[_Step]
    is_flexible: bool


def check_lists(schema: type[Any], frame: bytes, offset: int, max_items: int) -> int:
    """Check the lists of a request, before it is decoded.

    Args:
        schema: kio's class of the request in its version.
        frame: the request.
        offset: where its body begins.
        max_items: how many items all lists may have together.

    Returns:
        Where the length of the last list ends: a request of the same size with the same bytes up to there has the same
        lists, and need not be checked.

    Raises:
        MalformedFrame: they have more, or more than the rest of the frame can have; a list is null that may not be,
            which kio decodes nevertheless; or the body ends before the length of a list.
    """
    plan = _plan(schema)  # type: ignore[arg-type]  # a class is hashable
    if plan is None:
        return offset
    walk = _Walk(frame, max_items, is_flexible=plan.is_flexible)
    try:
        after = walk.walk(plan.steps, offset, is_last=True)
    except (struct.error, IndexError):
        raise MalformedFrame("the body is cut off") from None
    return walk.end if after is None else after


def read_varint(frame: bytes, offset: int) -> tuple[int, int]:
    """Return the unsigned number of variable length at an offset, and the offset after it.

    Raises:
        IndexError: the frame ends before.
        MalformedFrame: it is longer than VARINT_MAX_BYTES.
    """
    value = 0
    for place in range(VARINT_MAX_BYTES):
        byte = frame[offset + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:  # the highest bit says that another byte follows
            return value, offset + place + 1
    raise MalformedFrame(f"a number of more than {VARINT_MAX_BYTES} bytes")


def skip_tagged_fields(frame: bytes, offset: int) -> int:
    """Return the offset after the tagged fields at an offset; raises as `read_varint`."""
    count, offset = read_varint(frame, offset)
    if count > TAGGED_FIELDS_MAX:
        raise MalformedFrame(f"more than {TAGGED_FIELDS_MAX} tagged fields")
    for _ in range(count):
        _, offset = read_varint(frame, offset)
        size, offset = read_varint(frame, offset)
        offset += _checked(size, frame, offset)
    return offset


class _Walk:
    """A walk through the fields of one request."""

    __slots__ = ("_frame", "_is_flexible", "_left", "_max_items", "end")

    def __init__(self, frame: bytes, max_items: int, *, is_flexible: bool) -> None:
        self._frame = frame
        self._max_items = self._left = max_items
        self._is_flexible = is_flexible
        self.end = 0
        """Where the walk has ended."""

    def walk(self, steps: Sequence[_Step], offset: int, *, is_last: bool) -> int | None:
        """Walk fields, and return the offset after them; None: the walk has ended, since no list follows."""
        frame, is_flexible = self._frame, self._is_flexible
        for kind, size, item, item_has_lists, is_nullable, is_before_list in steps:
            if kind is _Kind.FIXED:
                offset += size
                continue
            if kind is _Kind.TAGGED:
                if frame[offset]:
                    self._count(read_varint(frame, offset)[0])
                    offset = skip_tagged_fields(frame, offset)
                else:
                    offset += 1
                continue
            if is_flexible:
                length, offset = (frame[offset], offset + 1) if frame[offset] < 0x80 else read_varint(frame, offset)
                length -= 1
            else:
                number = _INT16 if kind is _Kind.STRING else _INT32
                (length,) = number.unpack_from(frame, offset)
                offset += number.size
            if length > len(frame) - offset:
                raise MalformedFrame(TOO_LONG)
            if kind is not _Kind.LIST:
                offset += max(length, 0)
                continue
            if length < 0 and not is_nullable:
                raise MalformedFrame("a list is null that may not be")
            self._count(length)
            ends = is_last and not is_before_list
            if ends and not item_has_lists:
                self.end = offset
                return None
            for place in range(length):
                after = self.walk(item, offset, is_last=ends and place == length - 1)
                if after is None:
                    return None
                offset = after
        return offset

    def _count(self, items: int) -> None:
        """Count items of a list, which may be null (-1), or tagged fields."""
        self._left -= max(items, 0)
        if self._left < 0:
            raise MalformedFrame(f"the lists have more than {self._max_items} items")


def _checked(length: int, frame: bytes, offset: int) -> int:
    if length > len(frame) - offset:
        raise MalformedFrame(TOO_LONG)
    return length


@cache
def _plan(schema: type[Any]) -> _Plan | None:
    """Return how a request is walked; None: it has no lists."""
    is_flexible: bool = schema.__flexible__
    steps = _steps(schema, is_flexible=is_flexible)
    return _Plan(steps, is_flexible) if _has_list(steps) else None


def _steps(schema: type[Any], *, is_flexible: bool) -> Sequence[_Step]:
    found: list[_Step] = []
    for field in fields(schema):
        if "tag" in field.metadata:
            continue
        step = _step(field.type, field.metadata.get("kafka_type"), is_flexible=is_flexible)
        if step.kind is _Kind.FIXED and found and found[-1].kind is _Kind.FIXED:
            found[-1] = _Step(_Kind.FIXED, found[-1].size + step.size)
        else:
            found.append(step)
    if is_flexible:
        found.append(_Step(_Kind.TAGGED))
    return [step._replace(is_before_list=_has_list(found[place + 1 :])) for place, step in enumerate(found)]


def _step(kind: Any, kafka_type: str | None, *, is_flexible: bool) -> _Step:  # noqa: ANN401  # a type of a field
    items = items_of(kind)
    if items is not None:
        is_nullable = type(None) in typing.get_args(kind)
        if kafka_type is not None:
            return _Step(_Kind.LIST, item=[_step(items, kafka_type, is_flexible=is_flexible)], is_nullable=is_nullable)
        item = _steps(items, is_flexible=is_flexible)
        return _Step(_Kind.LIST, item=item, item_has_lists=_has_list(item), is_nullable=is_nullable)
    assert kafka_type is not None, "no request has a message by itself"
    if kafka_type in FIXED_SIZES:
        return _Step(_Kind.FIXED, FIXED_SIZES[kafka_type])
    return _Step(_Kind.STRING if kafka_type == "string" else _Kind.BYTES)


def items_of(kind: Any) -> Any:  # noqa: ANN401  # as above
    """Return the type of the items of a list, which may be null; None: it is no list."""
    for each in (kind, *typing.get_args(kind)):
        if typing.get_origin(each) is tuple:
            return typing.get_args(each)[0]
    return None


def _has_list(steps: Sequence[_Step]) -> bool:
    return any(step.kind is _Kind.LIST for step in steps)
