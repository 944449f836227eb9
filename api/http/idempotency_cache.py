"""Idempotency cache: the latest responses to changes with an idempotency key.

A repeated change gets the same response and is not made again. The cache answers only a request that is equal to the
first one, body, identity and actor included; for any other, the change in the database, whose id is the key, decides.
"""

from hashlib import sha256

from api.http.forward_signature import ACTOR_HEADER, IDEMPOTENCY_HEADER
from api.http.limits import IDEMPOTENCY_CACHE_BODY_MAX_BYTES, IDEMPOTENCY_CACHE_MAX
from api.http.request_context import RequestContext
from api.http.response import HttpResponse
from api.shared.identity import Identity

Key = tuple[bytes, str, bytes, bytes, bytes, Identity | None, bytes | None]


class IdempotencyCache:
    """The latest `limit` responses to changes with a key."""

    def __init__(self, limit: int = IDEMPOTENCY_CACHE_MAX) -> None:
        self._limit = limit
        self._answers: dict[Key, tuple[str, str, str | None, HttpResponse]] = {}
        """Request → the id of its change, its name, its actor and its response."""

    def find(self, context: RequestContext) -> HttpResponse | None:
        """Return the cached response to the same request, and complete its context as then; None: there is none."""
        key = _key(context)
        if key is None or key not in self._answers:
            return None
        context.change_id, context.request, context.actor, response = self._answers[key]
        return response

    def store(self, context: RequestContext, response: HttpResponse) -> None:
        """Cache a successful response that is not large, if the request made a change and had a key."""
        key = _key(context)
        if key is None or context.change_id is None or len(response.body) > IDEMPOTENCY_CACHE_BODY_MAX_BYTES:
            return
        self._answers[key] = (context.change_id, context.request, context.actor, response)
        if len(self._answers) > self._limit:
            del self._answers[next(iter(self._answers))]


def _key(context: RequestContext) -> Key | None:
    given = context.header(IDEMPOTENCY_HEADER)
    if given is None:
        return None
    scope, body, actor = context.scope, sha256(context.body).digest(), context.header(ACTOR_HEADER)
    return given.lower(), scope["method"], scope["raw_path"], scope["query_string"], body, context.identity, actor
