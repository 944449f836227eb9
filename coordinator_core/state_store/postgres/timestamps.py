"""Conversion between `timestamptz` and milliseconds since the epoch."""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, DateTime, Float, Table, cast, extract, func, literal

END_OF_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999; as the time of a query it means now."""

SQL_MS: Final = "floor(extract(epoch FROM {}) * 1000)::bigint"
"""A time as milliseconds, rounded down, in a statement."""


def as_ms(column: ColumnElement[Any]) -> ColumnElement[int]:
    """Return a time as milliseconds, rounded down; NULL remains NULL."""
    return cast(func.floor(extract("epoch", column) * 1000), BigInteger)


def from_ms(instant_ms: int) -> ColumnElement[Any]:
    """Return milliseconds as a time."""
    return func.to_timestamp(literal(instant_ms / 1000, Float), type_=DateTime(timezone=True))


def columns_of(table: Table, names: Iterable[str]) -> list[ColumnElement[Any]]:
    """Return the columns for attribute names; the attribute of a time ends in `_ms`."""
    return [table.c[name] if name in table.c else as_ms(table.c[name.removesuffix("_ms")]) for name in names]
