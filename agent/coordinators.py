"""Which node to ask: the group's owner once it is known and can be reached, else the base URLs in turn.

Any node takes any request, so nothing here has to be right for a call to succeed; it saves a hop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

log = logging.getLogger("muster.agent")

WARNING_EVERY_MS: Final = 10_000
"""How often at most a warning is logged, when nodes come and go."""


class Coordinators:
    """The addresses of one agent; safe for all of its threads."""

    def __init__(self, base_urls: Sequence[str], now_ms: Callable[[], int], spare_ms: int) -> None:
        """Start with the first base URL.

        Args:
            base_urls: one or more nodes or load balancers.
            now_ms: a clock.
            spare_ms: how long an owner that could not be reached is left alone.

        Raises:
            ValueError: when there is no URL, or one is not http(s) or holds a password.
        """
        self._base_urls = [_checked(url) for url in base_urls]
        if not self._base_urls:
            raise ValueError("at least one base URL is needed")
        self._is_encrypted = all(urlsplit(url).scheme == "https" for url in self._base_urls)
        self._now_ms = now_ms
        self._spare_ms = spare_ms
        self._next_base = 0
        self._owner: str | None = None
        self._spared_until_ms: dict[str, int] = {}
        self._is_silent = False
        self._next_warning_at_ms = 0
        self._lock = threading.Lock()

    def target(self) -> str:
        """Return the URL to send the next request to."""
        with self._lock:
            return self._owner or self._base_urls[self._next_base]

    def hear(self, owner: str | None) -> None:
        """Go directly to the owner that an answer named, unless it could not be reached lately."""
        url = self._allowed(owner)
        with self._lock:
            if url is None or self._now_ms() < self._spared_until_ms.get(url, 0):
                return
            self._owner = url

    def moved(self, owner: str | None) -> None:
        """Obey a 421: the named owner is asked even if it could not be reached lately; with none named, begin anew."""
        with self._lock:
            self._owner = self._allowed(owner)

    def answered(self, url: str) -> None:
        """Note that a node answers, in whatever words of its own."""
        if self._is_silent:
            self._is_silent = False
            log.info("%s answers", url)

    def failed(self, url: str, why: str, *, was_connected: bool) -> None:
        """Turn away from a node that did not answer: from an owner to the base URLs, from a base URL to the next."""
        if not self._is_silent and self._now_ms() >= self._next_warning_at_ms:
            self._is_silent = True
            self._next_warning_at_ms = self._now_ms() + WARNING_EVERY_MS
            log.warning("%s cannot be reached or cannot serve now (%s); trying again", url, why)
        with self._lock:
            if not was_connected and url not in self._base_urls:
                self._spared_until_ms[url] = self._now_ms() + self._spare_ms
            if url == self._base_urls[self._next_base]:
                self._next_base = (self._next_base + 1) % len(self._base_urls)
            if url == self._owner:
                self._owner = None

    def _allowed(self, owner: str | None) -> str | None:
        """Return where to go directly: never from encrypted addresses to a plain one, since the token goes along."""
        url = _readable(owner)
        is_plain = url is not None and urlsplit(url).scheme != "https"
        return None if self._is_encrypted and is_plain else url


def _checked(url: str) -> str:
    if "@" in url.partition("?")[0]:
        raise ValueError("a base URL holds no user name and no password: give a token")
    readable = _readable(url)
    if readable is None:
        raise ValueError(f"a base URL looks like http://host:port, and not like {url!r}")
    return readable


def _readable(url: str | None) -> str | None:
    """Return the URL without a trailing slash, or None if it is not one that can be asked."""
    try:
        parts = urlsplit(url or "")
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return (url or "").rstrip("/") if is_usable else None
