"""Answers that are lost, late or refused: a change is made once, and one failed request hides nothing else."""

from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.http_client import Group, position
from tests.support.nodes import Node


def offset_of(group: Group) -> int:
    [offset] = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    number: int = offset["offset"]
    return number


def test_change_whose_answer_was_lost_is_made_once(context: BrowserContext, node: Node, samples: SampleGroups) -> None:
    """Else a shift that is confirmed again moves the offsets twice."""
    page = context.new_page()
    group = samples.client.group("shifted-once")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(500)]})
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    page.get_by_role("button", name="Reset offsets…").click()
    page.get_by_label("To", exact=True).select_option("shift")
    page.get_by_label("Number of records").fill("-100")
    page.get_by_role("button", name="Preview").click()
    dialog = page.get_by_role("dialog", name="Reset 1 offset?")
    dialog.get_by_label("Reason").fill("a bad release")
    dialog.get_by_label("Your name").fill("ada")

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/offsets/reset", lose, times=1)
    dialog.get_by_role("button", name="Reset", exact=True).click()
    expect(dialog.get_by_role("alert")).to_have_text("The node cannot be reached.")
    assert offset_of(group) == 400

    dialog.get_by_role("button", name="Reset", exact=True).click()
    expect(dialog).to_have_count(0)
    assert offset_of(group) == 400
    changes = samples.client.ok("GET", f"/v1/changes?group_id={group.group_id}")["changes"]
    assert [change["action"] for change in changes] == ["reset_offsets"]
