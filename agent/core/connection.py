"""HTTP requests to the nodes: each returns a typed response or raises a typed error. There are no retries here."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any, Final, TypeVar

from agent.core.node_selector import NodeSelector
from agent.core.responses import read
from agent.core.runtime import HttpClient, HttpRequest, HttpResponse, NoResponse
from agent.errors import AgentError, NotCoordinator, Problem, RequestError, RetryError, Unreachable, from_problem
from agent.partitions import JsonObject
from agent.settings import check_token

log = logging.getLogger("muster.agent")

OWNER_HEADER = "X-Muster-Coordinator"
MAX_RETRY_AFTER_S: Final = 30.0
"""The longest Retry-After that is obeyed; nodes send a second or a few, proxies also hours."""
Token = Callable[[], object]
"""Returns the bearer token of a request."""
Value = TypeVar("Value")


class Connection:
    """Requests to the selected nodes, for one task at a time."""

    def __init__(
        self, http: HttpClient, node_selector: NodeSelector, token: Token | None, connect_timeout_ms: int
    ) -> None:
        self.close = http.close
        self._http = http
        self._node_selector = node_selector
        self._connect_timeout_ms = connect_timeout_ms
        self._is_aborted = False
        self._token = token

    def abort(self) -> None:
        """End the current request, from any task; the connection cannot be used again."""
        self._is_aborted = True
        self._http.abort()

    async def call(
        self,
        reader: Callable[[JsonObject], Value],
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        timeout_ms: int,
    ) -> Value:
        """Send one request and return the reader's value of the response's JSON object ({} without a body).

        Args:
            reader: one of the parsers of `agent.core.responses`.
            method: GET, POST, ...
            path: path and query, percent-encoded.
            body: the JSON to send, or None for no body.
            timeout_ms: timeout of the response.

        Raises:
            Unreachable: no readable response; the request may or may not have been processed.
            AgentError: the typed error response.
        """
        url = self._node_selector.target()
        response = await self._send(url, method, path, body, timeout_ms)
        if not 200 <= response.status < 300:
            raise self._refusal(response, url)
        try:
            answer = read(reader, _object(response, url))
        except Unreachable as error:
            self._node_selector.mark_failed(url, str(error), is_of_node=False)
            raise
        self._node_selector.mark_reachable(url)
        self._node_selector.prefer_owner(response.headers.get(OWNER_HEADER))
        return answer

    async def _send(self, url: str, method: str, path: str, body: JsonObject | None, timeout_ms: int) -> HttpResponse:
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = self._headers() if content is None else {**self._headers(), "Content-Type": "application/json"}
        connect_timeout_ms = min(timeout_ms, self._connect_timeout_ms)
        try:
            return await self._http.send(
                HttpRequest(method, url + path, headers, content, connect_timeout_ms, timeout_ms)
            )
        except NoResponse as problem:
            if not self._is_aborted:
                self._node_selector.mark_failed(url, str(problem), is_of_node=False)
            raise Unreachable(f"no response from {url}: {problem}", was_connected=problem.was_connected) from problem

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "muster-agent"}
        if self._token is not None:
            try:
                headers["Authorization"] = f"Bearer {check_token(self._token())}"
            except Exception as problem:  # the caller's, of any kind, whose text may hold secrets
                failure = f"the function token failed ({type(problem).__name__}), so no request is sent"
                log.warning(failure)
                raise RetryError(failure) from problem
        return headers

    def _refusal(self, response: HttpResponse, url: str) -> AgentError:
        problem = _problem(response)
        error = from_problem(problem)
        is_out_of_service = response.status >= 500 and problem.code != "COORDINATOR_LOAD_IN_PROGRESS"
        if not problem.code and isinstance(error, RequestError) and not self._node_selector.is_base(url):
            self._node_selector.mark_failed(url, str(error), is_of_node=False)
            return Unreachable(f"the coordinator's address {url} is not that of a node: {error}", was_connected=False)
        if is_out_of_service or not problem.code:
            self._node_selector.mark_failed(url, str(error), is_of_node=bool(problem.code))
            is_of_next = bool(problem.code) or self._node_selector.target() == url
            return error if is_of_next else from_problem(replace(problem, retry_after_s=0.0))
        self._node_selector.mark_reachable(url)
        if isinstance(error, NotCoordinator):
            self._node_selector.redirected(problem.coordinator or response.headers.get(OWNER_HEADER))
        else:
            self._node_selector.prefer_owner(response.headers.get(OWNER_HEADER))
        return error


def _object(response: HttpResponse, url: str) -> JsonObject:
    content = _json(response) if response.content else {}
    if not isinstance(content, dict):
        raise Unreachable(f"the response from {url} is not a JSON object: is it a Muster node?", was_connected=True)
    return content


def _problem(response: HttpResponse) -> Problem:
    content = _json(response)
    given: Mapping[str, Any] = content if isinstance(content, dict) else {}
    return Problem(
        code=str(given.get("code") or ""),
        kafka_code=given["kafka_code"] if isinstance(given.get("kafka_code"), int) else -1,
        status=response.status,
        action=str(given.get("action") or ""),
        detail=str(given.get("detail") or given.get("title") or response.reason or ""),
        retry_after_s=_seconds(response.headers.get("Retry-After")),
        member_id=str(given.get("member_id") or ""),
        coordinator=str(given.get("coordinator") or ""),
        request_id=response.headers.get("X-Request-Id", ""),
    )


def _json(response: HttpResponse) -> object:
    try:
        content: object = json.loads(response.content)
    except ValueError:
        return None
    return content


def _seconds(retry_after: str | None) -> float:
    try:
        seconds = float(retry_after or 0)
    except ValueError:
        return 0.0
    return max(0.0, min(seconds, MAX_RETRY_AFTER_S)) if isfinite(seconds) else 0.0
