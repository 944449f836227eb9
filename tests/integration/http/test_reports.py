"""Reports over HTTP: the newest row of each group, as a job has written it, on any node."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import fields
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from sqlalchemy import Table

from api.http.endpoints.reports import AssignmentReportResponse, RebalanceReportResponse, TopicBalance
from coordinator_core.store.reports import REPORT_PARTS, REPORTS, ReportKind
from tests.support.http_client import Client, fresh_id

DAY = datetime(2026, 11, 20, tzinfo=UTC)
RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
KEY = {"interval_start", "interval_end", "group_id", "shard_id", "run_id", "as_of"}
COLUMN_VALUES = {
    "BOOLEAN": True,
    "JSONB": {"admin": 2},
    "TEXT": "text",
    "TIMESTAMP": DAY,
    "DATETIME": DAY,
    "DOUBLE": 0.5,
}


def row(kind: ReportKind, group_id: str, day: int = 0, *, parts: bool = False, **columns: object) -> dict[str, Any]:
    """Build a row of a report with something in every column."""
    start = DAY + timedelta(days=day)
    key = {"interval_start": start, "interval_end": start + timedelta(days=1), "group_id": group_id, "shard_id": 1}
    table = (REPORT_PARTS if parts else REPORTS)[kind]
    expected = {
        column.name: COLUMN_VALUES.get(type(column.type).__name__.upper(), 7)
        for column in table.columns
        if column.name not in KEY
    }
    return {**key, "run_id": RUN_ID, "as_of": start, **expected, **columns}


def insert(connection: PsycopgConnection, table: str, *added: dict[str, Any]) -> None:
    with connection.cursor() as cursor:
        for each in added:
            values = [json.dumps(value) if isinstance(value, dict) else value for value in each.values()]
            columns, places = ", ".join(each), ", ".join(["%s"] * len(each))
            cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", values)  # noqa: S608 - our names


@pytest.fixture
def reported(rows: PsycopgConnection) -> Iterator[list[str]]:
    """Write reports on three groups, two of them on the first."""
    names = sorted(fresh_id() for _ in range(3))
    insert(rows, "rebalance_frequency_reports", *(row(ReportKind.REBALANCES, name) for name in names))
    insert(rows, "rebalance_frequency_reports", row(ReportKind.REBALANCES, names[0], 1, rebalances=9))
    insert(rows, "assignment_balance_audits", *(row(ReportKind.ASSIGNMENTS, name, score=70) for name in names))
    topics = (row(ReportKind.ASSIGNMENTS, names[0], parts=True, topic=topic) for topic in ("b", "a"))
    insert(rows, "assignment_balance_topics", *topics)
    yield names
    with rows.cursor() as cursor:
        cursor.execute("TRUNCATE rebalance_frequency_reports, assignment_balance_audits, assignment_balance_topics")


def test_every_column_is_shown() -> None:
    shown: dict[type[Struct], tuple[Table, set[str]]] = {
        RebalanceReportResponse: (REPORTS[ReportKind.REBALANCES], {"shard_id"}),
        AssignmentReportResponse: (REPORTS[ReportKind.ASSIGNMENTS], {"shard_id"}),
        TopicBalance: (REPORT_PARTS[ReportKind.ASSIGNMENTS], KEY),
    }
    for shape, (table, omitted_columns) in shown.items():
        names = {field.name for field in fields(shape)} - {"by_topic"}
        assert names == {column.name for column in table.columns} - omitted_columns


def test_the_newest_report_of_each_group_is_listed(client: Client, reported: list[str]) -> None:
    answer = client.ok("GET", "/v1/reports/rebalances")
    assert [each["group_id"] for each in answer["reports"]] == reported
    assert answer["next_cursor"] is None
    first = answer["reports"][0]
    assert (first["interval_end"], first["rebalances"], first["by_trigger"]) == (
        "2026-11-22T00:00:00Z",
        9,
        {"admin": 2},
    )


def test_an_audit_is_listed_with_its_topics(client: Client, reported: list[str]) -> None:
    (found,) = client.ok("GET", f"/v1/reports/assignments?group_id={reported[0]}")["reports"]
    assert (found["score"], [each["topic"] for each in found["by_topic"]]) == (70, ["a", "b"])


def test_the_list_is_paged_by_group(client: Client, reported: list[str]) -> None:
    first = client.ok("GET", "/v1/reports/assignments?limit=2")
    rest = client.ok("GET", f"/v1/reports/assignments?limit=2&cursor={first['next_cursor']}")
    assert [[each["group_id"] for each in page["reports"]] for page in (first, rest)] == [reported[:2], reported[2:]]
    assert rest["next_cursor"] is None


def test_group_without_reports_is_not_listed(client: Client, reported: list[str]) -> None:
    for what in ("rebalances", "assignments"):
        assert client.ok("GET", f"/v1/reports/{what}?group_id=unknown")["reports"] == []


@pytest.mark.parametrize("query", ["cursor=%25", "limit=0", "limit=1001", "grop_id=x"])
def test_invalid_report_query_is_rejected(client: Client, query: str) -> None:
    reply = client.call("GET", f"/v1/reports/rebalances?{query}")
    assert (reply.status, reply.json["code"]) == (400, "INVALID_REQUEST")
