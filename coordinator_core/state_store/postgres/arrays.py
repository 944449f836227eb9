"""Rows as arrays: one array parameter per column, which `unnest` turns into rows again.

The text of a statement does not depend on the number of rows. Arrays are written as Postgres literals (``{1,2,NULL}``),
because one long text is faster to send and to parse than thousands of parameters. The type of a column in `tables.py`
decides its format; times are sent as milliseconds.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import ARRAY, Column, DateTime, LargeBinary, Text
from sqlalchemy.dialects.postgresql import JSONB, UUID
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2
from sqlalchemy.types import TypeEngine

from coordinator_core.state_store.postgres.failures import DataRefused

Writer = Callable[[Sequence[Any]], str]
"""Writes a column's values as an array literal."""


_POSTGRES = PGDialect_psycopg2()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped


class Arrays:
    """Columns as the source of a statement.

    `source` is a SELECT that returns the columns under their names; `parameters` returns its parameters.
    """

    def __init__(self, *columns: Column[Any]) -> None:
        self.columns = columns
        self._writers = tuple(_writer(column.type) for column in columns)
        self.column_list = ", ".join(quoted(column.name) for column in columns)
        self.source = self._select()
        self._read = attrgetter(*(_attribute(column) for column in columns))

    def values_of(self, row: object) -> tuple[Any, ...]:
        """Return the row's attributes with the names of the columns; the attribute of a time ends in `_ms`."""
        return self._read(row)

    def parameters(self, rows: Iterable[Sequence[Any]]) -> dict[str, str]:
        """Return the parameters of `source` for rows with values in the order of the columns."""
        return self.parameters_of_columns(list(zip(*rows, strict=True)) or [()] * len(self.columns))

    def parameters_of_columns(self, columns: Sequence[Sequence[Any]]) -> dict[str, str]:
        """Return the parameters of `source` for the values of each column."""
        return {
            column.name: writer(values)
            for column, values, writer in zip(self.columns, columns, self._writers, strict=True)
        }

    def _select(self) -> str:
        wanted = ", ".join(_reading(column, "given") for column in self.columns)
        given = ", ".join(map(_parameter, self.columns))
        # Every name in it comes from tables.py.
        return f"SELECT {wanted} FROM unnest({given}) AS given ({self.column_list})"  # noqa: S608


def array_literal(values: Iterable[int | bool | None]) -> str:
    """Return the literal of an array of numbers; None becomes NULL."""
    # Python's text of a list is almost Postgres' literal, except for the brackets and None.
    return "{" + str(list(values))[1:-1].replace("None", "NULL") + "}"


def number_array(values: Sequence[int | bool | None]) -> str:
    """Return the literal of a column of numbers; equal values, a frequent case, take a quarter of the time."""
    if values and values[0] == values[-1] and values.count(values[0]) == len(values):
        return "{" + ",".join(["NULL" if values[0] is None else str(values[0])] * len(values)) + "}"
    return array_literal(values)


def text_array(values: Sequence[str | None]) -> str:
    """Return the literal of an array of texts; None becomes NULL."""
    if None in values:
        return _array(values, _quoted_element)
    whole = '","'.join(values)  # type: ignore[arg-type]  # mypy does not see that none of them is None
    if "\\" in whole or whole.count('"') != 2 * (len(values) - 1):
        return _array(values, _quoted_element)
    return '{"' + whole + '"}' if values else "{}"


def quoted(name: str) -> str:
    """Return a column's name in quotes; some names are SQL keywords."""
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


def _parameter(column: Column[Any]) -> str:
    return f"%({column.name})s::{_array_type(column.type)}"


def _reading(column: Column[Any], of: str) -> str:
    name, sent = quoted(column.name), f"{of}.{quoted(column.name)}"
    match column.type:
        case ARRAY(item_type=item):
            return f"{sent}::{_element_type(item)}[] AS {name}"
        case DateTime():
            return f"to_timestamp({sent}::double precision / 1000) AS {name}"
        case _:
            return f"{sent} AS {name}"


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
            return number_array


def _array(values: Iterable[Any], write_one: Callable[[Any], str]) -> str:
    return "{" + ",".join(["NULL" if value is None else write_one(value) for value in values]) + "}"


def _quoted_element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json(value: Any) -> str:  # noqa: ANN401 - whatever JSON may hold
    try:
        return _quoted_element(msgspec.json.encode(value).decode())
    except UnicodeEncodeError as failure:
        raise DataRefused(f"a text cannot be stored: {failure.reason}") from failure


def _bytes(value: bytes) -> str:
    return f'"\\\\x{value.hex()}"'
