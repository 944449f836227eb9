"""Somebody has to write the lines: each goes to the end of the file that its customer belongs to."""

from __future__ import annotations

import threading
from pathlib import Path
from zlib import crc32

from examples.word_count.errors import UserError

CUSTOMERS = ("ada", "barbara", "edsger", "grace", "ken", "leslie", "margaret", "niklaus")
THINGS = ("bread", "cheese", "olives", "tea")


def line(number: int) -> str:
    """Return the line of that number: who ordered what."""
    customer = CUSTOMERS[number % len(CUSTOMERS)]
    return f"{customer} orders {THINGS[number % 7 % len(THINGS)]}"


def produce(directory: Path, partitions: int, lines: int | None, pause_s: float, stopping: threading.Event) -> int:
    """Append lines, one after each pause, until there are so many (None: until stopping), and return how many.

    Raises:
        UserError: the files cannot be written.
    """
    name = directory.resolve().name
    written = 0
    try:
        directory.mkdir(parents=True, exist_ok=True)
        paths = [directory / f"{name}-{number}.log" for number in range(partitions)]
        for path in paths:
            path.touch()
        while not stopping.is_set() and (lines is None or written < lines):
            text = line(written)
            with paths[crc32(text.split()[0].encode()) % partitions].open("a") as file:
                file.write(text + "\n")
            written += 1
            if pause_s:
                stopping.wait(pause_s)
    except OSError as problem:
        raise UserError(f"cannot write to {directory}: {problem.strerror}") from None
    return written
