"""Answers that are lost, late or refused: a change is made once, and one failed request hides nothing else."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.http_client import Group, position
from tests.support.nodes import Node

TOO_LATE = {"detail": "no answer within 2000 ms"}


@pytest.fixture
def page(unwatched_page: Page) -> Page:
    return unwatched_page


def offset_of(group: Group) -> int:
    [offset] = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    number: int = offset["offset"]
    return number


def test_change_whose_answer_was_lost_is_made_once(page: Page, node: Node, samples: SampleGroups) -> None:
    """Else a shift that is confirmed again moves the offsets twice."""
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


@pytest.fixture
def refused(page: Page) -> Page:
    """Return a page to which the node answers nothing about lag."""
    page.route(re.compile("/v1/.*/lag"), lambda route: route.fulfill(status=503, json=TOO_LATE))
    return page


def test_group_is_shown_while_its_lag_is_not_answered(refused: Page, node: Node, samples: SampleGroups) -> None:
    """At the very moment when a database is slow, whom the group waits for and how it is set must be seen."""
    refused.goto(f"{node.url}/#/groups/{samples.stuck().group_id}")
    expect(refused.get_by_role("status").filter(has_text="Waiting for 1 member")).to_contain_text("slowpoke")
    expect(refused.get_by_role("table", name="Members", exact=True)).to_contain_text("slowpoke")
    expect(refused.locator(".facts")).to_contain_text("Preparing")
    expect(refused.get_by_role("region", name=re.compile("^Advice"))).not_to_contain_text("Loading…")


def test_refusal_is_shown_until_the_request_succeeds(refused: Page, node: Node, samples: SampleGroups) -> None:
    refused.goto(f"{node.url}/#/groups/{samples.healthy().group_id}")
    status = refused.locator("#poll-status")
    expect(status).to_have_text("No answer within 2000 ms.")
    for _ in range(2):
        with refused.expect_response(re.compile("/v1/groups/[^/]+$")) as loaded:
            pass
        assert loaded.value.ok
        refused.wait_for_function("new Promise((done) => requestAnimationFrame(() => done(true)))")
        assert status.inner_text() == "No answer within 2000 ms."
    refused.unroute_all()
    refused.reload()
    expect(status).to_have_attribute("data-state", "live")
    refused.goto(f"{node.url}/#/nowhere")
    expect(status).to_have_text("")


def test_history_is_shown_although_a_part_of_it_is_refused(page: Page, node: Node, samples: SampleGroups) -> None:
    page.route("**/diagnosis", lambda route: route.fulfill(status=503, json=TOO_LATE))
    page.goto(f"{node.url}/#/groups/{samples.healthy().group_id}")
    expect(page.get_by_role("region", name=re.compile("^Timeline"))).to_contain_text("2 rebalances")
    expect(page.get_by_role("region", name=re.compile("^Settings"))).to_contain_text("session_timeout_ms")


def test_page_reads_a_limited_number_of_partitions(page: Page, node: Node, samples: SampleGroups) -> None:
    """Else a group with a million of them would keep the node busy for as long as a tab is open."""
    group = samples.client.group("wide")
    for numbers in (range(10_000), [10_000]):
        offsets = [position(1, topic="wide", partition=number, log_end_offset=2) for number in numbers]
        samples.client.ok("POST", f"{group.path}/offsets", {**SIMPLE_CONSUMER, "offsets": offsets})
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{node.url}/#/groups/wide")
    for name in ("Ownership", "Offsets"):
        region = page.get_by_role("region", name=re.compile(f"^{name}"))
        expect(region).to_contain_text("Only the first 10,000 partitions by name and number are listed.")
    expect(page.locator(".facts")).to_contain_text("Lag10K")
    expect(page.get_by_role("button", name="Show all 10,000 partitions")).to_be_visible()
    assert [url for url in requests if "cursor=" in url] == []


def test_undo_that_cannot_be_prepared_says_why(page: Page, node: Node, samples: SampleGroups) -> None:
    group = samples.client.group("undone-later")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(500)]})
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    page.get_by_role("button", name="Delete the group…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("not needed")
    dialog.get_by_label("Your name").fill("ada")
    dialog.get_by_role("button", name="Delete").click()
    page.route("**/v1/changes/*", lambda route: route.abort())
    page.locator("#toasts").get_by_role("button", name="Undo…").click()
    expect(page.locator("#toasts")).to_contain_text("The node cannot be reached.")


def _hold(page: Page, url: str | re.Pattern[str]) -> list[Route]:
    """Hold the next request to an address, which is then in the list."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(url, hold, times=1)
    return held


