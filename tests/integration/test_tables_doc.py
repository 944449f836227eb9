"""`docs/tables.md` tells of every table, view and column that there is, in its order, and every query in it runs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

DOC = Path(__file__).parents[2] / "docs" / "tables.md"

SCHEMA = """
SELECT CASE nspname WHEN 'public' THEN relname ELSE nspname || '.' || relname END, attname,
    replace(format_type(atttypid, atttypmod), 'timestamp with time zone', 'timestamptz')
FROM pg_attribute
JOIN pg_class ON pg_class.oid = attrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname IN ('public', 'dashboards') AND relkind IN ('r', 'p', 'v') AND NOT relispartition
    AND relname <> 'alembic_version' AND attnum > 0 AND NOT attisdropped
ORDER BY attrelid, attnum
"""

Columns = list[tuple[str, str]]


@pytest.fixture
def schema(sql_connection: PsycopgConnection) -> dict[str, Columns]:
    tables: dict[str, Columns] = {}
    with sql_connection.cursor() as cursor:
        cursor.execute(SCHEMA)
        for table, column, kind in cursor.fetchall():
            tables.setdefault(table, []).append((column, kind))
    return tables


def documented() -> dict[str, Columns]:
    tables: dict[str, Columns] = {}
    columns: Columns = []
    for line in DOC.read_text().splitlines():
        if heading := re.fullmatch(r"### `([a-z_.]+)`", line):
            tables[heading[1]] = columns = []
        elif row := re.match(r"\| `([a-z][a-z0-9_]*)` \| ([a-z\[\] ]+) \|", line):
            columns.append((row[1], row[2]))
    return tables


def test_every_table_and_view_is_explained(schema: dict[str, Columns]) -> None:
    assert documented().keys() == schema.keys()


def test_every_column_is_explained_with_its_type(schema: dict[str, Columns]) -> None:
    assert len(schema) > 15
    for table, columns in documented().items():
        assert columns == schema[table], table


def test_what_jobs_may_write_is_told_table_by_table(
    sql_connection: PsycopgConnection, schema: dict[str, Columns]
) -> None:
    sentence = DOC.read_text().partition("`muster_jobs` can insert and delete reports")[2].partition(")")[0]
    told = set(re.findall(r"`([a-z_]+)`", sentence))
    staged = {table for table in schema if table.endswith("_staging")}
    with sql_connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.table_privileges"
            " WHERE grantee = 'muster_jobs' AND privilege_type = 'INSERT'"
        )
        assert told | staged == {table for (table,) in cursor.fetchall()}


def queries() -> Iterator[str]:
    yield from re.findall(r"```sql\n(.*?)```", DOC.read_text(), re.DOTALL)


def test_every_query_runs(sql_connection: PsycopgConnection) -> None:
    assert list(queries())
    for query in queries():
        with sql_connection.cursor() as cursor:
            cursor.execute(query)
