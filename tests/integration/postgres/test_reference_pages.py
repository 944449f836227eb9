"""Generated parts of pages match `make docs`, and are complete."""

import re
from pathlib import Path

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.jobs import JOBS
from coordinator_core.protocol.setting_rules import CLUSTER_RULES
from muster.settings import Settings
from scripts.reference_pages import DOCS, JOB_PARTS, PAGES, PART, declared_settings, read_tables, rendered


def parts(page: str) -> dict[str, list[str]]:
    """Return the names of a page's generated parts by kind."""
    found: dict[str, list[str]] = {}
    for _, kind, name, _ in PART.findall((DOCS / page).read_text()):
        found.setdefault(kind, []).append(name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_page_equals_the_output_of_make_docs(page: Path, sql_connection: PsycopgConnection) -> None:
    written = page.read_text()

    assert rendered(written, sql_connection) == written, "run make docs"


def test_every_setting_has_a_description_on_the_page() -> None:
    described = [name for class_name in parts("settings.md")["settings"] for name in declared_settings(class_name)]

    assert set(described) == {*Settings.model_fields, *CLUSTER_RULES}


def test_every_table_is_on_the_page(sql_connection: PsycopgConnection) -> None:
    reports = {name for job in JOBS.values() for table in job.reports for name in (table, f"{table}_staging")}

    assert set(parts("tables.md")["table"]) | reports == set(read_tables(sql_connection))


def test_every_generated_part_on_jobs_is_on_a_page() -> None:
    assert {name for page in PAGES for name in parts(page.name).get("jobs", [])} == set(JOB_PARTS)


def test_every_table_and_view_has_a_description(sql_connection: PsycopgConnection) -> None:
    assert [name for name, (description, _) in read_tables(sql_connection).items() if not description] == []


def test_a_changed_comment_changes_the_page(sql_connection: PsycopgConnection) -> None:
    with sql_connection.cursor() as cursor:
        cursor.execute("COMMENT ON COLUMN members.member_id IS 'the key of a member'")

    assert "the key of a member" in rendered((DOCS / "tables.md").read_text(), sql_connection)


def test_a_part_that_names_no_table_is_an_error(sql_connection: PsycopgConnection) -> None:
    with pytest.raises(KeyError, match="no_such_table"):
        rendered("<!-- generated: table no_such_table -->\n<!-- end -->", sql_connection)


def test_generated_parts_are_closed() -> None:
    for page in PAGES:
        text = page.read_text()
        assert len(re.findall("<!-- generated: ", text)) == len(PART.findall(text)) == text.count("<!-- end -->")
