"""The HTTP client of the commands and the local platform: one node, retries, and errors as one sentence.

A change has an idempotency key, so that a retry never makes it twice. The node is the one that is named, else that of
the run in the data directory, else the one on the default port of this machine.
"""

# ruff: noqa: PLC0415 - the help of a command loads this module, and asks no node

from __future__ import annotations

import json
import os
import re
import sys
import time
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from muster import display
from muster.client_tls import client_ssl_context
from muster.errors import FAILURE_EXIT_CODE, UNREACHABLE_EXIT_CODE, USAGE_EXIT_CODE, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import urllib3

Json = Any

DEFAULT_URL: Final = "http://127.0.0.1:8080"
TIMEOUT_S: Final = 30.0
RETRY_TIMEOUT_S: Final = 15.0
"""How long a request with a retriable error is repeated: longer than shards need to move."""
NO_CONTENT: Final = 204
FIRST_ERROR_STATUS: Final = 400
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
PAGE: Final = 1_000
NODE_ADVICE: Final = "muster up starts one, and --url names another"
TLS_ADVICE: Final = "correct the URL, or name its authorities in MUSTER_TLS_CA_FILE"
PASSWORD: Final = re.compile(r"^(\w+://)?.*@", re.DOTALL)
"""A URL up to its credentials, with its scheme as the group."""


class ApiError(UserError):
    """An error response of a node; its sentence is the response's `detail`, and `code` is Kafka's name."""

    def __init__(self, detail: str, code: str, status: int, exit_code: int) -> None:
        super().__init__(f"{detail.rstrip('.')} ({code}).", exit_code)
        self.detail = detail
        self.code = code
        self.status = status


