"""Rows travel to Postgres as one array a column, and become rows again there through `unnest`.

One statement then takes any number of rows, and its text does not depend on how many. Arrays are written as
Postgres' own literals (``{1,2,NULL}``), because one long text is quicker to send and to read than thousands of
parameters. How a column is written follows from its type in `tables.py`; instants travel as milliseconds.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from sqlalchemy import ARRAY, Column, DateTime, LargeBinary, Text
from sqlalchemy.dialects.postgresql import JSONB, UUID
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2
from sqlalchemy.types import TypeEngine

Writer = Callable[[Sequence[Any]], str]
"""Writes a column's values as an array literal."""

_POSTGRES = PGDialect_psycopg2()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped


class Arrays:
    """Some columns, as the source of a statement.

    `source` is a SELECT that returns them under their names; `parameters` fills it.
    """

    def __init__(self, *columns: Column[Any]) -> None:
        self.columns = columns
        self._writers = tuple(_writer(column.type) for column in columns)
        self.column_list = ", ".join(quoted(column.name) for column in columns)
        self.source = self._select()
        self._read = attrgetter(*(_attribute(column) for column in columns))

    def values_of(self, row: object) -> tuple[Any, ...]:
        """Read a row's attributes, which are named as the columns are; those of instants end in `_ms`."""
        return self._read(row)

    def parameters(self, rows: Iterable[tuple[Any, ...]]) -> dict[str, str]:
        """Turn rows, each in the order of the columns, into the parameters of `source`."""
        columns = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        return {
            column.name: writer(values)
            for column, values, writer in zip(self.columns, columns, self._writers, strict=True)
        }

    def _select(self) -> str:
        wanted = ", ".join(f"{_reading(column)} AS {quoted(column.name)}" for column in self.columns)
        given = ", ".join(f"%({column.name})s::{_array_type(column.type)}" for column in self.columns)
        # Every name in it comes from tables.py.
        return f"SELECT {wanted} FROM unnest({given}) AS given ({self.column_list})"  # noqa: S608


def array_literal(values: Iterable[int | bool | None]) -> str:
    """Write an array of numbers; None becomes NULL."""
    # Postgres reads what Python writes of a list, but for the brackets and the name of nothing.
    return "{" + str(list(values))[1:-1].replace("None", "NULL") + "}"


def text_array(values: Sequence[str | None]) -> str:
    """Write an array of texts; None becomes NULL."""
    if None in values:
        return _array(values, _quoted_element)
    whole = '","'.join(values)  # type: ignore[arg-type]  # mypy does not see that none of them is None
    if "\\" in whole or whole.count('"') != 2 * (len(values) - 1):
        return _array(values, _quoted_element)
    return '{"' + whole + '"}' if values else "{}"


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
            write = _writer(item)
            return partial(_array, write_one=lambda values: _quoted_element(write(values)))
        case JSONB():
            return partial(_array, write_one=_json)
        case LargeBinary():
            return partial(_array, write_one=_bytes)
        case Text() | UUID():
            return text_array
        case _:
            return array_literal


def _array(values: Iterable[Any], write_one: Callable[[Any], str]) -> str:
    return "{" + ",".join(["NULL" if value is None else write_one(value) for value in values]) + "}"


def _quoted_element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json(value: Any) -> str:  # noqa: ANN401 - whatever JSON may hold
    return _quoted_element(json.dumps(value, separators=(",", ":")))


def _bytes(value: bytes) -> str:
    return f'"\\\\x{value.hex()}"'
