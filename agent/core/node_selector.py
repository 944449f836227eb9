"""Node selection: the group's coordinator if it is known and reachable, else the base URLs in turn.

Any node accepts any request and forwards it, so a wrong choice costs a hop but no failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final
from urllib.parse import urlsplit

log = logging.getLogger("muster.agent")

WARNING_EVERY_MS: Final = 10_000
"""Minimum time between two warnings about unreachable nodes."""


class NodeSelector:
    """The addresses of one agent; safe for all of its tasks."""

    def __init__(
        self,
        base_urls: Sequence[str],
        now_ms: Callable[[], int],
        owner_retry_ms: int,
        lock: AbstractContextManager[object],
    ) -> None:
        """Start with the first base URL.

        Args:
            base_urls: one or more nodes or load balancers.
            now_ms: a clock.
            owner_retry_ms: how long the address of a coordinator is avoided after no node has answered there.
            lock: entered around every access, for a moment; one that its holder can enter again.

        Raises:
            ValueError: when there is no URL, or one is not http(s) or holds a password.
        """
        self._base_urls = [_checked(url) for url in base_urls]
        if not self._base_urls:
            raise ValueError("at least one base URL is needed")
        self._is_encrypted = all(urlsplit(url).scheme == "https" for url in self._base_urls)
        self._now_ms = now_ms
        self._owner_retry_ms = owner_retry_ms
        self._next_base = 0
        self._owner: str | None = None
        self._avoided_until_ms: dict[str, int] = {}
        self._unreachable: str | None = None
        self._next_warning_at_ms = 0
        self._lock = lock

    def target(self) -> str:
        """Return the URL to send the next request to."""
        with self._lock:
            return self._owner or self._base_urls[self._next_base]

    def is_base(self, url: str) -> bool:
        """Return whether the caller has named this URL, and not only a node as the coordinator's."""
        return url in self._base_urls

    def prefer_owner(self, owner: str | None) -> None:
        """Send the next requests to the coordinator that a response named, unless it failed recently."""
        url = self._allowed(owner)
        with self._lock:
            if url is None or self._now_ms() < self._avoided_until_ms.get(url, 0):
                return
            self._owner = url

    def redirected(self, owner: str | None) -> None:
        """Follow a 421 to the coordinator that it names, even if it failed recently; without one, use base URLs."""
        with self._lock:
            self._owner = self._allowed(owner)

    def mark_reachable(self, url: str) -> None:
        """Record a response of a node, an error response included."""
        if self._unreachable is not None:
            log.info("%s is reachable again" if url == self._unreachable else "%s answers instead", url)
            self._unreachable = None

    def mark_failed(self, url: str, reason: str, *, is_of_node: bool) -> None:
        """Switch away from a failed address: from a coordinator to the base URLs, from a base URL to the next.

        Args:
            url: the address.
            reason: what has failed, for the log.
            is_of_node: whether a node has answered there; as coordinator, an address without is avoided for some time.
        """
        if self._unreachable is None and self._now_ms() >= self._next_warning_at_ms:
            self._unreachable = url
            self._next_warning_at_ms = self._now_ms() + WARNING_EVERY_MS
            log.warning("%s is unreachable or unavailable (%s); retrying", url, reason)
        with self._lock:
            if not is_of_node:
                self._avoided_until_ms[url] = self._now_ms() + self._owner_retry_ms
            if url == self._base_urls[self._next_base]:
                self._next_base = (self._next_base + 1) % len(self._base_urls)
            if url == self._owner:
                self._owner = None

    def _allowed(self, owner: str | None) -> str | None:
        """Return the coordinator's URL; None if it is plain HTTP and all base URLs are HTTPS, to protect the token."""
        url = _readable(owner)
        is_plain = url is not None and urlsplit(url).scheme != "https"
        return None if self._is_encrypted and is_plain else url


def _checked(url: object) -> str:
    if isinstance(url, str) and "@" in url:
        raise ValueError("a base URL must hold no user name and no password: use a token")
    readable = _readable(url) if isinstance(url, str) else None
    if readable is None:
        raise ValueError(f"a base URL must look like http://host:port, and is {url!r}")
    return readable


def _readable(url: str | None) -> str | None:
    """Return the URL without a trailing slash, or None if it is not a valid http(s) URL."""
    try:
        parts = urlsplit(url or "")
        has_end = bool(parts.query or parts.fragment)  # Paths of requests are appended.
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not has_end
    except ValueError:
        return None
    return (url or "").rstrip("/") if is_usable else None
