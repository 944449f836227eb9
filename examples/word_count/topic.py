"""A directory as a topic: its files `<directory>-<n>.log` are the partitions, and offsets are byte positions.

Only lines that end with a newline are read, so a position is always the start of a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.word_count.errors import UserError

READ_BYTES_MAX: Final = 64 * 1024
"""Maximum number of bytes in one read; a single line may be longer."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Complete lines of one partition, and the offset after the last one."""

    lines: list[str]
    end: int


class Topic:
    """The files of one directory.

    Raises:
        UserError: the directory does not exist, holds no partition, or a number is missing.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.resolve().name
        self.partitions = self._count()

    def path(self, partition: int) -> Path:
        """Return the partition's file."""
        return self.directory / f"{self.name}-{partition}.log"

    def end(self, partition: int) -> int:
        """Return the log end offset: the size of the file."""
        return self.path(partition).stat().st_size

    def read(self, partition: int, offset: int) -> Batch:
        """Return complete lines from an offset on, about READ_BYTES_MAX bytes of them; possibly none."""
        with self.path(partition).open("rb") as file:
            file.seek(offset)
            content = file.read(READ_BYTES_MAX)
            if b"\n" not in content:
                content += file.readline()
        whole = content[: content.rfind(b"\n") + 1]
        return Batch(whole.decode(errors="replace").splitlines(), offset + len(whole))

    def _count(self) -> int:
        if not self.directory.is_dir():
            raise UserError(f"there is no directory {self.directory}; `produce` creates it")
        pattern = re.compile(re.escape(self.name) + r"-(0|[1-9]\d*)\.log")
        numbers = sorted(int(found[1]) for each in self.directory.iterdir() if (found := pattern.fullmatch(each.name)))
        if not numbers:
            raise UserError(f"{self.directory} holds no partition; the first one would be {self.path(0).name}")
        if numbers != list(range(len(numbers))):
            raise UserError(f"{self.directory} lacks a partition: it has {numbers}, and partitions are numbered from 0")
        return len(numbers)
