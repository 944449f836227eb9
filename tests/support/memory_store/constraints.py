"""Constraints of the in-memory store: rejects the texts and numbers that Postgres rejects.

It is stricter in one respect: Postgres does not receive a row that a later write of the same batch replaces.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

NUL = "\0"
INSTANTS_MS = range(-210_866_803_200_000, 9_224_318_016_000_000)
"""From 4714 BC to AD 294276."""

INT4 = range(-(2**31), 2**31)
INT8 = range(-(2**63), 2**63)
WIDE = frozenset({"offset", "log_end_offset", "commit_version", "topics_version", "place"})
"""Numbers of eight bytes; all others, except times, have four."""

NOT_INSTANTS = frozenset({"session_timeout_ms", "rebalance_timeout_ms"})
JSON = frozenset(
    {"subscription_json", "assignment_json", "ownership", "rebalance", "awaited_members", "before", "after"}
)
"""Fields that are stored as JSON, which accepts any number."""


def refusal(row: Any, name: str = "") -> str | None:  # noqa: ANN401 - rows hold texts, numbers, bytes, rows and JSON
    """Return why Postgres rejects a row, or a value that contains rows; None if it accepts it."""
    match row:
        case None | bool() | bytes() | float():
            return None
        case str():
            return _text_fault(name, row)
        case int():
            return _number_fault(name, row)
        case Mapping():
            return _first((name, part) for entry in row.items() for part in entry)
        case _:
            parts = _parts(type(row))  # type: ignore[arg-type]  # mypy doubts that classes have hashes
            return _first(((part, getattr(row, part)) for part in parts) if parts else ((name, part) for part in row))


def _first(parts: Iterable[tuple[str, Any]]) -> str | None:
    for name, part in parts:
        fault = None if part is None else refusal(part, name)
        if fault is not None:
            return fault
    return None


@lru_cache
def _parts(kind: type) -> tuple[str, ...]:
    """Return the names of a row's fields; empty for other types."""
    if is_dataclass(kind):
        return tuple(part.name for part in fields(kind))
    return tuple(getattr(kind, "__struct_fields__", ()) or getattr(kind, "_fields", ()))


def _text_fault(name: str, text: str) -> str | None:
    if NUL in text:
        return f"{name} has a NUL character"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return f"{name} has an unpaired surrogate"
    return None


def _number_fault(name: str, number: int) -> str | None:
    return None if name in JSON or number in _range_of(name) else f"{name} is out of range: {number}"


def _range_of(name: str) -> range:
    if name.endswith("_ms") and name not in NOT_INSTANTS:
        return INSTANTS_MS
    return INT8 if name in WIDE else INT4
