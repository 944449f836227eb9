"""Contract tests: the newest report of each group, with its topics, in pages."""

import pytest

from coordinator_core.store.interface import Store
from coordinator_core.store.reports import PARTS, REPORT_PARTS, REPORTS, ReportFilter, ReportKind
from tests.support.report_rows import DAY, FREQUENCY, SPREAD, report
from tests.support.store_worlds import World


def groups_of(store: Store, which: ReportFilter) -> list[tuple[str, int]]:
    return [(row["group_id"], (row["interval_start"] - DAY).days) for row in store.reports(which)]


def test_the_newest_report_of_each_group_comes_with_every_column(world: World, store: Store) -> None:
    new = report("b", day=2, of=FREQUENCY)
    world.report(ReportKind.REBALANCES, [report("b", of=FREQUENCY), new, report("b", day=1, of=FREQUENCY)])
    assert store.reports(ReportFilter(ReportKind.REBALANCES)) == [new]
    assert set(new) == {column.name for column in REPORTS[ReportKind.REBALANCES].columns}


def test_an_audit_comes_with_its_topics_and_with_no_others(world: World, store: Store) -> None:
    topics = [report("a", of=SPREAD, topic=topic) for topic in ("z", "Z", "ä")]
    others = [report("a", day=-1, of=SPREAD, topic="old"), report("b", of=SPREAD, topic="else")]
    world.report(ReportKind.ASSIGNMENTS, [report("a"), report("a", day=-1)], [*topics, *others])
    (found,) = store.reports(ReportFilter(ReportKind.ASSIGNMENTS))
    assert found == {**report("a"), PARTS: [topics[1], topics[0], topics[2]]}
    assert set(topics[0]) == {column.name for column in REPORT_PARTS[ReportKind.ASSIGNMENTS].columns}


def test_reports_come_by_group_page_by_page(world: World, store: Store) -> None:
    world.report(ReportKind.ASSIGNMENTS, [report(name, day) for name in ("b", "a", "ä", "B") for day in (0, 1)])
    pages = [ReportFilter(ReportKind.ASSIGNMENTS, after=after, limit=2) for after in (None, "a", "ä")]
    assert [groups_of(store, page) for page in pages] == [[("B", 1), ("a", 1)], [("b", 1), ("ä", 1)], []]


@pytest.mark.parametrize(("group_id", "found"), [("a", [("a", 0)]), ("nobody", [])])
def test_one_group_can_be_asked_for(world: World, store: Store, group_id: str, found: list[tuple[str, int]]) -> None:
    world.report(ReportKind.ASSIGNMENTS, [report("a"), report("b")])
    assert groups_of(store, ReportFilter(ReportKind.ASSIGNMENTS, group_id=group_id)) == found


@pytest.mark.parametrize("kind", ReportKind)
def test_no_reports_without_a_job_run(store: Store, kind: ReportKind) -> None:
    assert store.reports(ReportFilter(kind)) == []
