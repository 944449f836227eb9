"""Routes of the console's page and its static files.

The files are read once and served under a path with a digest of all files, so browsers cache them without expiry; the
page at `/` is revalidated on each request. The Content-Security-Policy (`api/http/security_headers.py`) allows script,
style and data from the node's own origin only; Plotly's script comes from the installed package.

Source: RFC 8246 for `immutable`.
"""

import asyncio
import gzip
import hashlib
import html
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

from api.http.fast_path import REQUEST
from api.http.problems import NoSuchRoute
from api.http.request_context import CurrentRequest

CONSOLE: Final = {REQUEST: "Console"}
KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
PAGE: Final = "index.html"
PLOTLY: Final = "plotly.js"
"""The name under which Plotly's script is served."""
MIRROR_NOTE: Final = (
    '<p id="mirror" title="Kafka cluster {0}: its groups are changed in Kafka, and not here.">Mirror of {0}</p>'
)
DIGEST_MARK: Final = b"{digest}"
GUARDS_MARK: Final = b"{guards}"
MIRROR_MARK: Final = b"{mirror}"
STYLE_GUARD: Final = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')
"""Plotly's bundled libraries insert styles, which the policy forbids, unless an element with this id exists."""
GZIP_LEVEL: Final = 6

IMMUTABLE: Final = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
REVALIDATE: Final = {"cache-control": "no-cache", "vary": "accept-encoding"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file, plain and compressed."""

    media_type: str
    plain: bytes
    gzipped: bytes

    def response(self, headers: Mapping[str, str], *, is_gzipped: bool) -> Response[bytes]:
        """Return the file, compressed if the client accepts gzip."""
        encoding = {"content-encoding": "gzip"} if is_gzipped else {}
        body = self.gzipped if is_gzipped else self.plain
        return Response(body, media_type=self.media_type, headers={**headers, **encoding})


def console() -> Sequence[HTTPRouteHandler]:
    """Return the console's routes: the page and the files."""
    return page, file


@get("/", include_in_schema=False, opt=CONSOLE, sync_to_thread=False)
def page(context: CurrentRequest) -> Response[bytes]:
    """Return the console's page."""
    return _page(context.coordinator.mirrored_cluster).response(REVALIDATE, is_gzipped=_accepts_gzip(context))


@get("/console/{digest:str}/{name:str}", include_in_schema=False, opt=CONSOLE)
async def file(context: CurrentRequest, digest: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Return a file of the console.

    Raises:
        NoSuchRoute: no such file, or the digest is not that of this node's files.
    """
    asset = None if digest != _digest() else _assets().get(name)
    if name == PLOTLY and digest == _digest():
        asset = await asyncio.to_thread(_plotly)
    if asset is None:
        raise NoSuchRoute("the console has no such file; load the page again")
    return asset.response(IMMUTABLE, is_gzipped=_accepts_gzip(context))


def _accepts_gzip(context: CurrentRequest) -> bool:
    return b"gzip" in (context.header(b"accept-encoding") or b"")


# -- files ------------------------------------------------------------------------------------------------


@cache
def _static_files() -> dict[str, bytes]:
    """Return the console's own files, by name."""
    folder = files("api.console") / "static"
    return {each.name: each.read_bytes() for each in sorted(folder.iterdir(), key=lambda each: each.name)}


@cache
def _digest() -> str:
    """Return a digest of all files; of Plotly's script only the size counts."""
    digest = hashlib.sha256(f"{_plotly_path().stat().st_size}".encode())
    for name, content in _static_files().items():
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:16]


@cache
def _assets() -> dict[str, Asset]:
    return {name: _asset(name, content) for name, content in _static_files().items() if name != PAGE}


@cache
def _page(mirrored_cluster: str | None) -> Asset:
    """Return the page; that of a mirror says which cluster it shows, and hides what would change a group."""
    of_mirror = "" if mirrored_cluster is None else MIRROR_NOTE.format(html.escape(mirrored_cluster))
    ids = sorted(set(STYLE_GUARD.findall(_plotly_path().read_bytes())))
    guards = b"".join(b'<template id="%b"></template>' % each for each in ids)
    content = _static_files()[PAGE].replace(DIGEST_MARK, _digest().encode()).replace(GUARDS_MARK, guards)
    content = content.replace(MIRROR_MARK, of_mirror.encode())
    return _asset(PAGE, content)


@cache
def _plotly() -> Asset:
    """Return Plotly's script; compressing it takes half a second, once."""
    return _asset(PLOTLY, _plotly_path().read_bytes())


def _plotly_path() -> Path:
    """Return the path of the script in the installed package, without importing the package, which is slow."""
    spec = find_spec("plotly")
    assert spec is not None, "plotly is among the server's dependencies"
    assert spec.origin is not None
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


def _asset(name: str, content: bytes) -> Asset:
    return Asset(KINDS[Path(name).suffix], content, gzip.compress(content, GZIP_LEVEL, mtime=0))
