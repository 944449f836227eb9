"""Untrusted names, the Content-Security-Policy, error responses, unreachable nodes and tokens."""

import gzip
import re
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from json import dumps
from urllib.parse import quote
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from api.http import base64url
from tests.integration.console.boxes import box_of
from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.databases import Databases
from tests.support.http_client import Client, fresh_id, join_body, position
from tests.support.nodes import CLUSTER_SECRET, Node, running_node
from tests.support.repository import ROOT

SCRIPT = '<img src=x onerror="document.title=1"><script>document.title=1</script>'
HOSTILE = [
    SCRIPT,
    "a/b%2Fc?d=e#f&g",
    "🦆 ducks & 'quotes' \"too\"",
    "~tilde",
    "..",
    "\u202eright to left\u2066",
    "two\nlines  and spaces",
    "billing\u3164\u2800\U000e0041",
    "x" * 255,
    "__proto__",
]
TOKEN = "a-token-of-twenty-letters"


# -- names ------------------------------------------------------------------------------------------------


def shown(name: str) -> str:
    """Return a name as pages show it: characters that act on the text around them are replaced."""
    return re.sub("[\u202e\u2066\u3164\u2800\U000e0041\n]", "�", name)


def test_names_are_shown_as_text_on_every_page(page: Page, node: Node, samples: SampleGroups) -> None:
    for name in HOSTILE:
        _assert_shown_as_text(page, node, samples, name)


