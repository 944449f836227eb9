"""Fixtures of the console's tests: one browser and one node per module; pages fail a test on errors in their log."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.integration.console.sample_groups import SampleGroups
from tests.support.databases import Databases
from tests.support.http_client import Client
from tests.support.nodes import Node, running_node
from tests.support.tools import library, program
from tests.support.waiting import PATIENCE_S

WIDTH, HEIGHT = 1_280, 800
PATIENCE_MS = 1_000 * PATIENCE_S
OWN_MEASURES = frozenset({"the server responded with a status of 4"})
"""What Chromium writes into its console when the API refuses, which is no error of the page's."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a browser for one module: Playwright keeps an event loop running in this thread."""
    path = program("chromium")
    library("libatomic.so.1")  # Playwright's own server is linked with it.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=[*sandbox, "--disable-dev-shm-usage"], timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def node(databases: Databases) -> Iterator[Node]:
    url = databases.create()
    with running_node(url, group_initial_rebalance_delay_ms=0, request_timeout_ms=PATIENCE_MS) as node:
        yield node
    databases.drop(url)


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[Client]:
    with closing(Client(node.url)) as client:
        yield client


@pytest.fixture(scope="module")
def samples(client: Client, node: Node) -> Iterator[SampleGroups]:
    with closing(SampleGroups(client, node)) as samples:
        yield samples


class WatchedPage:
    """Requests and errors of a page."""

    def __init__(self, page: Page) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self._record_request(message.type, message.text))

    def _record_request(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} and not any(measure in text for measure in OWN_MEASURES):
            self.complaints.append(text)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, node: Node) -> Iterator[Page]:
    """Return an empty page; check that it sends requests to its own node only and logs no errors."""
    page = context.new_page()
    watched = WatchedPage(page)
    yield page
    page.unroute_all(behavior="wait")  # a handler under way would find the page closed
    assert watched.complaints == []
    assert [url for url in watched.requests if not url.startswith((node.url + "/", "data:"))] == []


@pytest.fixture
def picture(page: Page, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that takes a screenshot of the whole page and returns its path."""

    def take(name: str) -> Path:
        path = tmp_path / f"{name}.png"
        page.screenshot(path=path, full_page=True)
        return path

    return take
