"""Check that a day of history was copied: its Parquet files are in the node's archive and hold as many rows.

A job reports where the copy of a day is and how many rows it has. A node checks both before it drops the day:

* The directory is the one that copies of this table and day are written to, below the archive that the node's own
  setting names.
* The row counts in the footers of its Parquet files add up to the number of rows that the day has in Postgres.

The rows are not decoded: the job has compared their checksum. A node reads directories that are mounted on its machine.
In an archive elsewhere (`s3a://…`) it finds no copy, and drops nothing unless the check is turned off.

Whatever the directory contains, the check ends soon and changes nothing: it reads regular files only, and a limited
part of a limited number of them.

Source: https://parquet.apache.org/docs/file-format/, and Thrift's compact protocol, in which footers are written.
"""

import os
import stat
import struct
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from coordinator_core.state_store.partition_drop import ClaimedCopy

MAGIC: Final = b"PAR1"
TAIL: Final = struct.Struct("<I4s")
"""The footer's length and the magic bytes, at the end of a file."""
FILES_MAX: Final = 1_000
"""The maximum number of files of a copy; a job writes as many as it has read partitions."""
FOOTER_READ_MAX_BYTES: Final = 65_536
"""How much of a footer is read: the number of rows follows the schema, which is short."""
NUM_ROWS: Final = 3
"""The field of the footer that holds the number of rows."""


class ArchiveFiles:
    """The archive as this node sees it."""

    def __init__(self, uri: str, *, is_checked: bool) -> None:
        """Name the archive's directory (`file:///…` or a path); without `is_checked` every copy counts as present."""
        self._uri = uri
        self._is_checked = is_checked

    def has(self, copy: ClaimedCopy) -> bool:
        """Return whether the copy is there and has as many rows as the job reported."""
        if not self._is_checked:
            return True
        try:
            # Jobs create the archive, maybe after this node has started.
            root, directory = _local(self._uri), _local(copy.path)
            if root is None or directory is None:
                return False
            root, directory = root.resolve(), directory.resolve()
            if not directory.is_relative_to(root):
                return False
            if directory.relative_to(root).parts[:-1] != (copy.table, f"day={copy.day}"):
                return False
            files = list(islice(directory.glob("*.parquet"), FILES_MAX + 1))
            return len(files) <= FILES_MAX and sum(map(count_rows, files)) == copy.row_count
        except (OSError, ValueError, RuntimeError):  # pathlib reports a link to itself as a RuntimeError
            return False


def count_rows(file: Path) -> int:
    """Return the number of rows that a Parquet file's footer states.

    Raises:
        OSError: It cannot be opened, or is a symbolic link.
        ValueError: It is no Parquet file, or an incomplete one.
    """
    with open(file, "rb", opener=_open_regular) as opened:
        size = opened.seek(0, 2)
        if size < TAIL.size + len(MAGIC):
            raise ValueError(f"{file} is too short for a Parquet file")
        opened.seek(size - TAIL.size)
        length, magic = TAIL.unpack(opened.read(TAIL.size))
        if magic != MAGIC or length > size - TAIL.size - len(MAGIC):
            raise ValueError(f"{file} is no Parquet file")
        opened.seek(size - TAIL.size - length)
        footer = opened.read(min(length, FOOTER_READ_MAX_BYTES))
    try:
        row_count = _Compact(footer).find_integer(NUM_ROWS)
    except (IndexError, RecursionError):
        raise ValueError(f"the footer of {file} is incomplete") from None
    if row_count < 0:
        raise ValueError(f"the footer of {file} states {row_count} rows")
    return row_count


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file without following a link, and without waiting for the writer of a pipe."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is no regular file, so no Parquet file")
    return descriptor


def _local(uri: str) -> Path | None:
    """Return the path on this machine that a URI or a path names; None for another scheme.

    Hadoop, with which jobs write, takes the path of a URI as it is; other programs percent-encode it.
    """
    scheme, colon, rest = uri.partition(":")
    if colon and scheme == "file":
        path = Path("/" + rest.lstrip("/"))
        return path if path.exists() else Path(unquote(str(path)))
    return Path(uri) if uri.startswith("/") else None


STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
INTEGERS: Final = frozenset({4, 5, 6})
LONG_LIST: Final = 15


class _Compact:
    """Reads just enough of Thrift's compact protocol to find a number among a struct's fields."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def find_integer(self, wanted: int) -> int:
        """Return the integer field of that number; raises ValueError if the struct has none."""
        number = 0
        while (kind := self._next_field(number)) is not None:
            number, of = kind
            if number == wanted and of in INTEGERS:
                return self._zigzag()
            self._skip(of)
        raise ValueError(f"there is no field {wanted}")

    def _next_field(self, previous: int) -> tuple[int, int] | None:
        header = self._byte()
        if header == STOP:
            return None
        step, kind = header >> 4, header & 0x0F
        return (previous + step if step else self._zigzag()), kind

    def _skip(self, kind: int) -> None:
        if kind in {TRUE, FALSE}:
            return
        if kind == BYTE:
            self._at += 1
        elif kind in INTEGERS:
            self._varint()
        elif kind == DOUBLE:
            self._at += 8
        elif kind == BINARY:
            length = self._varint()
            self._at += length
        elif kind in {LIST, SET}:
            self._skip_list()
        elif kind == STRUCT:
            number = 0
            while (field := self._next_field(number)) is not None:
                number, of = field
                self._skip(of)
        else:
            raise ValueError(f"a footer has no value of kind {kind}")

    def _skip_list(self) -> None:
        header = self._byte()
        count, kind = header >> 4, header & 0x0F
        if count == LONG_LIST:
            count = self._varint()
        if count > len(self._data) - self._at:  # each element has at least one byte
            raise IndexError(count)
        for _ in range(count):
            self._skip(BYTE if kind in {TRUE, FALSE} else kind)

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]
