"""Who the client of a connection is: the owner of the token that it has sent by SASL, or that of its certificate."""

import structlog

from api.kafka import sasl
from api.shared.identity import Identity
from api.shared.tls import NO_CERTIFICATE, ClientCertificate
from api.shared.tokens import Tokens, token_id_of

log = structlog.get_logger("muster.api")


class Authentication:
    """The identity of a client, and by what it has it."""

    __slots__ = ("_certificate", "_client_host", "_credentials", "_tokens", "identity", "is_token_next", "mechanism")

    def __init__(self, tokens: Tokens | None, client_host: str, certificate: ClientCertificate) -> None:
        """Begin with the certificate.

        Args:
            tokens: the tokens of the node; None: every request is allowed.
            client_host: the client's address.
            certificate: of the connection.
        """
        self._tokens = tokens
        self._client_host = client_host
        self._certificate = certificate
        self._credentials: tuple[str, bytes] | None = None
        """The mechanism and the token that the client has sent."""
        self.mechanism = ""
        """The mechanism of the client's handshake."""
        self.is_token_next = False
        """Whether the next frame is the client's token alone."""
        self.identity: Identity | None = None
        """None: the client is not known, or the node has no tokens."""
        self.renew()

    @property
    def is_known(self) -> bool:
        """Return whether the client may send requests."""
        return self._tokens is None or self.identity is not None

    @property
    def has_failed(self) -> bool:
        """Return whether the client has sent a token that is not valid, or is no longer."""
        return self._credentials is not None and not self.is_known

    def renew(self) -> None:
        """Find the identity again: a token may have been revoked since."""
        if self._tokens is None:
            return
        if self._credentials is not None:
            self.identity = sasl.find_identity(self._tokens, *self._credentials)
        elif self._certificate is not NO_CERTIFICATE:
            self.identity = self._tokens.find_certificate(self._certificate)

    def begin(self, version: int, mechanism: str) -> None:
        """Take a SaslHandshake of this version."""
        self.mechanism = mechanism
        self.is_token_next = version == sasl.BARE_TOKEN_VERSION and mechanism in sasl.MECHANISMS

    def take_token(self, auth_bytes: bytes) -> str | None:
        """Take a token, and return why it is refused, or None.

        A client may send a new token, but only of the same actor (KIP-368).
        """
        self.is_token_next = False
        if self._tokens is None:  # an open node: there is nothing to check
            return None
        before = None if self._credentials is None else self.identity
        self._credentials = self.mechanism, auth_bytes
        self.renew()
        if self.identity is None:
            refusal = "the token is unknown or has expired"
        elif before is not None and self.identity.actor != before.actor:
            self.identity = None
            refusal = "the token is of another actor than the one before"
        else:
            return None
        token = sasl.token_of(*self._credentials)
        token_id = token_id_of(token) if token else None
        log.warning("kafka_authentication_failed", client=self._client_host, token_id=token_id, reason=refusal)
        return refusal

    def lifetime_s(self, auth_bytes: bytes) -> float | None:
        """Return for how many seconds the token that was just taken is valid; None: without an end."""
        return None if self._tokens is None else self._tokens.lifetime_s(auth_bytes)
