"""Grants of docs/tables.md."""

import re

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from scripts.reference_pages import DOCS, read_tables

DOC = DOCS / "tables.md"


def test_the_page_lists_the_tables_that_jobs_insert_into(sql_connection: PsycopgConnection) -> None:
    chapter = DOC.read_text().partition("\n## Reports\n")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^### `([a-z_]+)`", chapter, re.MULTILINE))
    staged = {table for table in read_tables(sql_connection) if table.endswith("_staging")}
    with sql_connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.table_privileges"
            " WHERE grantee = 'muster_jobs' AND privilege_type = 'INSERT'"
        )
        assert documented | staged == {table for (table,) in cursor.fetchall()}
