"""Cross-site requests and DNS rebinding from a real browser."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import structlog
from playwright.sync_api import Browser, Page, Playwright

from tests.integration.console.chromium import running_chromium
from tests.support.http_client import Client, Group, Json, fresh_id, position
from tests.support.nodes import Node
from tests.support.waiting import poll_until

EVIL = "http://evil.test"
COMMIT = {"generation": -1, "member_id": "", "offsets": [position(1)]}
SEND = {
    "no-cors post": "([url, body]) => fetch(url, {method: 'POST', mode: 'no-cors', body}).catch(() => null)",
    "beacon": "([url, body]) => { navigator.sendBeacon(url, body) }",
    "form": """([url, body]) => {
        const form = document.createElement('form'), field = document.createElement('input');
        Object.assign(form, {action: url, method: 'POST', enctype: 'text/plain'});
        Object.assign(field, {name: body.slice(0, -1) + ',"x":"', value: '"}'});
        form.append(field); document.body.append(form); form.submit();
    }""",
}


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Give a browser for which every name of `.test` is this machine, as a rebound name is."""
    rebinding = ("--host-resolver-rules=MAP *.test 127.0.0.1", "--disable-features=LocalNetworkAccessChecks")
    with running_chromium(playwright, *rebinding) as browser:
        yield browser


@pytest.fixture
def evil_page(browser: Browser) -> Iterator[Page]:
    """Show a page of another site."""
    page = browser.new_page()
    page.route(f"{EVIL}/**", lambda route: route.fulfill(content_type="text/html", body="<body>free ducks</body>"))
    page.goto(f"{EVIL}/")
    yield page
    page.close()


@pytest.fixture
def group(client: Client) -> Group:
    return client.group(fresh_id())


@pytest.mark.parametrize("way", SEND)
def test_a_page_of_another_site_changes_nothing(
    evil_page: Page, client: Client, node: Node, group: Group, way: str
) -> None:
    with structlog.testing.capture_logs() as events:
        evil_page.evaluate(SEND[way], [f"{node.url}{group.path}/offsets", client.encoded(COMMIT).decode()])
        poll_until(lambda: bool(refused(events)))

    assert [each["status"] for each in refused(events)] == [403]
    assert client.call("GET", group.path).status == 404


def refused(events: list[Json]) -> list[Json]:
    return [each for each in events if each["event"] == "request_refused"]


def test_dns_rebinding_reads_nothing(browser: Browser, node: Node) -> None:
    page = browser.new_page()
    answer = page.goto(f"http://rebound.test:{urlsplit(node.url).port}/")
    assert answer is not None
    read = page.evaluate("fetch('/v1/groups').then(answer => answer.status)")
    shown = answer.text()
    page.close()

    assert (answer.status, read) == (421, 421)
    assert "MUSTER_ALLOWED_HOSTS" in shown
