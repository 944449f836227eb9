"""Reports, read back: of each group the newest, with its parts, page by page; the same from both stores."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from coordinator_core.store.interface import Store
from coordinator_core.store.reports import PARTS, REPORT_PARTS, REPORTS, ReportFilter, ReportKind
from tests.contract.builders import SHARD, uuid_of
from tests.contract.conftest import World

DAY = datetime(2026, 11, 20, tzinfo=UTC)
SPREAD = {
    **dict.fromkeys(("members", "idle_members", "partitions", "unassigned", "partitions_max", "score"), 3),
    **dict.fromkeys(("best_partitions_max", "misplaced", "moved", "moves_needed"), 2),
    "partitions_mean": 1.5,
    "lag_max": None,
    "lag_mean": 0.25,
    "has_better": True,
}
AUDIT = {**SPREAD, "generation": 4, "topics": 1, "score_before": None, "trend": "first"}
FREQUENCY = {
    **dict.fromkeys(("rebalances", "completed", "emptied", "abandoned", "restarts", "storms", "stormy_rebalances"), 1),
    **dict.fromkeys(("took_ms_p50", "took_ms_p95", "took_ms_max", "took_ms_total", "rebalancing_ms"), 7),
    **dict.fromkeys(("lived_ms", "waited_for_client_host", "waited_for_members")),
    **dict.fromkeys(("waited_for_member_id", "waited_for_instance_id", "waited_for_client_id", "waited_for_ms")),
    "by_trigger": {"admin": 1},
    "rebalancing_share": 0.5,
    "evicted": 2,
    "spuriously_evicted": 1,
    "unsettled_since": DAY,
    "never_settles": False,
}


def report(group_id: str, day: int = 0, of: dict[str, Any] = AUDIT, **columns: object) -> dict[str, Any]:
    start = DAY + timedelta(days=day)
    key = {"interval_start": start, "interval_end": start + timedelta(days=1), "group_id": group_id, "shard_id": SHARD}
    return {**key, "run_id": uuid_of("run"), "as_of": start, **of, **columns}


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
def test_where_no_job_has_told_there_are_no_reports(store: Store, kind: ReportKind) -> None:
    assert store.reports(ReportFilter(kind)) == []
