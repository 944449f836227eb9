"""What Postgres does not take is refused here as well: texts it cannot hold, and numbers that fit no column."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

NUL = "\0"
INSTANTS_MS = range(-210_866_803_200_000, 9_224_318_016_000_000)
"""From 4714 BC to AD 294276."""

INT4 = range(-(2**31), 2**31)
INT8 = range(-(2**63), 2**63)
WIDE = frozenset({"offset", "log_end_offset", "commit_version", "topics_version"})
"""Numbers that have eight bytes; instants apart, all others have four."""

NOT_INSTANTS = frozenset({"session_timeout_ms", "rebalance_timeout_ms"})
JSON = frozenset({"subscription_json", "assignment_json", "held", "rebalance", "before", "after"})
"""What is kept as JSON: any number will do there."""


def refusal(row: object) -> str | None:
    """Say what is wrong with a row, or with anything that is made of rows; None when nothing is."""
    return next(_faults("", row), None)


def _faults(name: str, value: Any) -> Iterator[str]:  # noqa: ANN401 - rows hold texts, numbers, bytes, rows and JSON
    match value:
        case str():
            yield from _text_faults(name, value)
        case bool() | bytes() | float() | None:
            return
        case int():
            if name not in JSON:
                yield from _number_faults(name, value)
        case Mapping():
            for key, entry in value.items():
                yield from _text_faults(name, key)
                yield from _faults(name, entry)
        case _ if is_dataclass(value):
            for part in fields(value):
                yield from _faults(part.name, getattr(value, part.name))
        case _ if hasattr(value, "_asdict"):
            for part_name, part in value._asdict().items():
                yield from _faults(part_name, part)
        case _:
            for entry in value:
                yield from _faults(name, entry)


def _text_faults(name: str, text: str) -> Iterator[str]:
    if NUL in text:
        yield f"{name} holds a NUL"
    elif not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        yield f"{name} holds an unpaired surrogate"


def _number_faults(name: str, number: int) -> Iterator[str]:
    if number not in _range_of(name):
        yield f"{name} is out of range: {number}"


def _range_of(name: str) -> range:
    if name.endswith("_ms") and name not in NOT_INSTANTS:
        return INSTANTS_MS
    return INT8 if name in WIDE else INT4
