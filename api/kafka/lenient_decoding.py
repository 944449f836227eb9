"""Requests that Kafka accepts and kio does not decode: they are written again as kio reads them.

* Tagged fields are left out. Any client may send new ones in a version that is already there (KIP-482).
* Bytes that are no UTF-8 become U+FFFD, as in Java: clients in C and Go send whatever bytes they are given.
* A boolean is true unless it is 0, and a time is at most as long as kio can have it.

Writing takes many times as long as decoding, and few requests need it, so of large ones only the fields before the
first list are written again.
"""

import struct
from dataclasses import fields
from functools import cache
from itertools import takewhile
from typing import Any, Final

from api.kafka.list_lengths import FIXED_SIZES, MalformedFrame, items_of, read_varint, skip_tagged_fields

REWRITTEN_MAX_BYTES: Final = 65_536
"""The largest frame whose lists are written again, which takes some 20 ms; it has about 4,000 partitions."""
LONGEST_MS: Final = (2**63 - 1) // 1_000
"""The longest time that kio can have, whose microseconds have 64 bits."""
NO_TYPE: Final = ""
"""In place of a Kafka type: items of several fields."""
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


def rewritten(schema: type[Any], frame: bytes, offset: int) -> bytes:
    """Return the body of a request, whose lists `check_lists` has checked, so that kio decodes it.

    Args:
        schema: kio's class of the request in its version.
        frame: the request.
        offset: where its body begins.

    Raises:
        MalformedFrame: the body is cut off.
    """
    writer = _Writer(frame, offset, is_flexible=schema.__flexible__)
    try:
        if len(frame) > REWRITTEN_MAX_BYTES:
            writer.write_head(schema)
        else:
            writer.write_message(schema)
    except (struct.error, IndexError):
        raise MalformedFrame("the body is cut off") from None
    return bytes(writer.body)


@cache
def _fields_of(schema: type[Any]) -> list[tuple[Any, str]]:
    """Return of each field without a tag the type of its items, None if it is no list, and its or their Kafka type."""
    return [
        (items_of(field.type), field.metadata.get("kafka_type", NO_TYPE))
        for field in fields(schema)
        if "tag" not in field.metadata
    ]


class _Writer:
    """Reads a request, and writes it again."""

    def __init__(self, frame: bytes, offset: int, *, is_flexible: bool) -> None:
        self._frame = frame
        self._offset = offset
        self._is_flexible = is_flexible
        self.body = bytearray()

    def write_message(self, schema: type[Any]) -> None:
        """Write the fields of a request, or of an item of a list."""
        for items, kafka_type in _fields_of(schema):  # type: ignore[arg-type]  # a class is hashable
            if items is not None:
                self._write_list(items, kafka_type)
            else:
                self._write_value(kafka_type)
        if self._is_flexible:
            self._offset = skip_tagged_fields(self._frame, self._offset)
            self.body.append(0)

    def write_head(self, schema: type[Any]) -> None:
        """Write the fields of a request before its first list, and what follows as it is."""
        for _, kafka_type in takewhile(lambda field: field[0] is None, _fields_of(schema)):  # type: ignore[arg-type]
            self._write_value(kafka_type)
        self.body += self._frame[self._offset :]

    def _write_list(self, items: Any, kafka_type: str) -> None:  # noqa: ANN401  # the type of its items
        length = self._read_length(_INT32)
        self._write_length(length, _INT32)
        for _ in range(length):
            if kafka_type == NO_TYPE:
                self.write_message(items)
            else:
                self._write_value(kafka_type)

    def _write_value(self, kafka_type: str) -> None:
        if kafka_type in FIXED_SIZES:
            value = self._read(FIXED_SIZES[kafka_type])
            if kafka_type == "bool":
                value = bytes([value != b"\0"])
            elif kafka_type == "timedelta_i64":
                (length_ms,) = _INT64.unpack(value)
                value = _INT64.pack(max(-LONGEST_MS, min(length_ms, LONGEST_MS)))
            self.body += value
            return
        is_text = kafka_type == "string"
        number = _INT16 if is_text else _INT32
        length = self._read_length(number)
        content = self._read(max(length, 0))
        if is_text and length > 0:
            content = content.decode("utf-8", "replace").encode()
            length = len(content)
        self._write_length(length, number)
        self.body += content

    def _read(self, size: int) -> bytes:
        begin, self._offset = self._offset, self._offset + size
        if self._offset > len(self._frame):
            raise IndexError
        return self._frame[begin : self._offset]

    def _read_length(self, number: struct.Struct) -> int:
        """Read a length; a negative one stands for null."""
        if self._is_flexible:
            length, self._offset = read_varint(self._frame, self._offset)
            return length - 1
        (length,) = number.unpack(self._read(number.size))
        return int(length)

    def _write_length(self, length: int, number: struct.Struct) -> None:
        if not self._is_flexible:
            self.body += number.pack(length)
            return
        rest = length + 1
        while rest >= 0x80:
            self.body.append(rest & 0x7F | 0x80)
            rest >>= 7
        self.body.append(rest)
