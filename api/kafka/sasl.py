"""SaslHandshake and SaslAuthenticate: a token of the node as the password of PLAIN, or as the token of OAUTHBEARER.

Source: RFC 4616 (PLAIN); RFC 7628 (OAUTHBEARER).
"""

from datetime import timedelta
from typing import Final

from api.kafka.apis import ApiKey
from api.kafka.errors import SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM
from api.kafka.messages import encode
from api.shared.identity import Identity
from api.shared.tokens import Tokens

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, OAUTHBEARER)
BARE_TOKEN_VERSION: Final = 0
"""The version of SaslHandshake after which the next frame is the client's token alone, not a SaslAuthenticate."""
SESSION_LIFETIME_MAX_MS: Final = 2**31 - 1
"""The longest lifetime in a response: Java's clients cannot have one of 300 years, in nanoseconds."""
_PLAIN_PARTS: Final = 3
_BEARER: Final = b"auth=Bearer "


def handshake(version: int, mechanism: str) -> bytes:
    """Return which mechanisms there are, with an error if the client's is none of them."""
    code = 0 if mechanism in MECHANISMS else UNSUPPORTED_SASL_MECHANISM
    return encode(ApiKey.SASL_HANDSHAKE, version, {"error_code": code, "mechanisms": MECHANISMS})


def find_identity(tokens: Tokens, mechanism: str, auth_bytes: bytes) -> Identity | None:
    """Return the owner of the token that a client sent; None: it sent no token that is known and valid."""
    return tokens.find(auth_bytes, _password if mechanism == PLAIN else _bearer)


def token_of(mechanism: str, auth_bytes: bytes) -> bytes:
    """Return the token that a client sent; empty: it sent none."""
    return _password(auth_bytes) if mechanism == PLAIN else _bearer(auth_bytes)


def authenticated(version: int, refusal: str | None, lifetime_s: float | None = None) -> bytes:
    """Return the outcome, and when the token expires, so that the client sends a new one before (KIP-368)."""
    lifetime_ms = 0 if lifetime_s is None else min(int(lifetime_s * 1_000), SESSION_LIFETIME_MAX_MS)
    values = {
        "error_code": 0 if refusal is None else SASL_AUTHENTICATION_FAILED,
        "error_message": refusal,
        "auth_bytes": b"",
        "session_lifetime": timedelta(milliseconds=lifetime_ms),
    }
    return encode(ApiKey.SASL_AUTHENTICATE, version, values)


def _password(auth_bytes: bytes) -> bytes:
    """Return the password of PLAIN; the user name is the client's to choose."""
    parts = auth_bytes.split(b"\x00")
    return parts[2] if len(parts) == _PLAIN_PARTS else b""


def _bearer(auth_bytes: bytes) -> bytes:
    found = (part for part in auth_bytes.split(b"\x01") if part.startswith(_BEARER))
    return next(found, _BEARER)[len(_BEARER) :]
