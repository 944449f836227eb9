"""Forwarding marks as another node of the cluster makes them."""

import time
from collections.abc import Mapping

from api.http.forward_mark import ForwardMarks
from api.http.tokens import Identity

MAX_AGE_MS = 30_000


def mark(
    secret: str,
    node_url: str,
    target: str,
    body: bytes = b"",
    *,
    identity: Identity | None = None,
    given: Mapping[bytes, bytes] | None = None,
    ahead_ms: int = 0,
) -> dict[str, str]:
    """Return the headers of a request that another node forwards.

    Args:
        secret: what that node signs with.
        node_url: the node that it forwards to.
        target: the method, the raw path and the query.
        body: the whole body.
        identity: whose token the client came with.
        given: the client's own headers, by their names in lower case.
        ahead_ms: how far that node's clock is ahead.
    """
    marks = ForwardMarks(secret, "http://another-node", MAX_AGE_MS, lambda: int(time.time() * 1000) + ahead_ms)
    signed = marks.headers(target.encode(), body, given or {}, "192.0.2.7", identity, node_url=node_url)
    return {name.decode(): value.decode() for name, value in signed}
