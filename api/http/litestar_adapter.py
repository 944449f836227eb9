"""Litestar adapter: serves all endpoints outside the fast path under the same rules as the fast path.

* Litestar routes on the raw path; path parameters are percent-decoded after that, once.
* `request_body` decodes bodies strictly, since Litestar's own decoding accepts "3" for 3.
* An unknown query parameter is refused, and so are a repeated one that is no list, and the null that Litestar reads as
  an absent number: `partition=null` would delete the offsets of all partitions.
* Litestar's errors become `CoordinatorError`s, so that `problems` has the one table of errors and statuses.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException, ValidationException
from litestar.params import QueryParameter
from litestar.types import ASGIApp, ControllerRouterHandler, HTTPRequestEvent, HTTPScope, Message, Receive, Scope, Send
from litestar.typing import FieldDefinition

from api.http.authorization import access_rule_of, authorize
from api.http.cursors import current_list
from api.http.fast_path import REQUEST
from api.http.paths import DOT_TOPICS, check_query_text, decode_segment
from api.http.problems import MethodNotAllowed, NoSuchRoute
from api.http.request_body import read_json
from api.http.request_context import RequestContext
from api.http.response import HttpResponse
from coordinator_core.protocol.errors import InvalidRequest

CONTEXT: Final = "muster.request_context"
"""Key of the request context in the scope."""
GROUP_ID: Final = "group_id"
TOPIC: Final = "topic"


def litestar_app(handlers: Sequence[ControllerRouterHandler]) -> Litestar:
    """Return a Litestar application of the endpoints."""
    return Litestar(
        route_handlers=handlers,
        dependencies={"context": Provide(_current_context, sync_to_thread=False)},
        middleware=[_decode_path_params],
        request_class=_StrictRequest,
        before_request=_check,
        exception_handlers={Exception: _reraise},
        openapi_config=None,
        logging_config=None,
    )


async def answer_with_litestar(app: Litestar, context: RequestContext) -> HttpResponse:
    """Dispatch a request to Litestar, and return the complete response.

    Raises:
        CoordinatorError: the request is refused.
    """
    check_query_text(context.scope["query_string"])
    context.scope["path"] = context.scope["raw_path"].decode("ascii")
    _as_dict(context.scope)[CONTEXT] = context
    answer = _ResponseRecorder(context.body)
    try:
        await app(context.scope, answer.receive, answer.send)
    except HTTPException as error:
        if error.status_code < 500:
            error.__traceback__ = None  # its frames form a cycle with the error, as in `asgi.py`
        raise _to_coordinator_error(error) from error
    finally:
        context.request = _request_name(context.scope)
        del _as_dict(context.scope)[CONTEXT]  # scope and context form a cycle
    return answer.response()


class _ResponseRecorder:
    """The server's side of ASGI for one request: supplies its body, and records the response."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []

    async def receive(self) -> HTTPRequestEvent:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = list(message["headers"])
        elif message["type"] == "http.response.body":
            self._parts.append(message["body"])

    def response(self) -> HttpResponse:
        headers = [(name, value) for name, value in self._headers if name not in {b"content-type", b"content-length"}]
        content_type = dict(self._headers).get(b"content-type", b"")
        return HttpResponse(self._status, content_type, b"".join(self._parts), tuple(headers))


# -- hooks of Litestar ----------------------------------------------------------------------------------


class _StrictRequest(Request[Any, Any, Any]):
    """A request whose body is decoded strictly as the type that the endpoint declares."""

    async def json(self) -> object:
        field = self.route_handler.parsed_data_field
        assert field is not None
        return read_json(await self.body(), field.annotation)


def _current_context(scope: Scope) -> RequestContext:
    context = _as_dict(scope)[CONTEXT]
    assert isinstance(context, RequestContext)
    return context


def _as_dict(scope: Scope) -> dict[str, Any]:
    """Return the scope as a plain dictionary, which accepts further keys."""
    return cast("dict[str, Any]", scope)


def _decode_path_params(app: ASGIApp) -> ASGIApp:
    async def decoded(scope: Scope, receive: Receive, send: Send) -> None:
        given = scope["path_params"]
        scope["path_params"] = {name: decode_segment(value.encode("ascii")) for name, value in given.items()}
        if GROUP_ID in given:
            scope["path_params"][GROUP_ID] = _current_context(scope).group_id or ""
        if TOPIC in given:
            scope["path_params"][TOPIC] = DOT_TOPICS.get(given[TOPIC], scope["path_params"][TOPIC])
        await app(scope, receive, send)

    return decoded


async def _check(request: Request[Any, Any, Any]) -> None:
    """Authorize the request, and then check that it has a body if it needs one, and its query parameters."""
    context = _current_context(request.scope)
    current_list.set(_request_name(context.scope))
    if context.identity is not None:
        paths = " ".join(sorted(request.route_handler.paths))
        authorize(context, access_rule_of(_request_name(context.scope), context.scope["method"], paths))
    data = request.route_handler.parsed_data_field
    if data is not None and data.is_required and not context.body:
        raise InvalidRequest("the body is empty")
    _check_parameters(request)


def _check_parameters(request: Request[Any, Any, Any]) -> None:
    """Refuse unknown query parameters, and repeated ones that are no lists, rather than ignore them."""
    fields = request.route_handler.parsed_fn_signature.parameters.values()
    definitions = ((field, field.kwarg_definition) for field in fields)
    known = {kind.name or field.name: field for field, kind in definitions if isinstance(kind, QueryParameter)}
    for name, values in request.query_params.dict().items():
        if name not in known:
            raise InvalidRequest(f"the query has an unknown parameter {name}")
        if len(values) > 1 and not _is_list(known[name]):
            raise InvalidRequest(f"the query has the parameter {name} more than once")
        if values[0].lower() == "null" and not _is_text(known[name]):
            raise InvalidRequest(f"{name}: null is no value; leave the parameter out")


def _is_text(field: FieldDefinition) -> bool:
    return _is_list(field) or any(kind.is_subclass_of(str) for kind in (field, *field.inner_types))


def _is_list(field: FieldDefinition) -> bool:
    return any(kind.is_non_string_sequence for kind in (field, *field.inner_types))


def _reraise(_: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    raise error


# -- errors of Litestar -----------------------------------------------------------------------------------


def _to_coordinator_error(error: HTTPException) -> Exception:
    """Translate an error of Litestar; an internal server error is returned unchanged."""
    match error:
        case NotFoundException():
            return NoSuchRoute("nothing is served at this path")
        case MethodNotAllowedException():
            allowed = (error.headers or {}).get("allow", "")
            return MethodNotAllowed(allowed.replace("GET", "GET, HEAD"))  # HEAD is answered as GET
        case ValidationException() if isinstance(error.extra, list):
            return InvalidRequest("; ".join(_validation_message(each) for each in error.extra))
        case _ if error.status_code < 500:
            return InvalidRequest(error.detail)
        case _:
            return error


NOT_A_NUMBER: Final = frozenset({"Expected int, got str", "Expected int | null, got str"})
"""What is said of text in place of a number, which an absent parameter may be without."""


def _validation_message(message: dict[str, str]) -> str:
    text, key = message["message"].replace("`", ""), message.get("key", "the request")
    if text in NOT_A_NUMBER:
        return f"{key} must be a whole number"
    return f"{key}: {text[:1].lower()}{text[1:]}"


def _request_name(scope: HTTPScope) -> str:
    handler = _as_dict(scope).get("route_handler")
    return "unknown" if handler is None else str(handler.opt.get(REQUEST, handler.handler_name))