def _assert_shown_as_text(page: Page, node: Node, samples: SampleGroups, name: str) -> None:
    group = samples.client.group(name)
    path = group.path if name not in {"..", "~tilde"} else f"/v1/groups/~{base64url.encode(name)}"
    topic = SCRIPT[:200]
    body = {**SIMPLE_CONSUMER, "offsets": [position(3, topic=topic, log_end_offset=9)]}
    samples.client.ok("POST", f"{path}/offsets", body)
    reason = {"values": {"offsets_retention_minutes": -1}, "reason": SCRIPT}
    samples.client.ok("PUT", f"{path}/config", reason, {"X-Muster-Actor": SCRIPT})

    page.goto(f"{node.url}/#/?q={quote(name)}")
    page.get_by_role("link", name=shown(name), exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_have_text(shown(name))
    expect(page.get_by_role("region", name=re.compile("^Offsets"))).to_contain_text(topic)
    expect(page.get_by_role("region", name=re.compile("^Changes"))).to_contain_text(SCRIPT)
    assert page.title() == " ".join(f"{shown(name)} – Muster".split())
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_members_topics_and_reasons_are_text_in_tables_and_dialogs(
    page: Page, node: Node, samples: SampleGroups
) -> None:
    for name in ("\u202eright to left\u2066", "שלום 12", "two\nlines", "W" * 200, "constructor"):
        _assert_text_in_tables_and_dialogs(page, node, samples, name)


def _assert_text_in_tables_and_dialogs(page: Page, node: Node, samples: SampleGroups, name: str) -> None:
    group = samples.client.group(fresh_id("hostile"))
    patient = {"client_id": name, "session_timeout_ms": 900_000, "rebalance_timeout_ms": 900_000}
    member = group.stable(name, **patient, reason=name)
    member.commit(position(3, topic=name, log_end_offset=900))
    waits = {**patient, "group_instance_id": name, "max_wait_ms": 1}
    assert group.post("join", join_body(name, **waits)).code == "REBALANCE_IN_PROGRESS"
    page.goto(f"{node.url}/#/groups/{group.group_id}")

    waiting = page.get_by_role("status").filter(has_text="Waiting for 1 member")
    expect(waiting.get_by_role("listitem")).to_have_text(f"{shown(name)} {member.member_id[len(name) + 1 :][:4]}…")
    expect(page.get_by_role("region", name=re.compile("^Ownership"))).to_contain_text("1 partition, lag 897")
    assert page.evaluate(
        r"!/[\p{Bidi_Control}\n]/u.test([...document.querySelectorAll('#main *')].flatMap("
        "(each) => [...each.childNodes].filter((node) => node.nodeType === 3)"
        ".map((node) => node.data)).join(''))"
    )
    button = page.get_by_role("button", name=re.compile("^Remove ")).first
    assert box_of(button).right < page.evaluate("innerWidth")
    button.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(
        f"{shown(member.member_id)}: its 1 partition ({shown(name)}:0) goes to the other members."
    )
    dialog.get_by_label("Reason").fill("a test")
    dialog.get_by_label("Your name").fill("ada")
    dialog.get_by_role("button", name="Remove member", exact=True).click()
    expect(dialog).to_have_count(0)
    assert member.member_id not in {each["member_id"] for each in group.describe()["members"]}


def test_group_with_the_empty_id_has_a_page(page: Page, node: Node, samples: SampleGroups) -> None:
    samples.client.ok("POST", "/v1/groups/~/offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    page.goto(f"{node.url}/")
    page.get_by_role("link", name="(empty group id)").click()
    expect(page.get_by_role("region", name=re.compile("^Offsets"))).to_contain_text("orders")
    expect(page.get_by_role("heading", level=1)).to_have_text("(empty group id)")


def test_run_with_a_nameless_count_is_listed(page: Page, node: Node, samples: SampleGroups) -> None:
    run_id = str(uuid4())
    with samples.rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
            " VALUES (%s, 'offset_retention', now(), 'proposed', '{\"\": 1, \"__proto__\": 2}')",
            (run_id,),
        )
    page.goto(f"{node.url}/#/maintenance")
    expect(page.get_by_role("link", name=run_id[:8])).to_be_visible()


def test_dialog_closes_when_the_page_changes(page: Page, node: Node, samples: SampleGroups) -> None:
    """Else it would decide on a group that the page no longer shows."""
    first, second = (samples.client.group(fresh_id("simple")) for _ in range(2))
    for group in (first, second):
        samples.client.ok("POST", f"{group.path}/offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
        page.goto(f"{node.url}/#/groups/{group.group_id}")
    page.get_by_role("button", name="Delete the group…").click()
    page.go_back()

    expect(page.get_by_role("heading", level=1)).to_have_text(first.group_id)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_name_of_255_characters_does_not_widen_the_list(page: Page, node: Node, samples: SampleGroups) -> None:
    samples.client.ok("POST", f"/v1/groups/{'y' * 255}/offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    page.goto(f"{node.url}/#/?q={'y' * 255}")
    row = page.locator("tbody tr")
    expect(row).to_have_count(1)
    assert box_of(row).width < 1_280
    assert box_of(row).height < 60


# -- files ------------------------------------------------------------------------------------------------


def files_of(client: Client) -> list[str]:
    """Return the addresses that the page names."""
    return re.findall(r'(?:href|src)="(/console/[^"]+)"', client.send("GET", "/").body.decode())


def test_page_loads_its_own_files_only(client: Client) -> None:
    answer = client.send("GET", "/")

    policy = answer.headers["content-security-policy"]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert len(files_of(client)) == 4
    assert b"<style" not in answer.body
    assert re.findall(rb"https?://[^\"]+", answer.body) == []


def test_files_are_compressed_and_cached_under_a_digest(client: Client) -> None:
    for path in files_of(client):
        plain = client.send("GET", path)
        packed = client.send("GET", path, headers={"Accept-Encoding": "gzip"})
        assert "immutable" in plain.headers["cache-control"]
        assert (plain.headers["x-content-type-options"], packed.headers["content-encoding"]) == ("nosniff", "gzip")
        assert gzip.decompress(packed.body) == plain.body
        assert client.send("GET", path.replace("/console/", "/console/0")).status == 404
        assert client.send("GET", path.rpartition("/")[0] + "/serving.py").status == 404


def test_plotly_is_served_compressed_from_the_installed_package(client: Client) -> None:
    folder = files_of(client)[0].rpartition("/")[0]
    answer = client.send("GET", f"{folder}/plotly.js", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert len(answer.body) < 2_000_000
    assert b"plotly.js v" in gzip.decompress(answer.body)[:200]


def test_the_list_is_shown_without_plotly(page: Page, node: Node) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{node.url}/")
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")
    assert [url for url in asked if "plotly.js" in url] == []


def test_console_files_are_short() -> None:
    files = sorted((ROOT / "api/console/static").glob("*.js"))
    assert len(files) > 20
    for file in files:
        lines = file.read_text().splitlines()
        assert lines[0].startswith("// "), f"{file.name} opens with a sentence"
        assert len(lines) < 250, file.name


def test_console_code_never_builds_markup_from_text() -> None:
    files = (ROOT / "api/console/static").glob("*.js")
    sources = {file.name: file.read_text() for file in files}
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|DOMParser|javascript:")
    assert [name for name, source in sources.items() if forbidden.search(source)] == []


# -- errors and timeouts ----------------------------------------------------------------------------------


def test_unknown_group_is_reported(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/#/groups/unheard-of")
    expect(page.get_by_role("alert")).to_have_text("The group does not exist and has no history.")
    expect(page.get_by_role("region")).to_have_count(0)


def test_unknown_page_links_to_the_groups(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/#/nowhere")
    page.get_by_role("link", name="Go to groups").click()
    expect(page.get_by_label(re.compile("Filter"))).to_be_visible()


def test_unreachable_node_is_reported_and_retried(unwatched_page: Page, node: Node) -> None:
    page = unwatched_page
    page.goto(f"{node.url}/")
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")

    def cut(route: Route) -> None:
        route.abort()

    page.route("**/v1/**", cut)
    expect(page.locator("#poll-status")).to_have_text("The node cannot be reached.")
    page.unroute("**/v1/**", cut)
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")


@pytest.mark.parametrize("body", ['{"groups": [', "<html>Welcome</html>"], ids=["cut off", "of a proxy"])
def test_answer_that_is_not_a_whole_one_of_a_node_is_reported(unwatched_page: Page, node: Node, body: str) -> None:
    page = unwatched_page
    page.route("**/v1/**", lambda route: route.fulfill(status=200, body=body))
    page.goto(f"{node.url}/")
    expect(page.locator("#poll-status")).to_have_text("What answers is no node, or its answer was cut off.")


def test_hidden_page_sends_no_requests(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/")
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', { configurable: true, value: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(page.locator("#poll-status")).to_have_text("Paused")
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")


def test_page_without_data_is_not_called_paused(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/#/nowhere")
    expect(page.get_by_role("link", name="Go to groups")).to_be_visible()
    page.evaluate(
        "Object.defineProperty(document, 'hidden', { configurable: true, value: true });"
        "document.dispatchEvent(new Event('visibilitychange'));"
        "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(page.locator("#poll-status")).to_have_text("")


# -- tokens -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Serve a node that requires tokens."""
    entry = {"sha256": sha256(TOKEN.encode()).hexdigest(), "actor": "olga", "role": "operator"}
    tokens = tmp_path_factory.mktemp("guarded") / "tokens.json"
    tokens.write_text(dumps({"tokens": [entry]}))
    url = databases.create()
    secret = {"cluster_secret": CLUSTER_SECRET}
    with running_node(url, tokens_file=str(tokens), group_initial_rebalance_delay_ms=0, **secret) as node:
        yield node
    databases.drop(url)


@pytest.fixture
def guest(unwatched_page: Page) -> Iterator[Page]:
    """Return an empty page; what it has stored of the node that requires tokens is gone after the test."""
    yield unwatched_page
    unwatched_page.evaluate("localStorage.clear(); sessionStorage.clear()")


def test_required_token_is_requested_and_stored_for_the_tab(guest: Page, guarded: Node) -> None:
    page = guest
    page.goto(f"{guarded.url}/")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("A bearer token is needed.")
    dialog.get_by_label("Your name").fill("Ольга")
    dialog.get_by_label("Bearer token").fill("a wrong one…")
    dialog.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("dialog")).to_contain_text("The bearer token is unknown.")
    page.get_by_label("Bearer token").fill(TOKEN)
    page.get_by_role("dialog").get_by_role("button", name="Sign in").click()

    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")
    expect(page.locator("#identity")).to_contain_text("Ольга")
    assert page.evaluate("[sessionStorage['muster.token'], localStorage['muster.actor']]") == [TOKEN, "Ольга"]
    assert page.evaluate("Object.values(localStorage)") == ["Ольга"]
    assert TOKEN not in page.content()
    with closing(Client(guarded.url)) as client:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        client.ok("POST", "/v1/groups/theirs/offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]}, bearer)
    page.goto(f"{guarded.url}/#/groups/theirs")
    page.get_by_role("button", name="Delete the group…").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("с причиной")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("region", name=re.compile("^Changes"))).to_contain_text("olga (Ольга)")


def test_client_without_token_is_asked_once(guest: Page, guarded: Node) -> None:
    page = guest
    page.goto(f"{guarded.url}/")
    expect(page.get_by_role("dialog")).to_have_count(1)
    page.keyboard.press("Escape")
    with page.expect_response("**/v1/overview/groups*") as asked_again:
        pass
    assert asked_again.value.status == 401
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#poll-status")).to_have_text("A bearer token is needed.")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("dialog")).to_have_count(1)


def test_late_refusal_of_the_former_token_does_not_ask_for_one_again(guest: Page, guarded: Node) -> None:
    page = guest
    page.goto(f"{guarded.url}/")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Bearer token").fill(TOKEN)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/overview/groups*", hold, times=1)
    while not held:
        page.evaluate("0")
    dialog.get_by_role("button", name="Sign in").click()
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")
    with page.expect_response(lambda response: response.status == 401):
        held[0].continue_()
    with page.expect_response(lambda response: response.status == 200):
        pass  # the next poll
    expect(dialog).to_have_count(0)
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")
