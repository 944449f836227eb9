"""Fixtures of the console's tests, which share a browser, a page and a node; errors in the page's log fail a test."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Page,
    Playwright,
    ViewportSize,
    sync_playwright,
)

from tests.integration.console.chromium import PATIENCE_MS, running_chromium
from tests.integration.console.sample_groups import SampleGroups
from tests.support.databases import Databases
from tests.support.http_client import Client
from tests.support.nodes import Node, running_node
from tests.support.tools import library

WINDOW = ViewportSize(width=1_280, height=800)
OWN_MEASURES = frozenset({"the server responded with a status of 4"})
"""What Chromium writes into its console when the API refuses, which is no error of the page's."""

OF_ALL_GROUPS = frozenset(
    {
        "test_accessibility",
        "test_changes_filters",
        "test_fast_key_presses",
        "test_flapping_group",
        "test_lost_answers",
        "test_many_groups",
        "test_operator_tasks",
        "test_pages_of_all_groups",
        "test_screenshots",
        "test_topic_page",
        "test_untrusted_input",
    }
)
"""Modules with a node of their own, since they look at lists of all groups, or change a setting of the cluster."""


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """Start Playwright for this folder's tests: it keeps an event loop running in their thread."""
    library("libatomic.so.1")  # Playwright's own server is linked with it.
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with running_chromium(playwright) as browser:
        yield browser


@contextmanager
def new_node(databases: Databases) -> Iterator[Node]:
    url = databases.create()
    with running_node(url, group_initial_rebalance_delay_ms=0, request_timeout_ms=PATIENCE_MS) as node:
        yield node
    databases.drop(url)


@pytest.fixture(scope="package")
def shared_node(databases: Databases) -> Iterator[Node]:
    with new_node(databases) as node:
        yield node


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Node]:
    if request.path.stem not in OF_ALL_GROUPS:
        yield request.getfixturevalue("shared_node")
        return
    with new_node(databases) as node:
        yield node


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[Client]:
    with closing(Client(node.url)) as client:
        yield client


@pytest.fixture(scope="module")
def samples(client: Client, node: Node) -> Iterator[SampleGroups]:
    with closing(SampleGroups(client, node)) as samples:
        yield samples


@contextmanager
def new_context(browser: Browser) -> Iterator[BrowserContext]:
    with closing(browser.new_context(viewport=WINDOW, color_scheme="light")) as context:
        context.set_default_timeout(PATIENCE_MS)
        yield context


class Tab:
    """A page, with its requests and errors."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._requests: list[str] = []
        self._complaints: list[str] = []
        page.on("request", lambda request: self._requests.append(request.url))
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("console", lambda message: self._record_message(message.type, message.text))

    def _record_message(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} and not any(measure in text for measure in OWN_MEASURES):
            self._complaints.append(text)

    def check(self, node: Node) -> None:
        """Assert that the page has sent requests to this node only, and logged no errors."""
        self.page.unroute_all(behavior="wait")  # a handler under way would find the page closed
        assert self._complaints == []
        assert [url for url in self._requests if not url.startswith((node.url + "/", "data:"))] == []

    def reset(self, node: Node) -> None:
        """Leave the test's page, and forget what the test has stored and set up."""
        self.page.unroute_all(behavior="wait")
        self.page.goto(f"{node.url}/healthz")
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.set_viewport_size(WINDOW)
        self.page.emulate_media(color_scheme="light")
        self.page.mouse.move(0, 0)
        self._requests.clear()
        self._complaints.clear()


@pytest.fixture(scope="package")
def tab(browser: Browser) -> Iterator[Tab]:
    """Open one page for all tests: a new one would start a process, and load and compile the console's files again."""
    with new_context(browser) as context:
        yield Tab(context.new_page())


@pytest.fixture
def unwatched_page(tab: Tab, node: Node) -> Iterator[Page]:
    """Return an empty page, for tests that let requests fail."""
    yield tab.page
    tab.reset(node)


@pytest.fixture
def page(tab: Tab, node: Node, unwatched_page: Page) -> Iterator[Page]:
    """Return an empty page; check that it sends requests to its own node only and logs no errors."""
    yield unwatched_page
    tab.check(node)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a browser profile of the test's own, for permissions, or for another node."""
    with new_context(browser) as context:
        yield context


@pytest.fixture
def devtools(unwatched_page: Page) -> Iterator[CDPSession]:
    """Return a session of the page's DevTools; what is set with it ends with the test."""
    session = unwatched_page.context.new_cdp_session(unwatched_page)
    yield session
    session.detach()


@pytest.fixture
def time_zone(devtools: CDPSession) -> Callable[[str], None]:
    """Return a function that lets the browser be in a time zone."""

    def be_in(name: str) -> None:
        devtools.send("Emulation.setTimezoneOverride", {"timezoneId": name})

    return be_in
