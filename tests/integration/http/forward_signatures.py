"""Signature headers of requests that another node of the cluster forwards."""

import time
from collections.abc import Mapping

from api.http.forward_signature import ForwardSigner
from api.shared.identity import Identity

MAX_AGE_MS = 30_000


def forward_headers(
    secret: str,
    node_url: str,
    target: str,
    body: bytes = b"",
    *,
    identity: Identity | None = None,
    given: Mapping[bytes, bytes] | None = None,
    ahead_ms: int = 0,
) -> dict[str, str]:
    """Return the signature headers of a forwarded request.

    Args:
        secret: the cluster secret of the sending node.
        node_url: the URL of the receiving node.
        target: the method, the raw path and the query.
        body: the whole body.
        identity: the identity of the client's token.
        given: the client's headers by lower-case name.
        ahead_ms: how far the sender's clock is ahead.
    """
    signer = ForwardSigner(secret, "http://another-node", MAX_AGE_MS, lambda: int(time.time() * 1000) + ahead_ms)
    signed = signer.headers(target.encode(), body, given or {}, "192.0.2.7", identity, node_url=node_url)
    return {name.decode(): value.decode() for name, value in signed}
