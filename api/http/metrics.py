"""What a node counts of its calls, and shows at `/metrics`; every node has its own registry.

Source: metrics-and-history.md: `muster_`, Kafka's name in snake case, base units, `_total` for counters.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from prometheus_client.exposition import generate_latest

from api.http.reply import NO_ERROR

CONTENT_TYPE: Final = "text/plain; version=0.0.4"
"""As the framework wants it, which adds the charset."""


class Metrics:
    """A node's counters."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no annotation here
        self.registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter("muster_requests", "Requests answered.", ["request"], registry=self.registry)
        self._errors = Counter(
            "muster_errors",
            "Requests refused, by Kafka's name of the error.",
            ["request", "error"],
            registry=self.registry,
        )
        self.offset_commits = Counter("muster_offset_commit", "Partitions committed.", registry=self.registry)
        self._by_request: dict[str, Counter] = {}

    def count(self, request: str, code: str) -> None:
        """Count an answer; `code` is NONE or the error's name."""
        counter = self._by_request.get(request)
        if counter is None:
            counter = self._by_request[request] = self._requests.labels(request)
        counter.inc()
        if code != NO_ERROR:
            self._errors.labels(request, code).inc()

    def scrape(self) -> bytes:
        """Return everything as Prometheus reads it."""
        return generate_latest(self.registry)
