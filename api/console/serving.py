"""The console's files are read once, and served under a path that changes with them: so they may be kept for ever.

The page itself at `/` is asked for again each time. The policy of every answer (`api/http/security_headers.py`) lets it
take script, style and data from its own origin only; Plotly comes from the installed package.

Source: RFC 8246 for `immutable`.
"""

import asyncio
import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from api.http.call import ThisCall
from api.http.express import REQUEST
from api.http.problems import NoSuchRoute

CONSOLE: Final = {REQUEST: "Console"}
KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
PAGE: Final = "index.html"
PLOTLY: Final = "plotly.js"
"""What the console calls Plotly's script."""
DIGEST_MARK: Final = b"{digest}"
GUARDS_MARK: Final = b"{guards}"
STYLE_GUARD: Final = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')
"""What Plotly bundles puts a style into the page, which the policy forbids, unless an element with this id is there."""
GZIP_LEVEL: Final = 6

FOR_EVER: Final = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
ASK_AGAIN: Final = {"cache-control": "no-cache", "vary": "accept-encoding"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it goes over the wire."""

    media_type: str
    plain: bytes
    packed: bytes

    def response(self, headers: Mapping[str, str], *, is_packed: bool) -> Response[bytes]:
        """Return the file, packed for whoever unpacks it."""
        encoding = {"content-encoding": "gzip"} if is_packed else {}
        body = self.packed if is_packed else self.plain
        return Response(body, media_type=self.media_type, headers={**headers, **encoding})


def console() -> Sequence[HTTPRouteHandler]:
    """Return the routes of the console: its page, and its files."""
    return page, file


@get("/", include_in_schema=False, opt=CONSOLE, sync_to_thread=False)
def page(call: ThisCall) -> Response[bytes]:
    """Show the console."""
    return _page().response(ASK_AGAIN, is_packed=_unpacks(call))


@get("/console/{digest:str}/{name:str}", include_in_schema=False, opt=CONSOLE)
async def file(call: ThisCall, digest: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Return a file of the console, of the version that the page named."""
    found = None if digest != _digest() else _assets().get(name)
    if name == PLOTLY and digest == _digest():
        found = await asyncio.to_thread(_plotly)
    if found is None:
        raise NoSuchRoute("the console has no such file; load the page again")
    return found.response(FOR_EVER, is_packed=_unpacks(call))


def _unpacks(call: ThisCall) -> bool:
    return b"gzip" in (call.header(b"accept-encoding") or b"")


# -- files ------------------------------------------------------------------------------------------------


@cache
def _sources() -> dict[str, bytes]:
    """Return the console's own files, by name."""
    folder = files("api.console") / "static"
    return {each.name: each.read_bytes() for each in sorted(folder.iterdir(), key=lambda each: each.name)}


@cache
def _digest() -> str:
    """Return what changes whenever a file does, Plotly's included."""
    digest = hashlib.sha256(f"{_plotly_path().stat().st_size}".encode())
    for name, content in _sources().items():
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:16]


@cache
def _assets() -> dict[str, Asset]:
    return {name: _asset(name, content) for name, content in _sources().items() if name != PAGE}


@cache
def _page() -> Asset:
    ids = sorted(set(STYLE_GUARD.findall(_plotly_path().read_bytes())))
    guards = b"".join(b'<template id="%b"></template>' % each for each in ids)
    content = _sources()[PAGE].replace(DIGEST_MARK, _digest().encode()).replace(GUARDS_MARK, guards)
    return _asset(PAGE, content)


@cache
def _plotly() -> Asset:
    """Return Plotly's script; packing it takes half a second, once."""
    return _asset(PLOTLY, _plotly_path().read_bytes())


def _plotly_path() -> Path:
    """Return where the installed package has its script; the package itself, which is slow to import, is not."""
    spec = find_spec("plotly")
    assert spec is not None, "plotly is among the server's dependencies"
    assert spec.origin is not None
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


def _asset(name: str, content: bytes) -> Asset:
    return Asset(KINDS[Path(name).suffix], content, gzip.compress(content, GZIP_LEVEL, mtime=0))
