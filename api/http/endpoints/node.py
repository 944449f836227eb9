"""The node about itself: that it lives, whether it serves, and what it counted."""

import asyncio
from collections.abc import Mapping
from typing import Final

from litestar import Response, get
from litestar.params import FromQuery
from msgspec import Struct

from api.http.call import Call, ThisCall
from api.http.express import REQUEST
from api.http.metrics import CONTENT_TYPE, DETAILS, Detail, Scrape, Stored
from coordinator_core.protocol.errors import InvalidRequest

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
    readiness = await call.coordinator.readiness()
    answer = ReadyAnswer(readiness.is_ready, list(readiness.reasons))
    return Response(answer, status_code=200 if readiness.is_ready else 503)


@get("/metrics", tags=TAGS, opt={REQUEST: "Metrics"}, media_type=CONTENT_TYPE)
async def metrics(call: ThisCall, detail: FromQuery[str] = "topic") -> Response[bytes]:
    """Show the node's sums as Prometheus reads them, and its groups as deep as `detail` says (docs/metrics.md)."""
    deep = _detail(detail)
    stored = await _stored(call, by_partition=deep == "partition") if deep in {"topic", "partition"} else None
    scrape = Scrape(call.door.metrics, call.coordinator.counts(), deep, stored)
    return Response(await asyncio.to_thread(scrape.text), media_type=CONTENT_TYPE)


async def _stored(call: Call, *, by_partition: bool) -> Stored:
    """Look at everything at once, so that a database that hangs is waited for once."""
    coordinator, lookback_ms = call.coordinator, call.door.limits.lag_lookback_ms

    async def behind_ms() -> Mapping[tuple[str, str, int], int] | None:
        return await coordinator.behind_ms(lookback_ms) if by_partition else None

    found = await asyncio.gather(
        coordinator.positions(by_partition=by_partition), behind_ms(), coordinator.expiring(), coordinator.newest_runs()
    )
    return Stored(*found)


def _detail(asked: str) -> Detail:
    for known in DETAILS:
        if asked == known:
            return known
    raise InvalidRequest(f"detail must be one of {', '.join(DETAILS)}")
