"""A request that one node passes on to another carries a mark: who the client is, signed with the cluster's secret.

The mark also says that the request has been passed on once, and so never is again. Without a secret every node signs
with an empty one, which is fit for an open node only: it listens on loopback.
"""

import hashlib
import hmac
from typing import Final

from api.http.problems import ForeignMark

CLIENT_HEADER: Final = b"x-muster-forwarded-for"
SIGNATURE_HEADER: Final = b"x-muster-forward-signature"


class ForwardMarks:
    """Signs what this node passes on, and reads what others have."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def headers(self, target: bytes, body: bytes, client_host: str) -> list[tuple[bytes, bytes]]:
        """Return the headers that mark a request.

        Args:
            target: the method, the raw path and the query.
            body: the whole body.
            client_host: the address of the client that asked first; empty where it has none.
        """
        host = client_host.encode()
        return [(CLIENT_HEADER, host), (SIGNATURE_HEADER, self._signature(target, body, host))]

    def read(self, target: bytes, body: bytes, host: bytes, signature: bytes | None) -> str:
        """Return the client's address out of a request's mark.

        Raises:
            ForeignMark: it was not signed with this cluster's secret.
        """
        if signature is None or not hmac.compare_digest(signature, self._signature(target, body, host)):
            raise ForeignMark("the request was passed on, but not signed with this cluster's secret")
        return host.decode("utf-8", "replace")

    def _signature(self, target: bytes, body: bytes, host: bytes) -> bytes:
        digest = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in (target, host, body):
            digest.update(b"%d:" % len(part))
            digest.update(part)
        return digest.hexdigest().encode()
