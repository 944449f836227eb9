"""A directory is a topic: its files `<directory>-<n>.log` are the partitions, and offsets are bytes.

A line counts when its newline is there, so a position always lies at the beginning of a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.word_count.errors import UserError

READ_BYTES_MAX: Final = 64 * 1024
"""The most that is read at once; one line may be longer."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole lines of one partition, and the offset behind the last of them."""

    lines: list[str]
    end: int


class Topic:
    """The files of one directory.

    Raises:
        UserError: the directory is not there, holds no partition, or leaves a number out.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.resolve().name
        self.partitions = self._count()

    def path(self, partition: int) -> Path:
        """Return the partition's file."""
        return self.directory / f"{self.name}-{partition}.log"

    def end(self, partition: int) -> int:
        """Return the offset of the record that is written next."""
        return self.path(partition).stat().st_size

    def read(self, partition: int, offset: int) -> Batch:
        """Return what whole lines there are from an offset on, not too many at once; perhaps none."""
        with self.path(partition).open("rb") as file:
            file.seek(offset)
            content = file.read(READ_BYTES_MAX)
            if b"\n" not in content:
                content += file.readline()
        whole = content[: content.rfind(b"\n") + 1]
        return Batch(whole.decode(errors="replace").splitlines(), offset + len(whole))

    def _count(self) -> int:
        if not self.directory.is_dir():
            raise UserError(f"there is no directory {self.directory}; `produce` makes one")
        pattern = re.compile(re.escape(self.name) + r"-(0|[1-9]\d*)\.log")
        numbers = sorted(int(found[1]) for each in self.directory.iterdir() if (found := pattern.fullmatch(each.name)))
        if not numbers:
            raise UserError(f"{self.directory} holds no partition; the first one would be {self.path(0).name}")
        if numbers != list(range(len(numbers))):
            raise UserError(f"{self.directory} lacks a partition: there are {numbers}, and they are numbered from 0")
        return len(numbers)
