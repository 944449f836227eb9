"""The OpenAPI document, generated from the declared endpoints, with the common headers and error responses added.

Source: the OpenAPI specification, version 3.1.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args, get_type_hints

from litestar import Litestar
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from msgspec import Struct
from msgspec.json import schema_components

from api.http.problems import PROBLEM_JSON, Problem
from api.shared.limits import ACTOR_MAX_CHARS

SCHEMA_PLACE: Final = "#/components/schemas/{name}"
DESCRIPTION: Final = (
    "Consumer groups over HTTP: agents join, are assigned partitions, heartbeat and commit offsets; operators see why "
    "a group rebalanced and change its settings while it runs."
)

OPERATORS: Final = "Operators"
"""Prefix of the tags of operator requests."""
ACTOR: Final = {
    "name": "X-Muster-Actor",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "minLength": 1, "maxLength": ACTOR_MAX_CHARS},
    "description": "the actor of the change; optional with a token, whose actor counts",
}
OPTIONAL_ACTOR: Final = {**ACTOR, "required": False, "schema": {"type": "string", "maxLength": ACTOR_MAX_CHARS}}
"""An empty header counts as none."""
IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "format": "uuid"},
    "description": "the id of the change; a repeated request with the same key does not change anything again",
}
BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "required if the node requires tokens; the actor of changes is then the token's",
}
REFUSAL: Final = {
    "description": "An error: `code` is Kafka's name for it, and `action` is what to do: fix, rejoin or retry.",
    "content": {PROBLEM_JSON.decode(): {"schema": {"$ref": SCHEMA_PLACE.format(name=Problem.__name__)}}},
}


def describe_api(handlers: Sequence[HTTPRouteHandler], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of the endpoints, as JSON values."""
    config = OpenAPIConfig(
        title="Muster",
        version=version,
        description=DESCRIPTION,
        use_handler_docstrings=True,
        operation_id_creator=lambda handler, _method, _path: handler.handler_name,
    )
    no_context = Provide(_no_context, sync_to_thread=False)
    app = Litestar(handlers, openapi_config=config, dependencies={"context": no_context}, logging_config=None)
    document: dict[str, Any] = app.openapi_schema.to_schema()
    kinds = [kind for handler in handlers for kind in _kinds(handler)]
    # The same names as Litestar's, but from msgspec, which decodes the bodies: strict fields, exact bounds, docstrings.
    _, schemas = schema_components([*kinds, Problem], ref_template=SCHEMA_PLACE)
    document["components"]["schemas"] = schemas
    document["components"]["securitySchemes"] = {"bearer": BEARER}
    document["security"] = [{}, {"bearer": []}]
    for path in document["paths"].values():
        for method, operation in path.items():
            _complete(method, operation)
    return document


def _no_context() -> None:
    """Stand for the request context, which is no parameter of the API."""


def _kinds(handler: HTTPRouteHandler) -> Iterator[Any]:
    """Yield the types of an endpoint's request body and response."""
    hints = get_type_hints(handler.fn)
    for hint in (hints.get("data"), hints["return"]):
        kinds = get_args(hint) or (hint,)
        yield from (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct))


def _complete(method: str, operation: dict[str, Any]) -> None:
    """Add the actor and idempotency headers of changes, and the error response; no parameter is null.

    A dry run needs no actor.
    """
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    has_dry_run = any(each["name"] == "dry_run" for each in operation.get("parameters", ()))
    if method != "get" and operation["tags"][0].startswith(OPERATORS) and not has_dry_run:
        operation.setdefault("parameters", []).extend([ACTOR, IDEMPOTENCY_KEY])
    elif method == "delete":
        operation["parameters"].extend([OPTIONAL_ACTOR, IDEMPOTENCY_KEY])
    operation["responses"].pop("400", None)
    operation["responses"]["default"] = REFUSAL


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter that is given; a parameter cannot be null, only absent."""
    match schema.get("oneOf"):
        case [given, {"type": "null"}]:
            return {**given, **{key: value for key, value in schema.items() if key != "oneOf"}}
        case _:
            return schema
