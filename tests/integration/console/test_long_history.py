"""The timeline of a group with more rebalances than the page loads."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.http_client import Group, position
from tests.support.nodes import Node

EVERY_S, LONG_S = 45, 18
PAST = """
INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, started_at,
    completed_at, outcome, restarts, member_count_before, member_count_after, partitions_moved)
SELECT gen_random_uuid(), group_id, shard_id, created_at, n, 'member_joined', ended - %(long_s)s * interval '1 s',
    ended, 'completed', 0, 1, 1, 0
FROM (SELECT n, now() - n * %(every_s)s * interval '1 s' AS ended FROM generate_series(1, 1920) AS n) AS past,
    groups WHERE group_id = %(group_id)s;
INSERT INTO group_transitions (group_id, shard_id, group_created_at, at, generation, from_state, to_state, reason)
SELECT group_id, shard_id, group_created_at, started_at, generation, 'Stable', 'PreparingRebalance', 'test'
FROM rebalances WHERE group_id = %(group_id)s
UNION ALL SELECT group_id, shard_id, group_created_at, completed_at, generation, 'CompletingRebalance', 'Stable', 'test'
FROM rebalances WHERE group_id = %(group_id)s
"""


@pytest.fixture(scope="module")
def churning(samples: SampleGroups) -> Group:
    """Make a group that was unsettled for two fifths of the last day."""
    group = samples.client.group("churning")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    with samples.rows.cursor() as cursor:
        cursor.execute(PAST, {"group_id": group.group_id, "every_s": EVERY_S, "long_s": LONG_S})
    return group


def test_timeline_sums_the_time_spent_rebalancing(page: Page, node: Node, churning: Group) -> None:
    reported = {
        "1 h": r"(79|80) rebalances in the last 1 h. Time spent rebalancing: 2[34] min.* \(40 %\)",
        "6 h": r"(479|480) rebalances in the last 6 h. Time spent rebalancing: 2 h 2[34] min.* \(40 %\)",
        "24 h": r"Latest 500 rebalances in the last 6 h 1[456] min. Time .*: 2 h (29|30) min.* \(40 %\)",
    }
    page.goto(f"{node.url}/#/groups/{churning.group_id}")
    timeline = page.get_by_role("region", name=re.compile("^Timeline"))
    for window, summary in reported.items():
        timeline.get_by_role("button", name=window, exact=True).click()
        expect(timeline).to_contain_text(re.compile(summary))


def test_timeline_marks_unknown_states(page: Page, node: Node, churning: Group) -> None:
    page.goto(f"{node.url}/#/groups/{churning.group_id}")
    timeline = page.get_by_role("region", name=re.compile("^Timeline"))
    timeline.get_by_role("button", name="1 h", exact=True).click()
    expect(timeline.locator("rect.state.unknown")).to_have_count(0)
    timeline.get_by_role("button", name="6 h", exact=True).click()
    expect(timeline.locator("rect.state.unknown")).to_have_count(1)
    expect(timeline.locator("rect.state.unknown title")).to_contain_text("only the latest state changes are loaded")
