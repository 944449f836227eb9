"""The HTTP client of the commands and the local platform: one node, retries, and errors as one sentence.

A change carries a key of its own, so asking again after "not now" never does it twice. The node is the one that is
named, else that of the run in the data directory, else the one on the default port of this machine.
"""

# ruff: noqa: PLC0415 - the help of a command loads this module, and asks no node

from __future__ import annotations

import json
import os
import re
import time
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from muster import display
from muster.client_tls import client_ssl_context
from muster.errors import FAILURE_EXIT_CODE, UNREACHABLE_EXIT_CODE, USAGE_EXIT_CODE, UserError

if TYPE_CHECKING:
    import urllib3

Json = Any

DEFAULT_URL: Final = "http://127.0.0.1:8080"
TIMEOUT_S: Final = 30.0
RETRY_TIMEOUT_S: Final = 15.0
"""How long a node that says "not now" is asked again: longer than shards need to move."""
FIRST_ERROR_STATUS: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
PAGE: Final = 1_000
PASSWORD: Final = re.compile(r"//.*@", re.DOTALL)
"""What stands before the host in a URL."""


class ApiError(UserError):
    """The node said no, in words that begin as it wrote them, be it with a setting's name; `code` is Kafka's name."""

    def __init__(self, detail: str, code: str, status: int, exit_code: int) -> None:
        super().__init__(f"{detail.rstrip('.')} ({code}).", exit_code)
        self.detail = detail
        self.code = code
        self.status = status


