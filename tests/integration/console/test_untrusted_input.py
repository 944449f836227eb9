"""Untrusted names, the Content-Security-Policy, error responses, unreachable nodes and tokens."""

import gzip
import re
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from json import dumps
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from api.http import base64url
from tests.integration.console.stage import SIMPLE_CONSUMER, Stage
from tests.support.databases import Databases
from tests.support.http_client import Client, position
from tests.support.nodes import CLUSTER_SECRET, Node, running_node
from tests.support.repository import ROOT

SCRIPT = '<img src=x onerror="document.title=1"><script>document.title=1</script>'
HOSTILE = [
    SCRIPT,
    "a/b%2Fc?d=e#f&g",
    "🦆 ducks & 'quotes' \"too\"",
    "~tilde",
    "..",
    "\u202eright to left",
    "x" * 255,
    "__proto__",
]
TOKEN = "a-token-of-twenty-letters"


# -- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_text_wherever_it_is_shown(page: Page, node: Node, stage: Stage, name: str) -> None:
    group = stage.client.group(name)
    path = group.path if name not in {"..", "~tilde"} else f"/v1/groups/~{base64url.encode(name)}"
    topic = SCRIPT[:200]
    body = {**SIMPLE_CONSUMER, "offsets": [position(3, topic=topic, log_end_offset=9)]}
    stage.client.ok("POST", f"{path}/offsets", body)
    reason = {"values": {"offsets_retention_minutes": -1}, "reason": SCRIPT}
    stage.client.ok("PUT", f"{path}/config", reason, {"X-Muster-Actor": SCRIPT})

    page.goto(f"{node.url}/#/?q={quote(name)}")
    page.get_by_role("link", name=name, exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.get_by_role("region", name=re.compile("^Offsets"))).to_contain_text(topic)
    expect(page.get_by_role("region", name=re.compile("^Changes"))).to_contain_text(SCRIPT)
    assert page.title() == "Muster"
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_name_of_255_letters_leaves_the_list_in_shape(page: Page, node: Node, stage: Stage) -> None:
    stage.client.ok("POST", f"/v1/groups/{'y' * 255}/offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    page.goto(f"{node.url}/#/?q={'y' * 255}")
    box = page.locator("tbody tr").bounding_box()
    assert box is not None
    assert box["width"] < 1_280
    assert box["height"] < 60


# -- files ------------------------------------------------------------------------------------------------


def files_of(client: Client) -> list[str]:
    """Return the addresses that the page names."""
    return re.findall(r'(?:href|src)="(/console/[^"]+)"', client.send("GET", "/").body.decode())


def test_the_page_takes_nothing_but_its_own_files(client: Client) -> None:
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


def test_plotly_comes_packed_from_the_installed_package(client: Client) -> None:
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


def test_markup_is_never_made_from_text() -> None:
    files = (ROOT / "api/console/static").glob("*.js")
    sources = {file.name: file.read_text() for file in files}
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|DOMParser|javascript:")
    assert [name for name, source in sources.items() if forbidden.search(source)] == []


# -- refusals and silence ---------------------------------------------------------------------------------


def test_unknown_group_is_reported(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/#/groups/unheard-of")
    expect(page.get_by_role("alert")).to_have_text("The group does not exist and has no history.")
    expect(page.get_by_role("region")).to_have_count(0)


def test_unknown_page_links_to_the_groups(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/#/nowhere")
    page.get_by_role("link", name="Go to groups").click()
    expect(page.get_by_label(re.compile("Filter"))).to_be_visible()


def test_unreachable_node_is_reported_and_retried(context: BrowserContext, node: Node) -> None:
    page = context.new_page()
    page.goto(f"{node.url}/")
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")

    def cut(route: Route) -> None:
        route.abort()

    page.route("**/v1/**", cut)
    expect(page.locator("#poll-status")).to_have_text("The node cannot be reached.")
    page.unroute("**/v1/**", cut)
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")


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


# -- tokens -----------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(databases: Databases, tmp_path: Path) -> Iterator[Node]:
    """Serve a node that asks for tokens."""
    entry = {"sha256": sha256(TOKEN.encode()).hexdigest(), "actor": "olga", "role": "operator"}
    tokens = tmp_path / "tokens.json"
    tokens.write_text(dumps({"tokens": [entry]}))
    url = databases.create()
    secret = {"cluster_secret": CLUSTER_SECRET}
    with running_node(url, tokens_file=str(tokens), group_initial_rebalance_delay_ms=0, **secret) as node:
        yield node
    databases.drop(url)


def test_required_token_is_requested_and_stored_for_the_tab(context: BrowserContext, guarded: Node) -> None:
    page = context.new_page()
    page.goto(f"{guarded.url}/")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("A bearer token is needed.")
    dialog.get_by_label("Your name").fill("Ольга")
    dialog.get_by_label("Bearer token").fill("a wrong one")
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


def test_client_without_token_is_asked_once(context: BrowserContext, guarded: Node) -> None:
    page = context.new_page()
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
