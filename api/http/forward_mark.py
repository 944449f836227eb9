"""A request that one node passes on to another carries a mark: who the client is, signed with the cluster's secret.

The mark also says that the request has been passed on once, and so never is again. Where there are tokens it says whose
token the client came with, and the token itself stays behind. Without a secret every node signs with an empty one,
which is fit for an open node only: it listens on loopback.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

from api.http.problems import ForeignMark
from api.http.tokens import Identity, identity_bytes, read_identity

CLIENT_HEADER: Final = b"x-muster-forwarded-for"
IDENTITY_HEADER: Final = b"x-muster-forwarded-identity"
SIGNATURE_HEADER: Final = b"x-muster-forward-signature"


class Mark(NamedTuple):
    """What a mark says of the client that asked first."""

    client_host: str
    identity: Identity | None
    """Whose token it came with; None where the node that passed it on is open."""


class ForwardMarks:
    """Signs what this node passes on, and reads what others have."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def headers(
        self, target: bytes, body: bytes, client_host: str, identity: Identity | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return the headers that mark a request.

        Args:
            target: the method, the raw path and the query.
            body: the whole body.
            client_host: the address of the client that asked first; empty where it has none.
            identity: whose token it came with, where there are tokens.
        """
        said = [(CLIENT_HEADER, client_host.encode())]
        if identity is not None:
            said.append((IDENTITY_HEADER, identity_bytes(identity)))
        return [*said, (SIGNATURE_HEADER, self._signature(target, body, [value for _, value in said]))]

    def read(self, target: bytes, body: bytes, headers: Mapping[bytes, bytes]) -> Mark:
        """Return what a request's mark says; it has one, be it a false one.

        Args:
            target: the method, the raw path and the query.
            body: the whole body.
            headers: the request's, by their names in lower case.

        Raises:
            ForeignMark: it was not signed with this cluster's secret.
        """
        host = headers[CLIENT_HEADER]
        identity, signature = headers.get(IDENTITY_HEADER), headers.get(SIGNATURE_HEADER)
        said = [host] if identity is None else [host, identity]
        if signature is None or not hmac.compare_digest(signature, self._signature(target, body, said)):
            raise ForeignMark("the request was passed on, but not signed with this cluster's secret")
        return Mark(host.decode("utf-8", "replace"), None if identity is None else read_identity(identity))

    def _signature(self, target: bytes, body: bytes, said: list[bytes]) -> bytes:
        digest = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in (target, *said, body):
            digest.update(b"%d:" % len(part))
            digest.update(part)
        return digest.hexdigest().encode()
