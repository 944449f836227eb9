"""HTTP client for JSON requests to a node; an error is the code of its problem reply."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from threading import Event, Thread
from typing import Any, Final
from urllib.parse import quote, urlencode

import urllib3

from tests.system.conformance.driver import Answer

CONNECTIONS: Final = 64
PATIENCE_S: Final = 60.0
LONG_POLL_S: Final = 600.0
CUT_OFF: Final = "CONNECTION_LOST"
"""The error of a request whose connection was closed without a response."""

Json = Any
Taker = Callable[[Answer], None]
Query = list[tuple[str, str]]


class Wire:
    """Connections to one node; usable from any thread."""

    def __init__(self, url: str) -> None:
        self._pool = urllib3.connection_from_url(url, maxsize=CONNECTIONS, block=False, retries=False)

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    def request(self, method: str, path: str, body: Json = None, query: Query | None = None) -> Json:
        """Send a request and return its JSON; an error is an object with `error`, Kafka's name."""
        return self._send(method, path, body, query, PATIENCE_S)

    def post(self, path: str, body: Json) -> Json:
        """Send a POST, as `request` does."""
        return self.request("POST", path, body)

    def post_later(self, path: str, body: Json, take: Taker) -> None:
        """Send a POST that may wait, on its own thread, which passes the answer to `take`."""
        is_started = Event()

        def wait() -> None:
            is_started.set()
            try:
                answer = self._send("POST", path, body, None, LONG_POLL_S)
            except urllib3.exceptions.HTTPError:
                answer = {"error": CUT_OFF}
            take(answer)

        Thread(target=wait, name=f"waits for {path}", daemon=True).start()
        is_started.wait()

    def _send(self, method: str, path: str, body: Json, query: Query | None, patience_s: float) -> Json:
        target = f"{path}?{urlencode(query)}" if query else path
        content = None if body is None else json.dumps(body).encode()
        headers = {"X-Muster-Actor": "conformance"} | ({} if body is None else {"Content-Type": "application/json"})
        response = self._pool.urlopen(method, target, content, headers, timeout=patience_s, redirect=False)
        shown = json.loads(response.data) if response.data else {}
        if response.status < 400:
            return {"error": "NONE"} | shown
        assert "code" in shown, f"{method} {path}: {response.status} without a code: {response.data[:200]!r}"
        return {"error": shown["code"]} | {key: shown[key] for key in ("member_id", "detail") if key in shown}


def group_path(group: str, action: str = "") -> str:
    """Return the path of a group, or of something of it."""
    is_plain = group not in {"", ".", ".."} and not group.startswith("~")
    name = quote(group, safe="") if is_plain else "~" + urlsafe_b64encode(group.encode()).decode().rstrip("=")
    return f"/v1/groups/{name}/{action}" if action else f"/v1/groups/{name}"
