"""The other lane is Litestar's: it routes, reads queries, answers and documents; here is where it keeps our rules.

* It routes on the raw path, and parameters are decoded after that, once.
* Bodies are read by `reading`, strictly: Litestar's own reading takes "3" for 3.
* Unknown query parameters are refused, as unknown fields are; so are repeated ones that are no lists.
* Its errors become ours, so that one table says how a refusal looks.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException, ValidationException
from litestar.params import QueryParameter
from litestar.types import ASGIApp, ControllerRouterHandler, HTTPRequestEvent, HTTPScope, Message, Receive, Scope, Send
from litestar.typing import FieldDefinition

from api.http.access import admit, need_of
from api.http.call import Call
from api.http.express import REQUEST
from api.http.paths import read_segment, refuse_unreadable_query
from api.http.problems import MethodNotAllowed, NoSuchRoute
from api.http.reading import read_json
from api.http.reply import Reply
from coordinator_core.protocol.errors import InvalidRequest

CALL: Final = "muster.call"
"""Where the call stands in the scope."""
GROUP_ID: Final = "group_id"


def litestar_app(handlers: Sequence[ControllerRouterHandler]) -> Litestar:
    """Return the application of all endpoints, without the edge."""
    return Litestar(
        route_handlers=handlers,
        dependencies={"call": Provide(_current_call, sync_to_thread=False)},
        middleware=[_with_decoded_parameters],
        request_class=_StrictRequest,
        before_request=_check,
        exception_handlers={Exception: _let_through},
        openapi_config=None,
        logging_config=None,
    )


async def answer_by_framework(app: Litestar, call: Call) -> Reply:
    """Let Litestar answer, and return the whole reply.

    Raises:
        CoordinatorError: the request is refused.
    """
    refuse_unreadable_query(call.scope["query_string"])
    call.scope["path"] = call.scope["raw_path"].decode("ascii")
    _keys(call.scope)[CALL] = call
    answer = _Answer(call.body)
    try:
        await app(call.scope, answer.receive, answer.send)
    except HTTPException as error:
        if error.status_code < 500:
            error.__traceback__ = None  # its frames keep the call, and one of them the error, as in `edge.py`
        raise _as_refusal(error) from error
    finally:
        call.request = _request_name(call.scope)
        del _keys(call.scope)[CALL]  # each would keep the other until the garbage collector comes by
    return answer.reply()


class _Answer:
    """Plays the server to the framework: hands in the body that was read, and takes the reply down."""

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

    def reply(self) -> Reply:
        headers = [(name, value) for name, value in self._headers if name not in {b"content-type", b"content-length"}]
        content_type = dict(self._headers).get(b"content-type", b"")
        return Reply(self._status, content_type, b"".join(self._parts), tuple(headers))


# -- what Litestar is told ------------------------------------------------------------------------------


class _StrictRequest(Request[Any, Any, Any]):
    """A request whose body is read as the endpoint declares it, field by field."""

    async def json(self) -> object:
        field = self.route_handler.parsed_data_field
        assert field is not None
        return read_json(await self.body(), field.annotation)


def _current_call(scope: Scope) -> Call:
    call = _keys(scope)[CALL]
    assert isinstance(call, Call)
    return call


def _keys(scope: Scope) -> dict[str, Any]:
    """Return the scope as what it is: a dictionary to which anybody may add."""
    return cast("dict[str, Any]", scope)


def _with_decoded_parameters(app: ASGIApp) -> ASGIApp:
    async def decoded(scope: Scope, receive: Receive, send: Send) -> None:
        given = scope["path_params"]
        scope["path_params"] = {name: read_segment(value.encode("ascii")) for name, value in given.items()}
        if GROUP_ID in given:
            scope["path_params"][GROUP_ID] = _current_call(scope).group_id or ""
        await app(scope, receive, send)

    return decoded


async def _check(request: Request[Any, Any, Any]) -> None:
    """Admit the caller, and then see whether the query can be read."""
    call = _current_call(request.scope)
    if call.identity is not None:
        paths = " ".join(sorted(request.route_handler.paths))
        admit(call, need_of(_request_name(call.scope), call.scope["method"], paths))
    _check_parameters(request)


def _check_parameters(request: Request[Any, Any, Any]) -> None:
    """Refuse a parameter that is unknown, and one that is no list and comes twice: none is silently lost."""
    fields = request.route_handler.parsed_fn_signature.parameters.values()
    definitions = ((field, field.kwarg_definition) for field in fields)
    known = {kind.name or field.name: field for field, kind in definitions if isinstance(kind, QueryParameter)}
    for name, values in request.query_params.dict().items():
        if name not in known:
            raise InvalidRequest(f"the query has an unknown parameter {name}")
        if len(values) > 1 and not _is_list(known[name]):
            raise InvalidRequest(f"the query has the parameter {name} more than once")


def _is_list(field: FieldDefinition) -> bool:
    return any(kind.is_non_string_sequence for kind in (field, *field.inner_types))


def _let_through(_: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    raise error


# -- what Litestar tells ----------------------------------------------------------------------------------


def _as_refusal(error: HTTPException) -> Exception:
    """Return what an error of Litestar's is called here; one of its own making stays what it is."""
    match error:
        case NotFoundException():
            return NoSuchRoute("nothing is served at this path")
        case MethodNotAllowedException():
            return MethodNotAllowed((error.headers or {}).get("allow", ""))
        case ValidationException() if isinstance(error.extra, list):
            return InvalidRequest("; ".join(_complaint(each) for each in error.extra))
        case _ if error.status_code < 500:
            return InvalidRequest(error.detail)
        case _:
            return error


def _complaint(message: dict[str, str]) -> str:
    what = message["message"].replace("`", "")
    return f"{message.get('key', 'the request')}: {what[:1].lower()}{what[1:]}"


def _request_name(scope: HTTPScope) -> str:
    handler = _keys(scope).get("route_handler")
    return "unknown" if handler is None else str(handler.opt.get(REQUEST, handler.handler_name))
