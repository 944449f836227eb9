"""Chromium as every test and picture needs it."""

import os
from contextlib import AbstractContextManager, closing

from playwright.sync_api import Browser, Playwright, expect

from tests.support.tools import program
from tests.support.waiting import PATIENCE_S

PATIENCE_MS = 1_000 * PATIENCE_S


def running_chromium(playwright: Playwright, *arguments: str) -> AbstractContextManager[Browser]:
    """Start a browser, with more arguments than every test needs; it is closed at the end of the block."""
    expect.set_options(timeout=PATIENCE_MS)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    given = [*sandbox, "--disable-dev-shm-usage", *arguments]
    return closing(playwright.chromium.launch(executable_path=program("chromium"), args=given, timeout=PATIENCE_MS))
