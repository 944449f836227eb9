"""Reader of Kafka's primitive types, from the front of a record's key or value.

Classic versions have lengths of 2 or 4 bytes, -1 for null. Flexible versions have compact lengths, which are varints
of the length plus one, 0 for null; their structures end with tagged fields.

Text is made fit for Postgres, which stores neither NUL nor half a surrogate pair: both become U+FFFD.
"""

import struct
from collections.abc import Callable
from typing import Final, TypeVar
from uuid import UUID

_Item = TypeVar("_Item")

REPLACEMENT: Final = "\ufffd"
TERMINATOR: Final = b"\0"
"""Ends the metadata of a commit of confluent-kafka, which commits the terminator of a C string too."""
NAME_MAX_BYTES: Final = 1_000
"""Longest name that is a key in Postgres, whose index rows have at most 2,704 bytes; some keys have two names."""
VARINT_BYTES: Final = 5
"""Kafka's longest unsigned varint."""
_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class UndecodableRecord(ValueError):
    """A record that cannot be decoded: its value has an unknown version, or its bytes do not fit its schema."""


def to_text(encoded: bytes) -> str:
    """Return the text of UTF-8 bytes; what is not UTF-8, and NUL, becomes U+FFFD."""
    text = encoded.decode("utf-8", "replace")
    return text.replace("\0", REPLACEMENT) if "\0" in text else text


def is_key(name: str) -> bool:
    """Return whether a name fits into a key of Postgres."""
    return len(name.encode()) <= NAME_MAX_BYTES


class RecordReader:
    """Reads fields one after another; past the end it raises `UndecodableRecord` or `struct.error`."""

    def __init__(self, data: bytes, at: int = 0, *, is_flexible: bool = False) -> None:
        """Read from a position.

        Args:
            data: the whole key or value.
            at: the position of the first field.
            is_flexible: whether lengths are compact and structures end with tagged fields.
        """
        self._data = data
        self._at = at
        self._is_flexible = is_flexible

    @property
    def position(self) -> int:
        """The position of the next field."""
        return self._at

    def end(self) -> None:
        """Check that there are no more bytes."""
        if self._at != len(self._data):
            raise UndecodableRecord(f"{len(self._data) - self._at} more bytes than the key has")

    def length(self) -> int:
        """Read the length of bytes or of an array, -1 for null."""
        return self._varint() - 1 if self._is_flexible else self.int32()

    def int8(self) -> int:
        """Read one byte."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Read two bytes."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Read four bytes."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Read eight bytes."""
        return self._number(_INT64)

    def uuid(self) -> UUID:
        """Read a UUID."""
        return UUID(bytes=self._take(16))

    def text(self) -> str:
        """Read text that is not null."""
        text = self.nullable_text()
        if text is None:
            raise UndecodableRecord(f"text before byte {self._at} is null")
        return text

    def name(self) -> str:
        """Read the id of a group or member, or the name of a topic, which must fit into a key of Postgres."""
        name = self.text()
        if not is_key(name):
            raise UndecodableRecord(f"the name before byte {self._at} is too long to be stored")
        return name

    def nullable_text(self) -> str | None:
        """Read text."""
        length = self._varint() - 1 if self._is_flexible else self.int16()
        return None if length < 0 else to_text(self._take(length))

    def data(self) -> bytes:
        """Read bytes that are not null."""
        return self._take(self.length())

    def items(self, read_item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Read an array that is not null."""
        length = self.length()
        if length < 0:
            raise UndecodableRecord(f"the array before byte {self._at} is null")
        return tuple([read_item() for _ in range(length)])

    def tagged_field(self, wanted: int) -> "RecordReader | None":
        """Read the tagged fields at the end of a structure; return a reader of one of them, None if it is absent.

        Classic versions have no tagged fields.
        """
        found = None
        for _ in range(self._varint() if self._is_flexible else 0):
            tag, size = self._varint(), self._varint()
            field = self._take(size)
            if tag == wanted:
                found = RecordReader(field, is_flexible=True)
        return found

    def skip_tagged_fields(self) -> None:
        """Skip the tagged fields at the end of a structure."""
        if self._is_flexible and self._data.startswith(b"\0", self._at):
            self._at += 1
        else:
            self.tagged_field(-1)

    def _number(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(value)

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise UndecodableRecord(f"{length} bytes wanted at byte {self._at} of {len(self._data)}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _varint(self) -> int:
        value = 0
        for position, byte in enumerate(self._data[self._at : self._at + VARINT_BYTES]):
            value |= (byte & 0x7F) << 7 * position
            if byte < 0x80:
                self._at += position + 1
                return value
        raise UndecodableRecord(f"the length at byte {self._at} of {len(self._data)} does not end")