def _begin_deletion(page: Page, node: Node, group: Group) -> Route:
    """Confirm the deletion of a group, and cancel the dialogue before the answer; return the request."""
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(500)]})
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    page.get_by_role("button", name="Delete the group…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("not needed")
    dialog.get_by_label("Your name").fill("ada")
    held = _hold(page, re.compile(r"\?reason="))
    with page.expect_request(re.compile(r"\?reason=")):
        dialog.get_by_role("button", name="Delete", exact=True).click()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    return held[0]


def test_change_whose_dialog_was_closed_too_late_is_reported(page: Page, node: Node, samples: SampleGroups) -> None:
    """Else an operator takes for cancelled what is done."""
    _begin_deletion(page, node, samples.client.group("closed-too-late")).continue_()
    expect(page.locator("#toasts")).to_contain_text("Group deleted. Its offsets are archived. Undo…")


def test_refusal_after_the_dialog_was_closed_is_shown(page: Page, node: Node, samples: SampleGroups) -> None:
    _begin_deletion(page, node, samples.client.group("refused-too-late")).fulfill(status=503, json=TOO_LATE)
    expect(page.locator("#toasts")).to_have_text("Delete: No answer within 2000 ms.")


def test_preview_that_was_cancelled_opens_nothing(page: Page, node: Node, samples: SampleGroups) -> None:
    group = samples.client.group("previewed")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(500)]})
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    page.get_by_role("button", name="Reset offsets…").click()
    dialog = page.get_by_role("dialog")
    held = _hold(page, "**/offsets/reset")
    with page.expect_request("**/offsets/reset"):
        dialog.get_by_role("button", name="Preview").click()
    page.keyboard.press("Escape")
    with page.expect_response("**/offsets/reset"):
        held[0].continue_()
    with page.expect_response(re.compile("/v1/groups/[^/]+$")):
        pass
    expect(dialog).to_have_count(0)


@pytest.mark.parametrize(
    ("refused_path", "unknown", "known"),
    [
        ("activity", "Evictions, 24 h", ("Groups", "Need attention", "Last maintenance")),
        ("sort=lag", "Highest lag", ("Groups", "Rebalances, 24 h", "Last maintenance")),
        ("maintenance", "Last maintenance", ("Groups", "Rebalances, 24 h", "Highest lag")),
    ],
)
def test_overview_shows_what_is_answered(
    page: Page, node: Node, refused_path: str, unknown: str, known: tuple[str, ...]
) -> None:
    page.route(re.compile(refused_path), lambda route: route.fulfill(status=503, json=TOO_LATE))
    page.goto(f"{node.url}/#/overview")
    card = page.locator("section.card")
    expect(page.locator("#poll-status")).to_have_text("No answer within 2000 ms.")
    expect(card.filter(has_text=unknown)).to_contain_text("Loading…")
    for title in known:
        expect(card.filter(has=page.get_by_role("heading", name=title))).not_to_contain_text("Loading…")
    page.unroute_all(behavior="wait")


