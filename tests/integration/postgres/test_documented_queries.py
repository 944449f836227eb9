"""Every query of the documentation runs as written, with the rights of a reader."""

import re
from uuid import UUID

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from scripts.reference_pages import DOCS

QUERIES = [
    pytest.param(query, id=f"{page.stem}-{number}")
    for page in sorted(DOCS.glob("*.md"))
    for number, query in enumerate(
        [
            *re.findall(r"^```sql\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL),
            *re.findall(r"`(SELECT [^`]+ FROM [^`]+)`", page.read_text()),
        ]
    )
    if not query.startswith(("ALTER", "CREATE", "GRANT"))
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_documented_query_runs(sql_connection: PsycopgConnection, query: str) -> None:
    with sql_connection.cursor() as cursor:
        cursor.execute("SET ROLE muster_reader")
        cursor.execute(query.replace("…", str(UUID(int=0))))
