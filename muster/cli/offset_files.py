"""Offsets in files: CSV as kafka-consumer-groups reads and writes it, or JSON.

A line is topic,partition,offset, or group,topic,partition,offset if there are several groups. The first line may be
a header.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from muster.display import counted
from muster.errors import USAGE_EXIT_CODE, UserError
from muster.node_client import Json

STANDARD_INPUT: Final = "-"
HEADINGS: Final = ("group", "topic", "partition", "offset")
DIGITS_MAX: Final = 19
"""The digits of the largest offset."""


class Line(NamedTuple):
    """The offset of a partition; the group is None if the file has no group."""

    group_id: str | None
    topic: str
    partition: int
    offset: int


def read_lines(path: str) -> list[Line]:
    """Read a file of offsets in either format.

    Args:
        path: the file; "-" is the standard input.

    Raises:
        UserError: it cannot be read; the sentence names the line.
    """
    name = "stdin" if path == STANDARD_INPUT else path
    text = _text(path, name)
    lines = _from_json(text, name) if text.lstrip().startswith("{") else _from_csv(text, name)
    if not lines:
        raise UserError(f"{name} holds no offsets.", USAGE_EXIT_CODE)
    twice = _twice(lines)
    if twice is not None:
        raise UserError(f"{name} names {twice.topic} {twice.partition} twice.", USAGE_EXIT_CODE)
    return lines


def csv_of(lines: Iterable[Line]) -> str:
    """Return offsets as CSV, with the group first if the lines have one."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for line in lines:
        writer.writerow(line if line.group_id is not None else line[1:])
    return written.getvalue()


def _text(path: str, name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == STANDARD_INPUT else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{name} is not UTF-8.", USAGE_EXIT_CODE) from None
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.", USAGE_EXIT_CODE) from None
    except OSError as failure:
        raise UserError(f"{name} cannot be read ({failure.strerror}).", USAGE_EXIT_CODE) from failure


def _from_csv(text: str, name: str) -> list[Line]:
    rows: list[tuple[int, list[str]]] = []
    number = 0
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text, newline="")), 1):
            rows += [(number, row)] if any(row) else []
    except csv.Error as fault:  # A quote that does not end takes the rest of the file.
        raise UserError(f"{name} is not CSV from line {number + 1} on ({fault}).", USAGE_EXIT_CODE) from None
    if rows and tuple(cell.strip().lower() for cell in rows[0][1]) in {HEADINGS, HEADINGS[1:]}:
        rows = rows[1:]
    return [_line(row, f"Line {number} of {name}") for number, row in rows]


def _line(row: list[str], where: str) -> Line:
    if len(row) not in {3, 4}:
        raise UserError(
            f"{where} has {counted(len(row), 'column')}; topic,partition,offset are wanted.", USAGE_EXIT_CODE
        )
    group_id = row[0] if len(row) == 4 else None
    topic, partition, offset = row[-3:]
    return Line(group_id, topic, _number(partition, "partition", where), _number(offset, "offset", where))


def _from_json(text: str, name: str) -> list[Line]:
    """Read what `muster offsets export --format json` writes, or one group's `offsets` alone."""
    try:
        content = json.loads(text)
        groups = content.get("groups", [content])
        return [_entry(group.get("group_id"), each, name) for group in groups for each in group["offsets"]]
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise UserError(
            f"{name} is not JSON as muster offsets export writes it ({type(fault).__name__}: {fault}).", USAGE_EXIT_CODE
        ) from None


def _entry(group_id: str | None, each: Json, name: str) -> Line:
    partition, offset = (_number(str(each[field]), field, name) for field in ("partition", "offset"))
    return Line(group_id, str(each["topic"]), partition, offset)


def _number(text: str, what: str, where: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdigit()):
        raise UserError(f"{where}: the {what} {stripped!r} is no number from 0 on.", USAGE_EXIT_CODE)
    if len(stripped) > DIGITS_MAX:
        raise UserError(
            f"{where}: the {what} has {len(stripped):,} digits, and none has more than {DIGITS_MAX}.", USAGE_EXIT_CODE
        )
    return int(stripped)


def _twice(lines: list[Line]) -> Line | None:
    """Return the first line whose partition an earlier line has, too."""
    seen = set()
    for line in lines:
        if line[:3] in seen:
            return line
        seen.add(line[:3])
    return None
