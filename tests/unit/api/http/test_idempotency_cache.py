"""The cache of responses to changes with an idempotency key is limited, in number and in bytes."""

from dataclasses import dataclass, field
from typing import Any, cast

from api.http.forward_signature import IDEMPOTENCY_HEADER
from api.http.idempotency_cache import IdempotencyCache
from api.http.limits import IDEMPOTENCY_CACHE_BODY_MAX_BYTES
from api.http.request_context import RequestContext
from api.http.response import JSON, HttpResponse


@dataclass
class FakeContext:
    """A request with a key that has made a change."""

    key: bytes
    scope: dict[str, Any] = field(
        default_factory=lambda: {"method": "POST", "raw_path": b"/v1/groups/g/offsets/reset", "query_string": b""}
    )
    body: bytes = b"{}"
    identity: None = None
    change_id: str = "id"
    request: str = "ResetOffsets"
    actor: str = "ada"

    def header(self, name: bytes) -> bytes | None:
        return self.key if name == IDEMPOTENCY_HEADER else None


def a_request(key: bytes) -> RequestContext:
    return cast("RequestContext", FakeContext(key))


def a_response(size_bytes: int) -> HttpResponse:
    return HttpResponse(200, JSON, bytes(size_bytes))


def test_the_latest_responses_are_found() -> None:
    cache = IdempotencyCache(limit=2)
    for key in (b"1", b"2", b"3"):
        cache.store(a_request(key), a_response(10))

    assert [cache.find(a_request(key)) is not None for key in (b"1", b"2", b"3")] == [False, True, True]


def test_large_response_is_not_cached_since_the_database_has_its_change() -> None:
    cache = IdempotencyCache()
    cache.store(a_request(b"1"), a_response(IDEMPOTENCY_CACHE_BODY_MAX_BYTES))
    cache.store(a_request(b"2"), a_response(IDEMPOTENCY_CACHE_BODY_MAX_BYTES + 1))

    assert [cache.find(a_request(key)) is not None for key in (b"1", b"2")] == [True, False]
