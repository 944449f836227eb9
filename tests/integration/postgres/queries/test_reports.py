"""Contract tests: the newest report of each group, with its topics, and the reports of some days; in pages."""

from collections.abc import Mapping
from typing import Any

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from sqlalchemy import Executable, create_engine

from coordinator_core.queries.reports import (
    PARTS,
    REPORT_PARTS,
    REPORTS,
    Report,
    ReportFilter,
    ReportHistoryFilter,
    read_report_history,
    read_reports,
)
from coordinator_core.state_store.postgres.connections import Result, Transaction
from tests.support.report_rows import DAY, FREQUENCY, SPREAD, insert_reports, report
from tests.support.store_worlds import Query

DAY_MS = 86_400_000
FIRST_MS = int(DAY.timestamp() * 1_000)


def groups_of(query: Query, which: ReportFilter) -> list[tuple[str, int]]:
    return [place(row) for row in query(read_reports, which)]


def history_of(query: Query, **which: object) -> list[tuple[str, int]]:
    filter_ = ReportHistoryFilter("rebalances", **{"since_ms": 0, **which})  # type: ignore[arg-type]  # each test gives what fits
    return [place(row) for row in query(read_report_history, filter_)]


def place(row: Report) -> tuple[str, int]:
    """Return the group of a report, and its day."""
    return row["group_id"], (row["interval_start"] - DAY).days


def test_the_newest_report_of_each_group_comes_with_every_column(
    sql_connection: PsycopgConnection, query: Query
) -> None:
    new = report("b", day=2, of=FREQUENCY)
    insert_reports(sql_connection, "rebalances", [report("b", of=FREQUENCY), new, report("b", day=1, of=FREQUENCY)])
    assert query(read_reports, ReportFilter("rebalances")) == [new]
    assert set(new) == {column.name for column in REPORTS["rebalances"].columns}


def test_an_audit_comes_with_its_topics_and_with_no_others(sql_connection: PsycopgConnection, query: Query) -> None:
    topics = [report("a", of=SPREAD, topic=topic) for topic in ("z", "Z", "ä")]
    others = [report("a", day=-1, of=SPREAD, topic="old"), report("b", of=SPREAD, topic="else")]
    insert_reports(sql_connection, "assignments", [report("a"), report("a", day=-1)], [*topics, *others])
    (found,) = query(read_reports, ReportFilter("assignments"))
    assert found == {**report("a"), PARTS: [topics[1], topics[0], topics[2]]}
    assert set(topics[0]) == {column.name for column in REPORT_PARTS["assignments"].columns}


def test_an_audit_and_its_topics_are_of_the_same_run(database_url: str, sql_connection: PsycopgConnection) -> None:
    parts = [report("a", of=SPREAD, topic=topic) for topic in ("t", "u")]
    insert_reports(sql_connection, "assignments", [report("a")], parts)

    class Replaced(Transaction):
        """After its first statement, another run finds fewer topics."""

        def execute(self, statement: str | Executable, parameters: Mapping[str, Any] | None = None) -> Result:
            result = super().execute(statement, parameters)
            with sql_connection.cursor() as cursor:
                cursor.execute("DELETE FROM assignment_balance_topics WHERE topic = 'u'")
            return result

    engine = create_engine(database_url)
    with engine.connect() as connection:
        (found,) = read_reports(Replaced(connection, 10_000), ReportFilter("assignments"))
    engine.dispose()
    assert found == {**report("a"), PARTS: parts}


def test_reports_come_by_group_page_by_page(sql_connection: PsycopgConnection, query: Query) -> None:
    insert_reports(
        sql_connection, "assignments", [report(name, day) for name in ("b", "a", "ä", "B") for day in (0, 1)]
    )
    pages = [ReportFilter("assignments", after=after, limit=2) for after in (None, "a", "ä")]
    assert [groups_of(query, page) for page in pages] == [[("B", 1), ("a", 1)], [("b", 1), ("ä", 1)], []]


@pytest.mark.parametrize(("group_id", "found"), [("a", [("a", 0)]), ("nobody", [])])
def test_one_group_can_be_asked_for(
    sql_connection: PsycopgConnection, group_id: str, found: list[tuple[str, int]], query: Query
) -> None:
    insert_reports(sql_connection, "assignments", [report("a"), report("b")])
    assert groups_of(query, ReportFilter("assignments", group_ids=[group_id])) == found


@pytest.fixture
def three_days(sql_connection: PsycopgConnection) -> None:
    rows = [report(name, day, of=FREQUENCY) for name in ("a", "ä", "b") for day in (0, 1, 2)]
    insert_reports(sql_connection, "rebalances", rows)


def test_history_has_every_report_of_some_days_newest_first(three_days: None, query: Query) -> None:
    assert history_of(query, since_ms=FIRST_MS + DAY_MS, group_ids=["a", "b"]) == [
        ("b", 2),
        ("a", 2),
        ("b", 1),
        ("a", 1),
    ]
    assert len(history_of(query)) == 9
    assert history_of(query, group_ids=[]) == []


def test_history_is_paged(three_days: None, query: Query) -> None:
    whole = history_of(query)
    found: list[tuple[str, int]] = []
    while len(found) < len(whole):
        group_id, day = found[-1] if found else ("", 0)
        after = (FIRST_MS + (day + 1) * DAY_MS, FIRST_MS + day * DAY_MS, group_id) if found else None
        found += history_of(query, after=after, limit=4)
    assert found == whole


def test_history_of_audits_has_no_parts(sql_connection: PsycopgConnection, query: Query) -> None:
    insert_reports(sql_connection, "assignments", [report("a")], [report("a", of=SPREAD, topic="t")])
    assert query(read_report_history, ReportHistoryFilter("assignments", 0)) == [report("a")]


@pytest.mark.parametrize("subject", REPORTS)
def test_no_reports_without_a_job_run(subject: str, query: Query) -> None:
    assert query(read_reports, ReportFilter(subject)) == []
