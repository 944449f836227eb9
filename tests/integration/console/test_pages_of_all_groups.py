"""The pages about all groups: reports show the worst groups first with their trends, the overview counts; both link."""

import re
from datetime import UTC, datetime

from playwright.sync_api import Page, expect

from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node
from tests.support.report_rows import AUDIT, DAY, FREQUENCY, complete_row, insert_reports, report

FORECASTS = """
INSERT INTO maintenance_runs (run_id, kind, as_of, status)
VALUES ('0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d', 'offset_retention', now() - interval '1 min', 'applied');
INSERT INTO offset_expiry_forecasts (group_id, shard_id, interval_start, interval_end, run_id, as_of, within_a_day,
    within_a_week, next_expiry_at)
SELECT %(group_id)s, 1, as_of, as_of, run_id, as_of, 4, 6, as_of + interval '1 hour' FROM maintenance_runs
"""


def test_reports_show_the_worst_groups_first(page: Page, node: Node, samples: SampleGroups) -> None:
    page.goto(f"{node.url}/#/reports")
    expect(page.get_by_role("main")).to_contain_text(
        "No report yet: the DAG rebalance_frequency_report writes one a day"
    )

    calm = {**FREQUENCY, "rebalances": 0, "rebalancing_share": 0.0}
    frequency = [
        report("calm", of=calm),
        report("busy", of={**FREQUENCY, "rebalances": 40, "rebalancing_share": 0.25}),
        report("churning", of={**FREQUENCY, "rebalancing_share": 0.9, "is_churning": True}),
    ]
    before = report("at rest since", -1, of={**FREQUENCY, "rebalancing_share": 1.0})
    insert_reports(samples.rows, "rebalances", [before, *frequency])
    even = {"has_better": False, "idle_members": 0, "unassigned": 0, "score": 100}
    audits = [report("even", of={**AUDIT, **even}), report("uneven", of={**AUDIT, "score": 40, "has_better": True})]
    insert_reports(samples.rows, "assignments", audits)
    kept = dict.fromkeys(("rebalance_verdict", "initial_delay_verdict"), "keep")
    advice = complete_row("timeout_advice", "flaps", session_verdict="change", session_advised_ms=20_000)
    insert_reports(samples.rows, "timeouts", [{**advice, **kept}])
    page.reload()

    groups = page.get_by_role("table", name="Rebalance frequency").locator("tbody tr")
    expect(groups).to_have_count(2)
    expect(groups.nth(0)).to_contain_text("churning")
    expect(groups.nth(0)).to_contain_text("still rebalancing")
    expect(groups.nth(1)).to_contain_text("25 %")
    audited = page.get_by_role("table", name="Assignment balance").locator("tbody tr")
    expect(audited).to_have_count(1)
    expect(audited).to_contain_text("uneven")
    advised = page.get_by_role("table", name="Timeout advice").locator("tbody tr")
    expect(advised).to_contain_text("session_timeout_ms")
    expect(advised).to_contain_text("→ 20 s")
    expect(advised).not_to_contain_text("rebalance_timeout_ms")
    expect(groups.nth(1).get_by_role("link", name="busy")).to_have_attribute("href", "#/groups/busy")


def test_reports_show_the_worst_group_whatever_its_name(page: Page, node: Node, samples: SampleGroups) -> None:
    many = [report(f"group-{number:04}", of={**FREQUENCY, "rebalancing_share": 0.1}) for number in range(1_001)]
    worst = report("the last by name", of={**FREQUENCY, "rebalancing_share": 1.0})
    insert_reports(samples.rows, "rebalances", [*many, worst])
    page.goto(f"{node.url}/#/reports")

    groups = page.get_by_role("table", name="Rebalance frequency").locator("tbody tr")
    expect(groups.first).to_contain_text("the last by name")


