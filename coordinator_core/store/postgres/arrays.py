"""Rows travel to Postgres as one array a column, and become rows again there through `unnest`.

One statement then takes any number of rows, and its text does not depend on how many. Arrays are written as
Postgres' own literals (``{1,2,NULL}``), because one long text is quicker to send and to read than thousands of
parameters. How a column is written follows from its type in `tables.py`; instants travel as milliseconds.
"""

import json
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from sqlalchemy import ARRAY, Column, DateTime, LargeBinary, Text
from sqlalchemy.dialects.postgresql import JSONB, UUID
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2
from sqlalchemy.types import TypeEngine

Writer = Callable[[Any], str]

_POSTGRES = PGDialect_psycopg2()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped


class Arrays:
    """Some columns, as the source of a statement.

    `source` is a SELECT that returns them under their names; `parameters` fills it.
    """

    def __init__(self, *columns: Column[Any]) -> None:
        self._columns = columns
        self._writers = tuple(_writer(column.type) for column in columns)
        self.column_list = ", ".join(quoted(column.name) for column in columns)
        self.source = self._select()
        self._read = attrgetter(*(_attribute(column) for column in columns))

    def values_of(self, row: object) -> tuple[Any, ...]:
        """Read a row's attributes, which are named as the columns are; those of instants end in `_ms`."""
        return self._read(row)

    def parameters(self, rows: Iterable[tuple[Any, ...]]) -> dict[str, str]:
        """Turn rows, each in the order of the columns, into the parameters of `source`."""
        columns = list(zip(*rows, strict=True)) or [()] * len(self._columns)
        return {
            column.name: array_literal(values, writer)
            for column, values, writer in zip(self._columns, columns, self._writers, strict=True)
        }

    def _select(self) -> str:
        wanted = ", ".join(f"{_reading(column)} AS {quoted(column.name)}" for column in self._columns)
        given = ", ".join(f"%({column.name})s::{_array_type(column.type)}" for column in self._columns)
        # Every name in it comes from tables.py.
        return f"SELECT {wanted} FROM unnest({given}) AS given ({self.column_list})"  # noqa: S608


def array_literal(values: Iterable[Any], writer: Writer = str) -> str:
    """Write a Postgres array; None becomes NULL."""
    return "{" + ",".join(["NULL" if value is None else writer(value) for value in values]) + "}"


def quoted_element(text: str) -> str:
    """Write a text as an element of an array literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def quoted(name: str) -> str:
    """Write a column's name; some are words of SQL."""
    return f'"{name}"'


def _attribute(column: Column[Any]) -> str:
    return f"{column.name}_ms" if isinstance(column.type, DateTime) else column.name


def _array_type(kind: TypeEngine[Any]) -> str:
    match kind:
        case ARRAY():
            return "text[]"  # An array of arrays would have to be a rectangle.
        case DateTime():
            return "bigint[]"
        case _:
            return f"{_element_type(kind)}[]"


def _element_type(kind: TypeEngine[Any]) -> str:
    return kind.compile(dialect=_POSTGRES).partition(" COLLATE")[0]


def _reading(column: Column[Any]) -> str:
    match column.type:
        case ARRAY(item_type=item):
            return f"{quoted(column.name)}::{_element_type(item)}[]"
        case DateTime():
            return f"to_timestamp({quoted(column.name)}::double precision / 1000)"
        case _:
            return quoted(column.name)


def _writer(kind: TypeEngine[Any]) -> Writer:
    match kind:
        case ARRAY(item_type=item):
            return _nested(_writer(item))
        case JSONB():
            return _json
        case LargeBinary():
            return _bytes
        case Text() | UUID():
            return quoted_element
        case _:
            return str


def _nested(writer: Writer) -> Writer:
    return lambda values: quoted_element(array_literal(values, writer))


def _json(value: Any) -> str:  # noqa: ANN401 - whatever JSON may hold
    return quoted_element(json.dumps(value, separators=(",", ":")))


def _bytes(value: bytes) -> str:
    return f'"\\\\x{value.hex()}"'
