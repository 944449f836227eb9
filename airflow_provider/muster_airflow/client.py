"""HTTP client of a cluster of nodes: any of them takes any request, so the next one is asked when one fails.

A request is repeated only if that is safe: reads, and changes, which carry an idempotency key. This module needs httpx
only, and nothing of Airflow.

Source: http-api.md "Errors" and "Operator requests".
"""

import asyncio
import re
import ssl
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

CONNECT_TIMEOUT_S = 5.0
PORT_MAX = 65_535
RETRY_DELAY_S = 1.0
"""How long to wait when every node has failed."""
RETRIABLE_STATUSES = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.TOO_MANY_REQUESTS}
)
"""Statuses below 500 after which another node, or the same one later, may answer."""
TLS_ERRORS = frozenset({ssl.SSLError, ssl.SSLCertVerificationError})
"""A certificate that is not accepted, or a node without TLS; the other classes of `ssl` are lost connections."""

Json = dict[str, Any]


class RequestRefused(Exception):
    """A node refused the request, and would again; the message is `CODE (status): detail`."""

    def __init__(self, status: int, problem: Json) -> None:
        super().__init__(_sentence(status, problem))
        self.status = status
        self.code = str(problem["code"])
        """The error's name, which is Kafka's if it has one."""


class NodesUnavailable(Exception):
    """No node could answer; the message has the reason of each. Repeat the request later."""


class NodesUnusable(Exception):
    """No node can be used, since each is no Muster node, or TLS fails; the message has the reason of each."""


class InvalidConnection(ValueError):
    """A connection names no nodes, or has a field that is wrong; the message has which, and never the token."""


class MusterClient:
    """Nodes of one cluster, and how to call them."""

    def __init__(
        self,
        nodes: Sequence[str],
        *,
        token: str | None = None,
        verify: ssl.SSLContext | bool = True,
        timeout_s: float = 30.0,
        retry_timeout_s: float = 15.0,
    ) -> None:
        """Set what requests need; nothing is connected yet.

        Args:
            nodes: URLs such as http://host:8080, at least one. They are asked in this order; after a failure the next
                one is asked first.
            token: the bearer token; None sends none.
            verify: whether, or with what, certificates are verified.
            timeout_s: limit of each part of a response.
            retry_timeout_s: how long requests are repeated while no node can answer; 0 asks each node once.

        Raises:
            ValueError: a node is no URL, or has a password, or the token cannot be in a header; neither is shown.
        """
        assert nodes, "a cluster has a node"
        for node in nodes:
            shown = without_password(node)
            if not _is_url(node):
                raise ValueError(f"{shown} is no URL of http or https")
            if shown != node:
                raise ValueError("the URL of a node has no user and no password: use a token")
        if token and not (token.isascii() and token.isprintable()):
            raise ValueError("a token is one line of printable ASCII")
        self._nodes = deque(node.rstrip("/") for node in nodes)
        self._headers = {"Accept": "application/json"}
        if token:
            # Spaces around it, which nodes drop, are refused by httpx, with an error that shows the token.
            self._headers["Authorization"] = f"Bearer {token.strip()}"
        # Made here, as it takes 60 ms, in which a triggerer does nothing else. Nodes without TLS need none.
        needs_tls = any(node.startswith("https:") for node in nodes)
        self._verify = httpx.create_ssl_context(verify=verify) if needs_tls else False
        self._http: httpx.AsyncClient | None = None
        self._timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
        self._retry_timeout_s = retry_timeout_s

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["MusterClient"]:
        """Return a client of the same nodes, whose requests in the block share connections."""
        async with self._connections() as http:
            client = copy(self)
            client._http = http  # noqa: SLF001 - of the same class
            yield client

    @asynccontextmanager
    async def _connections(self) -> AsyncIterator[httpx.AsyncClient]:
        if self._http is not None:
            yield self._http
            return
        async with httpx.AsyncClient(headers=self._headers, verify=self._verify, timeout=self._timeout) as http:
            yield http

    async def get(self, path: str) -> Json:
        """Send a GET request; raises as `post` does."""
        return await self._request("GET", path, {}, None)

    async def get_pages(self, path: str, field: str) -> Json:
        """Return the first page of a response, with the entries of all pages in one list; raises as `post` does."""
        answer = page = await self.get(path)
        while page.get("next_cursor") is not None:
            page = await self.get(f"{path}?cursor={page['next_cursor']}")
            answer[field] += page[field]
        return answer

    async def post(self, path: str, body: Mapping[str, Any], *, actor: str, idempotency_key: str | None = None) -> Json:
        """Send a POST request: a change, or a dry run.

        Args:
            path: the path, percent-encoded.
            body: the request; values are JSON.
            actor: recorded in `changes`, unless the token names one.
            idempotency_key: a UUID; requests with the same one are carried out once. None: a new one.

        Raises:
            RequestRefused: correct the request.
            NodesUnavailable: repeat the call with the same key; the change may have been made.
            NodesUnusable: correct the nodes' addresses or certificates.
        """
        headers = {
            # Names are UTF-8 on the wire.
            "X-Muster-Actor": actor.encode(),
            "Idempotency-Key": (idempotency_key or str(uuid4())).encode(),
        }
        return await self._request("POST", path, headers, body)

    async def _request(
        self, method: str, path: str, headers: Mapping[str, bytes], body: Mapping[str, Any] | None
    ) -> Json:
        request = {"method": method, "headers": headers, "json": body}
        deadline_s = asyncio.get_running_loop().time() + self._retry_timeout_s
        async with self._connections() as http:
            while True:
                failures = []
                is_final = True
                for _ in range(len(self._nodes)):
                    node = self._nodes[0]
                    try:
                        return _read(await http.request(url=node + path, **request))  # type: ignore[arg-type]  # see above
                    except (httpx.TransportError, NodesUnavailable, NodesUnusable) as failure:
                        is_final = is_final and _is_final(failure)
                        failures.append(f"{node}: {str(failure) or type(failure).__name__}")
                        self._nodes.rotate(-1)
                if is_final:
                    raise NodesUnusable(f"No node can be used. {'; '.join(failures)}")
                if asyncio.get_running_loop().time() >= deadline_s:
                    raise NodesUnavailable(f"No node answers. {'; '.join(failures)}")
                await asyncio.sleep(RETRY_DELAY_S)


