"""A group that has rebalanced more often than the page asks for is told of honestly, however far back one looks."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.integration.console.stage import NOBODY, Stage
from tests.support.http_client import Group, position
from tests.support.nodes import Node

EVERY_S, LONG_S = 45, 18
PAST = """
INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, started_at,
    completed_at, outcome, restarts, member_count_before, member_count_after, partitions_moved)
SELECT gen_random_uuid(), %(group_id)s, 0, now(), n, 'member_joined', ended - %(long_s)s * interval '1 s', ended,
    'completed', 0, 1, 1, 0
FROM (SELECT n, now() - n * %(every_s)s * interval '1 s' AS ended FROM generate_series(1, 1920) AS n) AS past;
INSERT INTO group_transitions (group_id, shard_id, group_created_at, at, generation, from_state, to_state, reason)
SELECT group_id, 0, now(), started_at, generation, 'Stable', 'PreparingRebalance', 'test'
FROM rebalances WHERE group_id = %(group_id)s
UNION ALL SELECT group_id, 0, now(), completed_at, generation, 'CompletingRebalance', 'Stable', 'test'
FROM rebalances WHERE group_id = %(group_id)s
"""


@pytest.fixture(scope="module")
def restless(stage: Stage) -> Group:
    """Make a group that was unsettled for two fifths of the last day."""
    group = stage.client.group("restless")
    group.post("offsets", {**NOBODY, "offsets": [position(1)]})
    with stage.rows.cursor() as cursor:
        cursor.execute(PAST, {"group_id": group.group_id, "every_s": EVERY_S, "long_s": LONG_S})
    return group


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ("1 h", r"(79|80) rebalances within 1 h, 2[34] min .* unsettled \(40 %\)"),
        ("6 h", r"(479|480) rebalances within 6 h, 2 h 2[34] min .* unsettled \(40 %\)"),
        ("24 h", r"At least 500 rebalances within 1 d, these in the last 6 h 1[456] min, 2 h (29|30) min .* \(40 %\)"),
    ],
)
def test_the_share_of_time_that_was_lost_is_that_of_the_time_looked_at(
    page: Page, node: Node, restless: Group, window: str, told: str
) -> None:
    page.goto(f"{node.url}/#/groups/{restless.group_id}")
    timeline = page.get_by_role("region", name=re.compile("^Timeline"))
    timeline.get_by_role("button", name=window, exact=True).click()
    expect(timeline).to_contain_text(re.compile(told))


def test_the_band_says_where_it_is_not_known(page: Page, node: Node, restless: Group) -> None:
    page.goto(f"{node.url}/#/groups/{restless.group_id}")
    timeline = page.get_by_role("region", name=re.compile("^Timeline"))
    timeline.get_by_role("button", name="1 h", exact=True).click()
    expect(timeline.locator("rect.state.unknown")).to_have_count(0)
    timeline.get_by_role("button", name="6 h", exact=True).click()
    expect(timeline.locator("rect.state.unknown")).to_have_count(1)
    expect(timeline.locator("rect.state.unknown title")).to_contain_text("only the newest changes of state are drawn")
