"""Instants are `timestamptz` in Postgres, and milliseconds since the epoch everywhere else."""

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, DateTime, Float, cast, extract, func, literal


def as_ms(column: ColumnElement[Any]) -> ColumnElement[int]:
    """Read an instant as milliseconds, cutting off what is finer; NULL stays NULL."""
    return cast(func.floor(extract("epoch", column) * 1000), BigInteger)


def from_ms(instant_ms: int) -> ColumnElement[Any]:
    """Write milliseconds as an instant."""
    return func.to_timestamp(literal(instant_ms / 1000, Float), type_=DateTime(timezone=True))
