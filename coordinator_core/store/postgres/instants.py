"""Instants are `timestamptz` in Postgres, and milliseconds since the epoch everywhere else."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, DateTime, Float, Table, cast, extract, func, literal


def as_ms(column: ColumnElement[Any]) -> ColumnElement[int]:
    """Read an instant as milliseconds, cutting off what is finer; NULL stays NULL."""
    return cast(func.floor(extract("epoch", column) * 1000), BigInteger)


def from_ms(instant_ms: int) -> ColumnElement[Any]:
    """Write milliseconds as an instant."""
    return func.to_timestamp(literal(instant_ms / 1000, Float), type_=DateTime(timezone=True))


def columns_of(table: Table, names: Iterable[str]) -> list[ColumnElement[Any]]:
    """Return columns by the names of a row's attributes: an instant's ends in `_ms`."""
    return [table.c[name] if name in table.c else as_ms(table.c[name.removesuffix("_ms")]) for name in names]
