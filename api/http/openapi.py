"""The OpenAPI document is made once, from the endpoints as they are declared, and every operation has its refusals.

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

from api.http.limits import ACTOR_MAX_CHARS
from api.http.problems import PROBLEM_JSON, Problem

SCHEMA_PLACE: Final = "#/components/schemas/{name}"
DESCRIPTION: Final = (
    "Consumer groups over HTTP: agents join, are assigned partitions, heartbeat and commit offsets; operators see why "
    "a group rebalanced and change its settings while it runs."
)

OPERATORS: Final = "Operators"
"""What the tags of operators' calls begin with."""
ACTOR: Final = {
    "name": "X-Muster-Actor",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "minLength": 1, "maxLength": ACTOR_MAX_CHARS},
    "description": "who changes this; with a token it is the token's actor, and this may be left out",
}
IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "format": "uuid"},
    "description": "becomes the change's id; asked again under the same key, the change is not made again",
}
BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "where the node has a tokens file; then the actor is the token's",
}
REFUSAL: Final = {
    "description": "A refusal: `code` is Kafka's name of it, and `action` says what to do: fix, rejoin or retry.",
    "content": {PROBLEM_JSON.decode(): {"schema": {"$ref": SCHEMA_PLACE.format(name=Problem.__name__)}}},
}


def describe_api(handlers: Sequence[HTTPRouteHandler], version: str) -> dict[str, Any]:
    """Return the document of these endpoints, as JSON values."""
    config = OpenAPIConfig(
        title="Muster",
        version=version,
        description=DESCRIPTION,
        use_handler_docstrings=True,
        operation_id_creator=lambda handler, _method, _path: handler.handler_name,
    )
    nobody = Provide(_nobody, sync_to_thread=False)
    app = Litestar(handlers, openapi_config=config, dependencies={"call": nobody}, logging_config=None)
    document: dict[str, Any] = app.openapi_schema.to_schema()
    kinds = [kind for handler in handlers for kind in _kinds(handler)]
    # The same names as the framework gives, and told by who reads them: strict fields, exact bounds, docstrings.
    _, schemas = schema_components([*kinds, Problem], ref_template=SCHEMA_PLACE)
    document["components"]["schemas"] = schemas
    document["components"]["securitySchemes"] = {"bearer": BEARER}
    document["security"] = [{}, {"bearer": []}]
    for path in document["paths"].values():
        for method, operation in path.items():
            _complete(method, operation)
    return document


def _nobody() -> None:
    """Stand for the call, which is no parameter of the API."""


def _kinds(handler: HTTPRouteHandler) -> Iterator[Any]:
    """Name the shapes that an endpoint reads and answers."""
    hints = get_type_hints(handler.fn)
    for hint in (hints.get("data"), hints["return"]):
        kinds = get_args(hint) or (hint,)
        yield from (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct))


def _complete(method: str, operation: dict[str, Any]) -> None:
    """Add what the framework does not know: who must say who they are, and how everything is refused."""
    if method != "get" and operation["tags"][0].startswith(OPERATORS):
        operation.setdefault("parameters", []).extend([ACTOR, IDEMPOTENCY_KEY])
    elif method == "delete":
        operation["parameters"].extend([{**ACTOR, "required": False}, IDEMPOTENCY_KEY])
    operation["responses"].pop("400", None)
    operation["responses"]["default"] = REFUSAL