def group_path(group_id: str, action: str = "") -> str:
    """Return the path of a group, or of something of it. Source: http-api.md "Group ids"."""
    needs_base64 = group_id.startswith("~") or group_id in {".", ".."}
    segment = "~" + urlsafe_b64encode(group_id.encode()).decode().rstrip("=") if needs_base64 else segment_of(group_id)
    return f"/v1/groups/{segment or '~'}{action}"


def segment_of(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def without_password(url: str) -> str:
    """Return a URL without the user and password before its host."""
    return re.sub(r"^(\w+://)?.*@", r"\1", url, flags=re.DOTALL)


def _is_url(node: str) -> bool:
    try:
        url = httpx.URL(node)
    except httpx.InvalidURL:
        return False
    has_scheme = node.startswith(("http://", "https://"))
    return has_scheme and bool(url.host) and (url.port is None or 0 < url.port <= PORT_MAX)


def _read(response: httpx.Response) -> Json:
    try:
        answer = response.json()
    except ValueError:
        answer = None
    status = response.status_code
    is_temporary = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in RETRIABLE_STATUSES
    if not isinstance(answer, dict) or not (response.is_success or "code" in answer):
        text = f"not a Muster node (status {status})"
        raise NodesUnavailable(text) if is_temporary else NodesUnusable(text)
    if response.is_success:
        return answer
    if is_temporary or answer.get("action") == "retry":
        raise NodesUnavailable(_sentence(status, answer))
    raise RequestRefused(status, answer)


def _is_final(failure: BaseException | None) -> bool:
    """Return whether a node fails so until the connection, or the node, is put right."""
    while failure is not None and not isinstance(failure, NodesUnusable) and type(failure) not in TLS_ERRORS:
        failure = failure.__cause__ or failure.__context__
    return failure is not None


def _sentence(status: int, problem: Json) -> str:
    return f"{problem['code']} ({status}): {problem.get('detail') or problem.get('title', 'no detail')}"
