"""The agents' calls take the express lane: one look-up, one strict reading of the body, one call.

An endpoint is declared once, as a Litestar handler, and so stands in the OpenAPI document; the lane calls its
function directly, since Litestar's own way would cost a heartbeat more than all the rest of it (DECISIONS.md, 12).
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from litestar.handlers import HTTPRouteHandler

from api.http.access import Need, admit, need_of
from api.http.call import Call
from api.http.paths import GROUPS
from api.http.reading import read_json
from api.http.reply import JSON, Reply, json_bytes
from coordinator_core.protocol.errors import InvalidRequest

REQUEST: Final = "request"
"""The key of a handler's `opt` under which stands what is asked."""
LONG_POLL: Final = "long_poll"
"""The key of a handler's `opt` that says that the caller may be kept waiting."""


@dataclass(frozen=True, slots=True)
class Express:
    """An endpoint of the lane: a POST below a group, with a body."""

    request: str
    body_kind: type[Any]
    function: Callable[[Call, str, Any], Awaitable[Any]]
    is_long_poll: bool
    need: Need

    async def answer(self, call: Call, group_id: str) -> Reply:
        """Read the body, ask, and return the answer. The endpoint waits through the call, which knows how long."""
        call.request = self.request
        call.is_long_poll = self.is_long_poll
        if call.identity is not None:
            admit(call, self.need)
        if call.scope["query_string"]:
            raise InvalidRequest("this request has no query parameters")
        answer = await self.function(call, group_id, read_json(call.body, self.body_kind))
        return Reply(200, JSON, json_bytes(answer))


def express_lane(handlers: Iterable[HTTPRouteHandler]) -> dict[bytes, Express]:
    """Return the lane's endpoints by what follows the group in their path."""
    return {_action(handler): _express(handler) for handler in handlers}


def _action(handler: HTTPRouteHandler) -> bytes:
    (path,) = handler.paths
    return path.encode().removeprefix(GROUPS).partition(b"/")[2]


def _express(handler: HTTPRouteHandler) -> Express:
    assert handler.http_methods == {"POST"}
    (path,) = handler.paths
    return Express(
        request=handler.opt[REQUEST],
        body_kind=get_type_hints(handler.fn)["data"],
        function=handler.fn,
        is_long_poll=bool(handler.opt.get(LONG_POLL)),
        need=need_of(handler.opt[REQUEST], "POST", path),
    )
