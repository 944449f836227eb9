"""Writes lines to the partition files; a line's customer decides its partition."""

from __future__ import annotations

import threading
from pathlib import Path
from zlib import crc32

from examples.word_count.errors import UserError

CUSTOMERS = ("ada", "barbara", "edsger", "grace", "ken", "leslie", "margaret", "niklaus")
PRODUCTS = ("bread", "cheese", "olives", "tea")


def line(number: int) -> str:
    """Return the line of this number: a customer and a product."""
    customer = CUSTOMERS[number % len(CUSTOMERS)]
    return f"{customer} orders {PRODUCTS[number % 7 % len(PRODUCTS)]}"


def produce(directory: Path, partitions: int, lines: int | None, pause_s: float, stopping: threading.Event) -> int:
    """Append lines with a pause after each until there are `lines` (None: until stopping); return how many.

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
