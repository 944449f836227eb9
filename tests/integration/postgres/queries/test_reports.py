"""Contract tests: the newest report of each group, with its topics, in pages."""

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.queries.reports import PARTS, REPORT_PARTS, REPORTS, ReportFilter, read_reports
from tests.support.report_rows import DAY, FREQUENCY, SPREAD, insert_reports, report
from tests.support.store_worlds import Query


def groups_of(query: Query, which: ReportFilter) -> list[tuple[str, int]]:
    return [(row["group_id"], (row["interval_start"] - DAY).days) for row in query(read_reports, which)]


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
    assert groups_of(query, ReportFilter("assignments", group_id=group_id)) == found


@pytest.mark.parametrize("subject", REPORTS)
def test_no_reports_without_a_job_run(subject: str, query: Query) -> None:
    assert query(read_reports, ReportFilter(subject)) == []
