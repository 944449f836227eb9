"""Endpoints for the node itself: liveness, readiness and metrics."""

import asyncio
from collections.abc import Mapping
from typing import Final

from litestar import Response, get
from litestar.params import FromQuery
from msgspec import Struct

from api.http.fast_path import REQUEST
from api.http.metrics import CONTENT_TYPE, DETAILS, DatabaseMetrics, Detail, Scrape
from api.http.request_context import CurrentRequest, RequestContext
from coordinator_core.protocol.errors import InvalidRequest

TAGS: Final = ["Node"]


class HealthResponse(Struct):
    """The process is alive."""

    status: str


class ReadinessResponse(Struct):
    """Whether the node serves requests; `reasons` are errors if not, else warnings."""

    is_ready: bool
    reasons: list[str]


@get("/healthz", tags=TAGS, opt={REQUEST: "Health"})
async def health() -> HealthResponse:
    """Report that the process is alive."""
    return HealthResponse("alive")


@get("/readyz", tags=TAGS, opt={REQUEST: "Readiness"})
async def readiness(context: CurrentRequest) -> Response[ReadinessResponse]:
    """Report whether the node owns shards and reaches the database: 200, or 503 with the reasons."""
    readiness = await context.coordinator.readiness()
    answer = ReadinessResponse(readiness.is_ready, list(readiness.reasons))
    if readiness.is_ready:
        answer.reasons += context.node.tls.warnings()
    return Response(answer, status_code=200 if readiness.is_ready else 503)


@get("/metrics", tags=TAGS, opt={REQUEST: "Metrics"}, media_type=CONTENT_TYPE)
async def metrics(context: CurrentRequest, detail: FromQuery[str] = "topic") -> Response[bytes]:
    """Export the metrics of the node for Prometheus, with the level of detail that `detail` names (docs/metrics.md)."""
    level = _detail(detail)
    stored = await _stored(context, by_partition=level == "partition") if level in {"topic", "partition"} else None
    max_series = context.server.limits.max_group_series
    scrape = Scrape(context.server.metrics, context.coordinator.counts(), level, max_series, stored)
    return Response(await asyncio.to_thread(scrape.text), media_type=CONTENT_TYPE)


async def _stored(context: RequestContext, *, by_partition: bool) -> DatabaseMetrics:
    """Read all values concurrently, so that a slow database delays the scrape by one timeout only."""
    snapshot, lookback_ms = context.server.metrics_snapshot, context.node.queries.limits.lag_lookback_ms

    async def time_lag_ms() -> Mapping[tuple[str, str, int], int] | None:
        return await snapshot.time_lag_ms(lookback_ms) if by_partition else None

    found = await asyncio.gather(
        snapshot.offset_totals(by_partition=by_partition),
        time_lag_ms(),
        snapshot.expiring(),
        snapshot.newest_runs(),
    )
    return DatabaseMetrics(*found)


def _detail(requested: str) -> Detail:
    for known in DETAILS:
        if requested == known:
            return known
    raise InvalidRequest(f"detail must be one of {', '.join(DETAILS)}")
