"""The node about itself: that it lives, whether it serves, and what it counted."""

from typing import Final

from litestar import Response, get
from msgspec import Struct

from api.http.call import ThisCall
from api.http.express import REQUEST
from api.http.metrics import CONTENT_TYPE

TAGS: Final = ["Node"]


class Health(Struct):
    """The process lives."""

    status: str


class ReadyAnswer(Struct):
    """Whether the node serves; `reasons` say why not, or what to look after."""

    is_ready: bool
    reasons: list[str]


@get("/healthz", tags=TAGS, opt={REQUEST: "Health"})
async def health() -> Health:
    """Say that the process lives."""
    return Health("alive")


@get("/readyz", tags=TAGS, opt={REQUEST: "Readiness"})
async def readiness(call: ThisCall) -> Response[ReadyAnswer]:
    """Say whether the node owns shards and reaches the database: 200, or 503 with the reasons."""
    readiness = call.coordinator.readiness()
    answer = ReadyAnswer(readiness.is_ready, list(readiness.reasons))
    return Response(answer, status_code=200 if readiness.is_ready else 503)


@get("/metrics", tags=TAGS, opt={REQUEST: "Metrics"}, media_type=CONTENT_TYPE)
async def metrics(call: ThisCall) -> Response[bytes]:
    """Show the node's counters as Prometheus reads them."""
    return Response(call.door.metrics.scrape(), media_type=CONTENT_TYPE)
