"""Reports over HTTP: the newest row of each group, or those of some days, as a job has written them, on any node."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.jobs import JOBS, JobSpec
from coordinator_core.state_store.report_tables import column_types
from tests.integration.http.openapi import answer_fits
from tests.support.http_client import Client, fresh_id
from tests.support.report_rows import DAY, complete_row

KEY = {"interval_start", "interval_end", "group_id", "run_id", "as_of"}
REPORTING = [job for job in JOBS.values() if job.is_report]


def insert(connection: PsycopgConnection, table: str, *added: dict[str, Any]) -> None:
    with connection.cursor() as cursor:
        for each in added:
            values = [json.dumps(value) if isinstance(value, dict | list) else value for value in each.values()]
            columns, places = ", ".join(each), ", ".join(["%s"] * len(each))
            cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", values)  # noqa: S608 - our names


@pytest.fixture
def reported(rows: PsycopgConnection) -> Iterator[list[str]]:
    """Write every report on three groups, two of each on the first, with parts."""
    names = sorted(fresh_id() for _ in range(3))
    for job in REPORTING:
        table, *parts = job.reports
        insert(rows, table, *(complete_row(table, name) for name in names), complete_row(table, names[0], 1))
        for part in parts:
            insert(rows, part, *(complete_row(part, names[0], 1, topic=topic) for topic in ("b", "a")))
    yield names
    with rows.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(table for job in REPORTING for table in job.reports)}")


@pytest.mark.parametrize("job", REPORTING, ids=lambda job: job.name)
def test_every_report_is_listed_with_every_column(client: Client, reported: list[str], job: JobSpec) -> None:
    (found,) = client.ok("GET", f"/v1/reports/{job.subject}?group_id={reported[0]}")["reports"]
    table, *part_tables = job.reports
    parts = found.pop("by_topic", [])
    assert found.keys() == column_types(table).keys() - {"shard_id"}
    assert None not in found.values()
    assert len(parts) == 2 * len(part_tables)
    for part, names in zip(parts, [column_types(table).keys() for table in part_tables] * 2, strict=True):
        assert part.keys() == names - {"shard_id"} - KEY


def test_the_newest_report_of_each_group_is_listed(client: Client, reported: list[str]) -> None:
    answer = client.ok("GET", "/v1/reports/rebalances")
    assert [each["group_id"] for each in answer["reports"]] == reported
    assert answer["next_cursor"] is None
    first = answer["reports"][0]
    assert (first["interval_end"], first["rebalances"], first["by_trigger"]) == (
        "2026-11-22T00:00:00Z",
        7,
        {"admin": 2},
    )


def test_an_audit_is_listed_with_its_topics(client: Client, reported: list[str]) -> None:
    (found,) = client.ok("GET", f"/v1/reports/assignments?group_id={reported[0]}")["reports"]
    assert (found["score"], [each["topic"] for each in found["by_topic"]]) == (7, ["a", "b"])


def test_the_list_is_paged_by_group(client: Client, reported: list[str]) -> None:
    first = client.ok("GET", "/v1/reports/assignments?limit=2")
    rest = client.ok("GET", f"/v1/reports/assignments?limit=2&cursor={first['next_cursor']}")
    assert [[each["group_id"] for each in page["reports"]] for page in (first, rest)] == [reported[:2], reported[2:]]
    assert rest["next_cursor"] is None


@pytest.fixture
def history(rows: PsycopgConnection) -> Iterator[tuple[str, str]]:
    """Write audits of two groups on the last three days, with topics, and an old one."""
    one, other = fresh_id("a"), fresh_id("b")
    today = (datetime.now(UTC) - DAY).days
    days = [complete_row("assignment_balance_audits", name, today - ago) for name in (one, other) for ago in (1, 2, 3)]
    insert(rows, "assignment_balance_audits", complete_row("assignment_balance_audits", one, today - 30), *days)
    insert(rows, "assignment_balance_topics", complete_row("assignment_balance_topics", one, today - 1, topic="t"))
    yield one, other
    with rows.cursor() as cursor:
        cursor.execute("TRUNCATE assignment_balance_audits, assignment_balance_topics")


def test_reports_of_some_days_are_listed_newest_first_without_topics(client: Client, history: tuple[str, str]) -> None:
    one, other = history
    asked = f"/v1/reports/assignments?days=7&group_id={one}&group_id={other}&limit=4"
    first = client.ok("GET", asked)
    rest = client.ok("GET", f"{asked}&cursor={first['next_cursor']}")
    found = [*first["reports"], *rest["reports"]]
    assert [each["group_id"] for each in found] == [other, one] * 3
    assert [each["interval_end"] for each in found] == sorted((each["interval_end"] for each in found), reverse=True)
    assert not any("by_topic" in each for each in found)
    assert (len(first["reports"]), rest["next_cursor"]) == (4, None)
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/reports/assignments", first)
    assert len(client.ok("GET", f"/v1/reports/assignments?days=7&group_id={one}")["reports"]) == 3
    assert len(client.ok("GET", f"/v1/reports/assignments?days=60&group_id={one}")["reports"]) == 4


def test_group_without_reports_is_not_listed(client: Client, reported: list[str]) -> None:
    for what in ("rebalances", "assignments"):
        assert client.ok("GET", f"/v1/reports/{what}?group_id=unknown")["reports"] == []


@pytest.mark.parametrize(
    "query", ["cursor=%25", "limit=0", "limit=1001", "grop_id=x", "days=0", "days=3651", "days=1&cursor=WyJhIl0"]
)
def test_invalid_report_query_is_rejected(client: Client, query: str) -> None:
    reply = client.call("GET", f"/v1/reports/rebalances?{query}")
    assert (reply.status, reply.json["code"]) == (400, "INVALID_REQUEST")
