"""Fast path for agents' requests: one look-up, one strict decoding of the body, one call of the endpoint.

An endpoint is declared once, as a Litestar handler, and so is part of the OpenAPI document. The fast path calls its
function directly: Litestar's dispatch costs more than the rest of a heartbeat (DECISIONS.md, 12).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_type_hints

from litestar.handlers import HTTPRouteHandler

from api.http.authorization import access_rule_of, authorize
from api.http.paths import GROUPS_PREFIX
from api.http.request_body import read_json
from api.http.request_context import RequestContext
from api.http.response import HttpResponse, json_response
from api.shared.authorization import AccessRule
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.responses import Answer

Body = TypeVar("Body")

REQUEST: Final = "request"
"""The key in a handler's `opt` of the name of the request."""
LONG_POLL: Final = "long_poll"
"""The key in a handler's `opt` that marks a long poll."""
SUBMITTED: Final = "submitted"
"""The key in a handler's `opt` of what submits the request (`Submit`)."""


class Submitted(NamedTuple, Generic[Body]):
    """A request that waits for the coordinator alone, and so is answered by a callback instead of a task."""

    pending: asyncio.Future[Answer]
    respond: Callable[[Any], Body | Coroutine[Any, Any, Body]]
    """Returns the body of the response from the coordinator's, or a coroutine that makes it in lots."""

    async def body(self, context: RequestContext) -> Body:
        """Wait for the coordinator, and return the body of the response.

        Raises:
            CoordinatorError: the request is refused, or its deadline passed; a long poll has none.
        """
        is_ready = context.is_long_poll or self.pending.done()
        body = self.respond(await (self.pending if is_ready else context.with_deadline(self.pending)))
        return await body if isinstance(body, Coroutine) else body


Submit = Callable[[RequestContext, str, Any], Submitted[Any] | None]
"""Submits a request; None: the endpoint has to answer it. Raises CoordinatorError if it is refused."""


@dataclass(frozen=True, slots=True)
class FastPathEndpoint:
    """An endpoint of the fast path: a POST below a group, with a body."""

    request: str
    body_kind: type[Any]
    function: Callable[[RequestContext, str, Any], Awaitable[Any]]
    is_long_poll: bool
    access_rule: AccessRule
    submit_body: Submit | None
    """None: the request may wait for more than the coordinator."""

    def submit(self, context: RequestContext, group_id: str) -> Submitted[Any] | None:
        """Decode the body and submit the request; None: `answer` has to answer it.

        Raises:
            CoordinatorError: the request is refused.
        """
        if self.submit_body is None:
            return None
        return self.submit_body(context, group_id, read_json(context.body, self.body_kind))

    async def answer(self, context: RequestContext, group_id: str) -> HttpResponse:
        """Decode the body, call the endpoint and return its response."""
        self.begin(context)
        if self.is_long_poll:
            await context.node.long_poll_turns.wait()
        if context.scope["query_string"]:
            raise InvalidRequest("this request has no query parameters")
        await context.begin_turn(len(context.body))
        return json_response(await self.function(context, group_id, read_json(context.body, self.body_kind)))

    def begin(self, context: RequestContext) -> None:
        """Name the request, and check that its token allows it."""
        context.request = self.request
        context.is_long_poll = self.is_long_poll
        if context.identity is not None:
            authorize(context, self.access_rule)


def fast_path_endpoints(handlers: Iterable[HTTPRouteHandler]) -> dict[bytes, FastPathEndpoint]:
    """Return the endpoints by the part of their path after the group id."""
    return {_action(handler): _fast_path(handler) for handler in handlers}


def _action(handler: HTTPRouteHandler) -> bytes:
    (path,) = handler.paths
    return path.encode().removeprefix(GROUPS_PREFIX).partition(b"/")[2]


def _fast_path(handler: HTTPRouteHandler) -> FastPathEndpoint:
    assert handler.http_methods == {"POST"}
    (path,) = handler.paths
    return FastPathEndpoint(
        request=handler.opt[REQUEST],
        body_kind=get_type_hints(handler.fn)["data"],
        function=handler.fn,
        is_long_poll=bool(handler.opt.get(LONG_POLL)),
        access_rule=access_rule_of(handler.opt[REQUEST], "POST", path),
        submit_body=handler.opt.get(SUBMITTED),
    )
