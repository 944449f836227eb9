"""A server without a coordinator: the node's uvicorn, decoding a body and returning a constant.

`/heartbeat` and `/offsets` decode the same bodies as a node; `/bytes/N` reads the body and returns N bytes; `/asgi`
ignores the request.

Run: python -m bench.bare_server PORT
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
import uvloop
from litestar.types import HTTPScope, Receive, Send

from api.http.asgi import AsgiApp
from api.http.endpoints.membership import HeartbeatRequestBody, HeartbeatResponseBody
from api.http.endpoints.offsets import CommitBody
from api.http.limits import HttpLimits
from api.http.server import HttpServer
from api.shared.connection_gate import ConnectionCounts
from muster.node.serve import bound_listener

ANSWER: Final = msgspec.json.encode(HeartbeatResponseBody(session_timeout_ms=45_000, heartbeat_interval_ms=3_000))
HEADERS: Final = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]
BYTES: Final = b"/bytes/"
DECODERS: Final[Mapping[bytes, msgspec.json.Decoder[Any]]] = {
    b"/heartbeat": msgspec.json.Decoder(HeartbeatRequestBody),
    b"/offsets": msgspec.json.Decoder(CommitBody),
}


class Bare:
    """An ASGI application without middleware or router."""

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        decoder = DECODERS.get(scope["raw_path"])
        headers, answer = HEADERS, ANSWER
        if decoder is not None:
            decoder.decode(await body_of(receive))
        elif scope["raw_path"].startswith(BYTES):
            await body_of(receive)
            answer = bytes(int(scope["raw_path"].removeprefix(BYTES)))
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer, "more_body": False})


async def body_of(receive: Receive) -> bytes:
    """Return the whole body."""
    parts = []
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


async def _serve(port: int) -> None:
    with bound_listener("127.0.0.1", port) as listener:
        await HttpServer(cast("AsgiApp", Bare()), listener, HttpLimits(), ConnectionCounts()).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
