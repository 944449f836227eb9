"""Order-independent checksums of rows, equal in Postgres and in Spark.

Rules:

* A row becomes text: its columns by name, each as its length in bytes, a colon, and its value; NULL is a dash.
* Two sums are computed over all rows: of the first and of the next 60 bits of the text's MD5. A missing, duplicate or
  different row changes both. They detect accidents, not forgery.
* Timestamps count in microseconds, Postgres' precision. Columns of unsupported types are refused: what cannot be
  compared is not archived.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg2.extensions as pg
from psycopg2.sql import SQL, Composable, Identifier
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.errors import JobError

TEXTS: Final = frozenset({"text", "uuid", "jsonb", "smallint", "integer", "bigint", "boolean", "date"})
INSTANTS: Final = frozenset({"timestamp with time zone"})
ARRAYS: Final = frozenset({"integer[]", "bigint[]", "text[]"})
NULL: Final = "-"
EVERY_ROW: Final = SQL("true")
HEX_DIGITS: Final = 15
"""Hexadecimal digits of one sum: 60 bits, which fit a bigint."""


@dataclass(frozen=True, slots=True)
class Sum:
    """A number of rows and their checksum."""

    row_count: int
    checksum: str

    def __add__(self, other: "Sum") -> "Sum":
        """Return the sum of the rows of both."""
        parts = zip(self.checksum.split("-"), other.checksum.split("-"), strict=True)
        checksum = "-".join(str(int(part) + int(others)) for part, others in parts)
        return Sum(self.row_count + other.row_count, checksum)


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column and its Postgres type."""

    name: str
    type: str


def sum_in_postgres(
    connection: pg.connection, relation: Composable, columns: Sequence[TypedColumn], where: Composable = EVERY_ROW
) -> Sum:
    """Count and sum the rows of a relation in Postgres."""
    row = SQL(" || ").join(_in_sql(column) for column in _ordered(columns))
    statement = SQL(
        "SELECT count(*), coalesce(sum(('x' || substr(digest, 1, {digits}))::bit(60)::bigint), 0)::text || '-'"
        " || coalesce(sum(('x' || substr(digest, {second}, {digits}))::bit(60)::bigint), 0)::text"
        " FROM (SELECT md5({row}) AS digest FROM {relation} WHERE {where}) AS digests"
    ).format(row=row, relation=relation, where=where, digits=SQL(str(HEX_DIGITS)), second=SQL(str(HEX_DIGITS + 1)))
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        found = cursor.fetchone()
    assert found is not None, "a sum always returns a row"
    return Sum(int(found[0]), str(found[1]))


def sum_in_spark(frame: DataFrame, columns: Sequence[TypedColumn]) -> Sum:
    """Count and sum the rows of a DataFrame."""
    digest = sf.md5(sf.concat(*(_in_spark(column) for column in _ordered(columns))))
    parts = [_sum_of(digest, first) for first in (1, HEX_DIGITS + 1)]
    found = frame.agg(sf.count("*"), sf.concat_ws("-", *parts)).first()
    assert found is not None, "a sum always returns a row"
    return Sum(int(found[0]), str(found[1]))


def _ordered(columns: Sequence[TypedColumn]) -> list[TypedColumn]:
    for column in columns:
        if column.type not in TEXTS | INSTANTS | ARRAYS:
            raise JobError(f"The column {column.name} has the type {column.type}, which the archive cannot compare.")
    return sorted(columns, key=lambda column: column.name)


def _in_sql(column: TypedColumn) -> Composable:
    value = SQL("{}::text")
    if column.type in INSTANTS:
        value = SQL("(extract(epoch FROM {}) * 1000000)::bigint::text")
    elif column.type in ARRAYS:
        value = SQL("array_to_string({}, ',', 'null')")
    text = value.format(Identifier(column.name))
    return SQL("coalesce(octet_length({text})::text || ':' || {text}, '-')").format(text=text)


def _in_spark(column: TypedColumn) -> Column:
    value = sf.col(column.name)
    if column.type in INSTANTS:
        value = sf.unix_micros(value)
    elif column.type in ARRAYS:
        value = sf.array_join(value.cast("array<string>"), ",", "null")
    text = value.cast("string")
    return sf.coalesce(sf.concat(sf.octet_length(text).cast("string"), sf.lit(":"), text), sf.lit(NULL))


def _sum_of(digest: Column, first: int) -> Column:
    number = sf.conv(sf.substring(digest, first, HEX_DIGITS), 16, 10).cast("decimal(20, 0)")
    return sf.coalesce(sf.sum(number), sf.lit(0)).cast("string")