def test_blank_fields_are_not_sent(page: Page, node: Node) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.method))
    page.goto(f"{node.url}/#/settings")
    page.get_by_role("button", name="Change group_max_size").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("New value").fill("50")
    for field, other in (("Reason", "Your name"), ("Your name", "Reason")):
        dialog.get_by_label(other).fill("text")
        dialog.get_by_label(field).fill("  ")
        dialog.get_by_role("button", name="Set", exact=True).click()
        expect(dialog.get_by_label(field)).to_be_focused()
        expect(dialog.get_by_role("alert")).to_be_hidden()
    dialog.get_by_label("Your name").fill("now text")
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(dialog).to_have_count(0)
    assert requests.count("PUT") == 1


def test_refusal_is_shown_with_all_its_words(page: Page, node: Node) -> None:
    """The header is the only place that says why a list does not change."""
    detail = "the database refuses writes because its disk is full: could not extend file base/16384/26, no space left"
    page.route("**/v1/config", lambda route: route.fulfill(status=503, json={"detail": detail}))
    page.goto(f"{node.url}/#/settings")
    status = page.locator("#poll-status")
    expect(status).to_contain_text("no space left.")
    assert status.evaluate("(it) => it.scrollWidth <= it.clientWidth && it.scrollHeight <= it.clientHeight")


def test_chart_is_drawn_once_its_script_can_be_loaded(page: Page, node: Node, samples: SampleGroups) -> None:
    points = [{"at": f"2026-11-27T20:0{n}:00Z", "lag": n, "lag_seconds": n, "is_log_end_stale": False} for n in (1, 2)]
    page.route("**/lag/history", lambda route: route.fulfill(json={"points": points}))
    page.route("**/plotly.js", lambda route: route.abort(), times=1)
    page.goto(f"{node.url}/#/groups/{samples.healthy().group_id}")
    expect(page.locator("#poll-status")).to_have_text("The chart’s script could not be loaded.")
    page.keyboard.press("t")  # as after the next answer
    expect(page.locator(".chart .main-svg").first).to_be_visible()


def test_page_whose_files_cannot_be_loaded_says_so(page: Page, node: Node) -> None:
    """As while nodes of two versions answer behind one address."""
    page.route("**/groups_page.js", lambda route: route.fulfill(status=404))
    page.goto(node.url)
    expect(page.locator("main")).to_contain_text("load the page again")


def serve_mirror(route: Route) -> None:
    """Answer with the page of a mirror."""
    response = route.fetch()
    route.fulfill(response=response, body=response.text().replace("</nav>", '</nav><p id="mirror"></p>'))


def test_mirror_that_cannot_read_its_cluster_is_not_shown_as_live(page: Page, node: Node) -> None:
    """Else its groups seem to be Stable however long the cluster is away."""
    unready = {"is_ready": False, "reasons": ["no broker answers"]}
    page.route(f"{node.url}/", serve_mirror)
    page.route("**/readyz", lambda route: route.fulfill(status=503, json=unready))
    page.goto(f"{node.url}/#/")
    status = page.locator("#poll-status")
    expect(status).to_have_text("Not current: no broker answers")
    expect(status).to_have_attribute("data-state", "broken")

    page.unroute("**/readyz")
    page.reload()
    expect(status).to_have_attribute("data-state", "live")


UNANSWERED_READINESS = """() => {
  const [whole, answered] = [AbortSignal.timeout.bind(AbortSignal), fetch];
  const never = (given) => new Promise((_, reject) => given?.signal?.addEventListener("abort", reject));
  AbortSignal.timeout = (ms) => whole(ms / 10);
  window.fetch = (path, given) => (path === "/readyz" ? never(given) : answered(path, given));
}"""


def test_mirror_whose_readiness_is_not_answered_is_not_shown_as_live(page: Page, node: Node) -> None:
    """Else nothing is loaded any more, and the page seems to be that of the last moment."""
    page.route(f"{node.url}/", serve_mirror)
    page.goto(f"{node.url}/#/")
    status = page.locator("#poll-status")
    expect(status).to_have_attribute("data-state", "live")
    page.evaluate(UNANSWERED_READINESS)
    expect(status).to_have_text("The node did not say whether the mirror is current.")
    with page.expect_request("**/v1/overview/groups?*"):
        pass