def test_reports_show_the_trend_of_each_group(page: Page, node: Node, samples: SampleGroups) -> None:
    with samples.rows.cursor() as cursor:  # The days of other tests' reports would be in the trend.
        cursor.execute(
            "DELETE FROM rebalance_frequency_reports; DELETE FROM assignment_balance_audits; DELETE FROM timeout_advice"
        )
    today = (datetime.now(UTC) - DAY).days
    counts = {6: 1, 5: 0, 2: 7, 1: 30}
    churn = [report("trending", today - ago, of={**FREQUENCY, "rebalances": n}) for ago, n in counts.items()]
    other = [report("other", today - ago, of=FREQUENCY) for ago in (4, 1)]  # No group has one of three days ago.
    insert_reports(samples.rows, "rebalances", [*churn, *other])
    audits = [
        report("lopsided", today - ago, of={**AUDIT, "score": score, "idle_members": idle})
        for ago, score, idle in ((2, 80, 0), (1, 40, 3))
    ]
    insert_reports(samples.rows, "assignments", audits)
    verdicts = ("session_verdict", "rebalance_verdict", "initial_delay_verdict")
    advice = [
        complete_row("timeout_advice", "hasty", today - ago, **dict(zip(verdicts, found, strict=True)))
        for ago, found in ((2, ("keep", "keep", "keep")), (1, ("change", "change", "keep")))
    ]
    insert_reports(samples.rows, "timeouts", advice)
    page.goto(f"{node.url}/#/reports")

    row = page.get_by_role("row", name="trending")
    trend = row.get_by_role("img", name="Rebalances, the oldest first: 1, 0, no report, no report, 7, 30", exact=True)
    expect(trend.locator("rect")).to_have_count(len(counts))
    audited = page.get_by_role("row", name="lopsided")
    expect(audited.get_by_role("img", name=re.compile("^Score, the oldest first: .*80, 40$"))).to_be_visible()
    expect(audited.get_by_role("img", name="Idle members, the oldest first: 0, 3", exact=True)).to_be_visible()
    advised = page.get_by_role("row", name="hasty")
    expect(advised.get_by_role("img", name="Settings to change, the oldest first: 0, 2", exact=True)).to_be_visible()
    row.get_by_role("cell").last.click()
    expect(page).to_have_url(f"{node.url}/#/groups/trending")


def test_overview_counts_and_links_to_groups(page: Page, node: Node, samples: SampleGroups) -> None:
    flapping, healthy = samples.flapping(), samples.healthy()
    page.goto(f"{node.url}/#/overview")
    card = page.locator("section.card")
    attention = card.filter(has_text="Need attention")
    expect(attention.get_by_role("link", name=flapping.group_id)).to_be_visible()
    expect(attention.get_by_role("link", name=healthy.group_id)).to_have_count(0)
    expect(page.get_by_role("img", name="25 rebalances in 24 hours")).to_be_visible()
    expect(page.get_by_role("img", name="0 evictions in 24 hours")).to_be_visible()
    expect(page.get_by_role("link", name="1 Stable", exact=True)).to_have_attribute("href", "#/?state=Stable")
    expect(page.get_by_role("link", name="Evictions, 24 h")).to_have_attribute("href", "#/reports")
    with samples.rows.cursor() as cursor:
        cursor.execute(FORECASTS, {"group_id": healthy.group_id})
    page.reload()
    expiring = card.filter(has_text="Offsets that expire")
    expect(expiring).to_contain_text("4 within a day, 6 within a week")
    expect(expiring.get_by_role("listitem")).to_contain_text(f"{healthy.group_id}6 within a week")
    expect(expiring.get_by_role("link")).to_have_attribute("href", f"#/groups/{healthy.group_id}")
    page.get_by_role("link", name="1 Stable, flapping").click()
    groups = page.get_by_role("table", name="Groups").locator("tbody tr")
    expect(groups).to_have_count(2)
    expect(groups.first).to_contain_text(flapping.group_id)


def test_overview_gives_no_number_of_candidates_that_is_not_known(
    page: Page, node: Node, samples: SampleGroups
) -> None:
    """Its candidates are not published yet; the list of runs has no number, either."""
    with samples.rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status)"
            " VALUES (gen_random_uuid(), 'group_cleanup', now(), 'proposed')"
        )
    page.goto(f"{node.url}/#/overview")
    run = page.get_by_role("listitem").filter(has_text="group cleanup")
    expect(run).to_have_text(re.compile("group cleanup, (now|.* ago)$"))
