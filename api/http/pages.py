"""The routes `/openapi.json` and `/docs`: the OpenAPI document, and an HTML page of it without scripts."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from api.http.fast_path import REQUEST
from api.http.response import json_bytes

Schema = dict[str, Any]

HTML: Final = "text/html"
STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #d0d7de; }
summary { cursor: pointer; padding: .3rem 0; }
summary b { display: inline-block; min-width: 4.5rem; font-family: ui-monospace, monospace; }
code { font-family: ui-monospace, monospace; font-size: .92em; }
details > div { margin: 0 0 1rem 4.5rem; }
table { border-collapse: collapse; margin: .4rem 0 .8rem; }
td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; border-bottom: 1px solid #eaeef2; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } }
"""


def pages(document: Schema) -> Sequence[HTTPRouteHandler]:
    """Return the routes that serve the document as JSON and as an HTML page."""
    as_json, as_page = json_bytes(document), render(document).encode()

    @get("/openapi.json", include_in_schema=False, opt={REQUEST: "OpenApi"}, sync_to_thread=False)
    def openapi() -> Response[bytes]:
        return Response(as_json, media_type="application/json")

    @get("/docs", include_in_schema=False, opt={REQUEST: "Docs"}, sync_to_thread=False)
    def docs() -> Response[bytes]:
        return Response(as_page, media_type=HTML)

    return openapi, docs


def render(document: Schema) -> str:
    """Return the HTML page: every operation under its tag, with the fields of its parameters, body and responses."""
    return "".join(_page(document))


def _page(document: Schema) -> Iterator[str]:
    info = document["info"]
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])}</title>'
    yield f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
    yield f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>"
    yield '<p>Machine-readable: <a href="/openapi.json">openapi.json</a>.</p>'
    for tag, operations in _by_tag(document).items():
        yield f"<h2>{escape(tag)}</h2>"
        for method, path, operation in operations:
            yield from _operation(document, method, path, operation)
    yield "</body></html>"


def _by_tag(document: Schema) -> dict[str, list[tuple[str, str, Schema]]]:
    tags: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append((method, path, operation))
    return dict(sorted(tags.items()))


def _operation(document: Schema, method: str, path: str, operation: Schema) -> Iterator[str]:
    yield f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code></summary><div>"
    yield f"<p>{escape(operation.get('description', ''))}</p>"
    parameters = [
        (each["name"], each["schema"], each.get("required", False)) for each in operation.get("parameters", ())
    ]
    yield from _table(document, "Parameters", parameters)
    body = operation.get("requestBody")
    if body is not None:
        yield from _fields(document, "Body", body["content"])
    for status, answer in operation["responses"].items():
        title = "Error" if status == "default" else f"Response {status}"
        yield from _fields(document, title, answer.get("content", {}))
    yield "</div></details>"


def _fields(document: Schema, title: str, content: Schema) -> Iterator[str]:
    for kind, media in content.items():
        schema = _resolve(document, media["schema"])
        required = schema.get("required", ())
        rows = [(name, each, name in required) for name, each in schema.get("properties", {}).items()]
        yield from _table(document, f"{title} ({kind})", rows)


def _table(document: Schema, title: str, rows: Sequence[tuple[str, Schema, bool]]) -> Iterator[str]:
    if not rows:
        return
    yield f"<table><tr><th>{escape(title)}</th><th></th><th></th></tr>"
    for name, schema, is_required in rows:
        need = "required" if is_required else ""
        note = escape(schema.get("description", ""))
        kind = escape(_kind(document, schema))
        yield f"<tr><td><code>{escape(name)}</code></td><td>{kind} {need}</td><td>{note}</td></tr>"
    yield "</table>"


def _resolve(document: Schema, schema: Schema) -> Schema:
    """Follow a reference; of several forms, take the first that is an object."""
    if "$ref" in schema:
        found: Schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    forms = schema.get("oneOf") or schema.get("anyOf") or ()
    return next((_resolve(document, form) for form in forms if "$ref" in form), schema)


def _kind(document: Schema, schema: Schema) -> str:
    """Describe the type of a value in a few words."""
    if "$ref" in schema:
        inner = ", ".join(_resolve(document, schema).get("properties", {}))
        return f"{{{inner}}}"
    for forms in ("oneOf", "anyOf"):
        if forms in schema:
            return " or ".join(_kind(document, form) for form in schema[forms])
    if "const" in schema or "enum" in schema:
        return " or ".join(str(value) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"[{_kind(document, schema.get('items', {}))}, …]"
    return _plain_kind(schema)


def _plain_kind(schema: Schema) -> str:
    kind = schema.get("type", "value")
    name = " or ".join(kind) if isinstance(kind, list) else str(kind)
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{name} {low}…{high}"
    if "maxLength" in schema:
        return f"{name}, at most {schema['maxLength']} characters"
    return name