class NodeClient:
    """A node, and who asks it."""

    def __init__(
        self,
        url: str | None = None,
        actor: str | None = None,
        retry_timeout_s: float = RETRY_TIMEOUT_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Find out whom to ask, and as whom; nothing is connected yet.

        Args:
            url: a node's; None looks for one.
            actor: the actor of changes; None: the token's, else the operating system's user.
            retry_timeout_s: how long it is asked again when it cannot answer now.
            timeout_s: how long connecting, and each part of an answer, may take.

        Raises:
            UserError: the URL is none, the token or the actor cannot stand in a request, or a file of TLS is invalid.
        """
        import getpass

        import urllib3

        self.url = _checked_url(url or _local_url())
        token = client_token()
        self._headers = {"Accept": "application/json", "User-Agent": "muster"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._actor = checked_actor(actor) if actor else (None if token else getpass.getuser())
        self._retry_timeout_s = retry_timeout_s
        self.change_id: str | None = None
        """The change that the last call made, where it made one."""
        self._pool = urllib3.PoolManager(timeout=timeout_s, retries=False, ssl_context=client_ssl_context())

    def get(self, path: str, **query: str | int | list[str] | None) -> Json:
        """Read something; a query parameter that is None or empty is left out."""
        given = {name: value for name, value in query.items() if value not in (None, "", [])}
        return self._call("GET", path + ("?" + urlencode(given, doseq=True) if given else ""))

    def post(self, path: str, body: Json) -> Json:
        """Ask for something with a body: a change, or what a change would do."""
        return self._call("POST", path, body)

    def put(self, path: str, body: Json) -> Json:
        """Change something."""
        return self._call("PUT", path, body)

    def delete(self, path: str, reason: str, **query: str | int) -> Json:
        """Take something away."""
        return self._call("DELETE", f"{path}?{urlencode({'reason': reason, **query})}")

    def whole(self, path: str, *fields: str, **query: str | int | list[str] | None) -> Json:
        """Read something whose lists come in pages, and return the first answer with these lists as a whole."""
        answer = page = self.get(path, **query)
        while page.get("next_cursor") is not None:
            page = self.get(path, cursor=page["next_cursor"], **query)
            for field in fields:
                answer[field] += page[field]
        answer.pop("next_cursor", None)
        return answer

    def pages(
        self, path: str, field: str, limit: int | None = None, **query: str | int | list[str] | None
    ) -> list[Json]:
        """Read a list page by page, up to so many entries, or all of it."""
        found: list[Json] = []
        cursor = None
        while limit is None or len(found) < limit:
            wanted = PAGE if limit is None else min(PAGE, limit - len(found))
            page = self.get(path, limit=wanted, cursor=cursor, **query)
            found += page[field]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return found

    def _call(self, method: str, path: str, body: Json = None) -> Json:
        """Ask, again where the node says that it cannot now, and return the JSON of its answer.

        Raises:
            Refused: the node says no.
            UserError: there is no answer, or it is not a node's.
        """
        headers = self._headers if method == "GET" else self._headers | self._change_headers()
        deadline_s = time.monotonic() + self._retry_timeout_s
        while True:
            reply = self._send(method, path, body, headers)
            answer = _json(reply, self.url)
            if reply.status < FIRST_ERROR_STATUS:
                self.change_id = reply.headers.get("X-Muster-Change-Id")
                return answer
            if not _is_transient(answer) or time.monotonic() > deadline_s:
                raise _api_error(answer, reply.status)
            time.sleep(float(reply.headers.get("Retry-After") or 1))  # The node names the time, and does not call.

    def _change_headers(self) -> dict[str, str]:
        # Names are UTF-8 on the wire, and the library takes each character for one byte.
        said = {"X-Muster-Actor": self._actor.encode().decode("latin-1")} if self._actor else {}
        return {"Idempotency-Key": str(uuid4()), **said}

    def _send(self, method: str, path: str, body: Json, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        import urllib3

        try:
            return self._pool.request(method, self.url + path, json=body, headers=headers)
        except urllib3.exceptions.HTTPError as failure:
            raise UserError(
                f"No node answers at {self.url} ({_reason(failure)}); muster up starts one, and --url names another.",
                UNREACHABLE_EXIT_CODE,
            ) from failure


def client_token() -> str | None:
    """Return the token that requests are to carry, or None where there is none.

    Raises:
        UserError: what is in the environment cannot stand in a request.
    """
    token = os.environ.get("MUSTER_TOKEN")
    if not token:
        return None
    from agent.settings import check_token

    try:
        return check_token(token)
    except ValueError as refusal:
        raise UserError(f"MUSTER_TOKEN: {refusal}.", USAGE_EXIT_CODE) from None


def group_path(group_id: str, action: str = "") -> str:
    """Return the path of a group, or of something of it; any id has one."""
    from agent.core.group_api import group_segment

    if not group_id:
        return "/v1/groups/~" + action
    return f"/v1/groups/{group_segment(group_id)}{action}"


def segment(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def checked_actor(actor: str) -> str:
    """Return a name that a change can be kept under.

    Raises:
        UserError: it holds line breaks or other control characters, or is not UTF-8.
    """
    if any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in actor):
        raise UserError(
            "--actor: a name has no line breaks or other control characters, and is UTF-8.", USAGE_EXIT_CODE
        )
    return actor


def _checked_url(url: str) -> str:
    """Return a node's URL, also from an address in its console; a password in one that is none is not shown."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if is_one and url.isprintable() and " " not in url:
        return url.partition("#")[0].rstrip("/")
    shown = display.printable(PASSWORD.sub("//", url))
    raise UserError(f"A node's URL looks like http://host:port, and not like {shown}.", USAGE_EXIT_CODE)


def _local_url() -> str:
    """Return the node of the run in the data directory, else the default one."""
    from muster.data_dir import DEFAULT_DATA_DIR, DataDir

    data_dir = Path(os.environ.get("MUSTER_DATA_DIR") or DEFAULT_DATA_DIR)
    holder = DataDir(data_dir.expanduser().absolute()).holder()
    return (holder.node_url if holder else None) or DEFAULT_URL


def _json(reply: urllib3.BaseHTTPResponse, url: str) -> Json:
    if not reply.data:
        return {}
    try:
        answer = json.loads(reply.data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UserError(f"What answers at {url} (status {reply.status}) is not a Muster node.", UNREACHABLE_EXIT_CODE)
    return answer


def _api_error(problem: Json, status: int) -> ApiError:
    return ApiError(
        display.printable(str(problem.get("detail") or problem.get("title") or "the node refused")),
        str(problem.get("code", status)),
        status,
        UNREACHABLE_EXIT_CODE if _is_transient(problem) else FAILURE_EXIT_CODE,
    )


def _is_transient(problem: Json) -> bool:
    """Return whether the same command may work in a moment; a quarantine lasts until an operator ends it."""
    return problem.get("action") == "retry" and "quarantine_reason" not in problem


def _reason(failure: BaseException) -> str:
    """Return what the operating system said, without the wrappings that it came in."""
    while failure.__cause__ is not None or failure.__context__ is not None:
        failure = failure.__cause__ or failure.__context__ or failure
    return str(getattr(failure, "strerror", None) or failure)