class NodeClient:
    """A client of one node."""

    def __init__(
        self,
        url: str | None = None,
        actor: str | None = None,
        retry_timeout_s: float = RETRY_TIMEOUT_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Choose the node and the actor; do not connect before the first request.

        Args:
            url: the node's; None: as the module describes.
            actor: the actor of changes; None: the token's, else the operating system's user.
            retry_timeout_s: how long a request with a retriable error is repeated, until one was in vain.
            timeout_s: the timeout of the connection, and of each part of a response.

        Raises:
            UserError: the URL, the token, the actor or a file of TLS is invalid.
        """
        import urllib3

        self.url = _checked_url(url or _local_url())
        token = client_token()
        self._headers = {"Accept": "application/json", "User-Agent": "muster"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._actor = checked_actor(actor) if actor else (None if token else os_user())
        self._retry_timeout_s = retry_timeout_s
        self.change_id: str | None = None
        """The change that the last call made, where it made one."""
        self._pool = urllib3.PoolManager(timeout=timeout_s, retries=False, ssl_context=client_ssl_context())

    def get(self, path: str, **query: str | int | list[str] | None) -> Json:
        """Send a GET request; query parameters that are None or empty are left out."""
        given = {name: value for name, value in query.items() if value not in (None, "", [])}
        return self._call("GET", path + ("?" + urlencode(given, doseq=True) if given else ""))

    def post(self, path: str, body: Json) -> Json:
        """Send a POST request: a change, or a dry run."""
        return self._call("POST", path, body)

    def put(self, path: str, body: Json) -> Json:
        """Send a PUT request."""
        return self._call("PUT", path, body)

    def delete(self, path: str, reason: str, **query: str | int) -> Json:
        """Send a DELETE request."""
        return self._call("DELETE", f"{path}?{urlencode({'reason': reason, **query})}")

    def whole(self, path: str, *fields: str, **query: str | int | list[str] | None) -> Json:
        """Return the first page of a response, with the entries of all pages in these lists."""
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
        """Return the entries of all pages of a list, or the first `limit` of them."""
        wanted = PAGE if limit is None else min(PAGE, limit)
        return list(islice(self.entries(path, field, wanted, **query), limit))

    def entries(
        self, path: str, field: str, page_size: int | None = None, **query: str | int | list[str] | None
    ) -> Iterator[Json]:
        """Yield the entries of a list; a page is read when it is wanted."""
        page = self.get(path, limit=page_size or PAGE, **query)
        yield from page[field]
        while page["next_cursor"] is not None:
            page = self.get(path, limit=page_size or PAGE, cursor=page["next_cursor"], **query)
            yield from page[field]

    def warn_unless_ready(self) -> None:
        """Print why the node is not ready, if so: as a mirror whose cluster is away, it shows what was read last."""
        try:
            answer = _json(self._send("GET", "/readyz", None, self._headers), self.url)
        except UserError:  # A proxy may forward other paths only.
            return
        if not answer.get("is_ready", True):
            reasons = display.printable("; ".join(answer["reasons"]))
            print(f"muster: The node is not ready, and may show what was known last: {reasons}.", file=sys.stderr)

    def refuse_on_mirror(self) -> None:
        """Refuse a dry run of a change that a mirror would refuse.

        Raises:
            UserError: the node is a mirror, as far as the token may know.
        """
        from coordinator_core.protocol.errors import READ_ONLY_MIRROR

        try:
            mirrored = self.get("/v1/config").get("mirrored_cluster")
        except ApiError:
            return
        if mirrored is not None:
            raise UserError(f"{READ_ONLY_MIRROR} (INVALID_REQUEST).", FAILURE_EXIT_CODE)

    def _call(self, method: str, path: str, body: Json = None) -> Json:
        """Send a request, repeat it after retriable errors, and return the JSON of the response.

        Raises:
            ApiError: the node refuses it.
            UserError: there is no response, or it is not that of a node.
        """
        headers = self._headers if method == "GET" else self._headers | self._change_headers()
        deadline_s = time.monotonic() + self._retry_timeout_s
        while True:
            reply = self._send(method, path, body, headers)
            answer = _json(reply, self.url)
            if reply.status < FIRST_ERROR_STATUS:
                self.change_id = reply.headers.get("X-Muster-Change-Id")
                return answer
            if not _is_transient(answer):
                raise _api_error(answer, reply.status)
            pause_s = _pause_s(reply.headers.get("Retry-After"))
            if time.monotonic() + pause_s > deadline_s:
                self._retry_timeout_s = 0.0  # The other groups of a command would wait for the same.
                raise _api_error(answer, reply.status)
            time.sleep(pause_s)  # The node names the time, and does not call.

    def _change_headers(self) -> dict[str, str]:
        # Names are UTF-8 on the wire, and the library takes each character for one byte.
        said = {"X-Muster-Actor": self._actor.encode().decode("latin-1")} if self._actor else {}
        return {"Idempotency-Key": str(uuid4()), **said}

    def _send(self, method: str, path: str, body: Json, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        import urllib3

        try:
            return self._pool.request(method, self.url + path, json=body, headers=headers)
        except urllib3.exceptions.HTTPError as failure:
            is_tls = isinstance(failure, urllib3.exceptions.SSLError)
            raise UserError(
                f"No node answers at {self.url} ({root_cause(failure)}); {TLS_ADVICE if is_tls else NODE_ADVICE}.",
                UNREACHABLE_EXIT_CODE,
            ) from failure


def client_token() -> str | None:
    """Return the token of MUSTER_TOKEN; None if it is not set.

    Raises:
        UserError: it is not valid in a header.
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
    """Return the path of a group, or of an action below it; every id has one."""
    from agent.core.group_api import group_segment

    if not group_id:
        return "/v1/groups/~" + action
    return f"/v1/groups/{group_segment(group_id)}{action}"


def segment(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def os_user() -> str:
    """Return the name of the operating system's user, or its number if it has no account, as in many containers."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def checked_actor(actor: str) -> str:
    """Return the actor if it is valid in the audit log.

    Raises:
        UserError: it has line breaks or other control characters, or is not UTF-8.
    """
    if any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in actor):
        raise UserError(
            "--actor: a name has no line breaks or other control characters, and is UTF-8.", USAGE_EXIT_CODE
        )
    return actor


def _checked_url(url: str) -> str:
    """Return a node's URL, also from the URL of a page of its console; the error does not show a password."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if is_one and "@" in urlsplit(url).netloc:
        raise UserError("A node's URL has no user and no password; a token is in MUSTER_TOKEN.", USAGE_EXIT_CODE)
    if is_one and url.isprintable() and " " not in url:
        return url.partition("#")[0].rstrip("/")
    shown = display.printable(PASSWORD.sub(r"\1", url))
    raise UserError(f"A node's URL looks like http://host:port, and not like {shown}.", USAGE_EXIT_CODE)


def _local_url() -> str:
    """Return the URL of the node of the run in the data directory, else the default one."""
    from muster.data_dir import DataDir, data_dir_of_environment

    holder = DataDir(data_dir_of_environment()).holder()
    return (holder.node_url if holder else None) or DEFAULT_URL


class _Answer(dict[str, Any]):
    """An object of a response; a field that it lacks is one of a newer release."""

    def __missing__(self, field: str) -> NoReturn:
        text = f"The node's answer has no field {field}: it is of another release than this command"
        raise UserError(f"{text}; until all nodes are upgraded, use the command of theirs.", FAILURE_EXIT_CODE)


def _json(reply: urllib3.BaseHTTPResponse, url: str) -> Json:
    if reply.status == NO_CONTENT:
        return {}
    try:
        answer = json.loads(reply.data, object_hook=_Answer)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UserError(f"What answers at {url} (status {reply.status}) is not a Muster node.", UNREACHABLE_EXIT_CODE)
    return answer


def _api_error(problem: Json, status: int) -> ApiError:
    detail = display.printable(str(problem.get("detail") or problem.get("title") or "the node refused"))
    return ApiError(
        f"{detail}; it is read from MUSTER_TOKEN" if status == UNAUTHORIZED and "bearer token" in detail else detail,
        str(problem.get("code", status)),
        status,
        UNREACHABLE_EXIT_CODE if _is_transient(problem) else FAILURE_EXIT_CODE,
    )


def _pause_s(retry_after: str | None) -> float:
    """Return how long to wait before a request is repeated: a second, if the response names no number of seconds."""
    try:
        seconds = float(retry_after or 1)
    except ValueError:
        return 1.0
    return seconds if seconds >= 0 else 1.0


def _is_transient(problem: Json) -> bool:
    """Return whether the same command may work in a moment; a quarantine lasts until an operator ends it."""
    return problem.get("action") == "retry" and "quarantine_reason" not in problem


def root_cause(failure: BaseException) -> str:
    """Return the message of the root cause, which is the operating system's."""
    while failure.__cause__ is not None or failure.__context__ is not None:
        failure = failure.__cause__ or failure.__context__ or failure
    return str(getattr(failure, "strerror", None) or failure)
