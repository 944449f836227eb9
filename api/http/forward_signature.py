"""Forward signatures: headers with the client's identity on a forwarded request, signed with the cluster secret.

A signature is valid for one request to one node, once. The HMAC-SHA256 covers

* the client's address, and with tokens the id and the identity of the client's token; the token itself is not sent;
* the receiving node and the time of signing: a signature older than MUSTER_FORWARD_MAX_AGE_MS, or further ahead of the
  receiver's clock, is refused;
* a nonce: the sender's run id and a sequence number. The receiver keeps a replay window per run, as IPsec does;
* the method, the path, the query, the actor, the idempotency key and the digest of the body. So the signature is
  checked before the body is read, and the body against its digest afterwards.

A node that has just started has an empty replay window, so it refuses signatures older than its start with a retriable
error. A forwarded request is never forwarded again. Without a cluster secret nodes sign with an empty key, which is
allowed only while they listen on loopback. While a secret is replaced, a node accepts signatures of two.

Source: RFC 2104; RFC 4303, 3.4.3 for the window; RFC 9530 for Content-Digest.
"""

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final, Literal, NamedTuple, get_args

from msgspec.structs import replace

from api.http.limits import REPLAY_WINDOW
from api.http.problems import InvalidForwardSignature
from api.shared.identity import Identity, identity_bytes, read_identity
from coordinator_core.protocol.errors import CoordinatorNotAvailable

ACTOR_HEADER: Final = b"x-muster-actor"
IDEMPOTENCY_HEADER: Final = b"idempotency-key"

TOKEN_ID: Final = " token="
"""What precedes the token's id, behind the client's address in its header: nodes of 0.1.0 sign no further headers."""
CLIENT_HEADER: Final = b"x-muster-forwarded-for"
IDENTITY_HEADER: Final = b"x-muster-forwarded-identity"
NODE_HEADER: Final = b"x-muster-forward-to"
TIME_HEADER: Final = b"x-muster-forward-at"
NONCE_HEADER: Final = b"x-muster-forward-nonce"
DIGEST_HEADER: Final = b"content-digest"
SIGNATURE_HEADER: Final = b"x-muster-forward-signature"
SIGNED_HEADERS: Final = (
    CLIENT_HEADER,
    IDENTITY_HEADER,
    NODE_HEADER,
    TIME_HEADER,
    NONCE_HEADER,
    DIGEST_HEADER,
    ACTOR_HEADER,
    IDEMPOTENCY_HEADER,
)

SignatureFault = Literal["signature", "node", "clock", "replay", "identity", "body"]
SIGNATURE_FAULTS: Final[tuple[SignatureFault, ...]] = get_args(SignatureFault)
ALWAYS_SIGNED: Final = frozenset({CLIENT_HEADER, NODE_HEADER, DIGEST_HEADER})
TIME = re.compile(rb"[0-9]{1,15}")
NONCE = re.compile(rb"([0-9a-f]{16})-([0-9]{1,18})")


class ForwardedClient(NamedTuple):
    """The client of a forwarded request, from its verified signature headers."""

    client_host: str
    identity: Identity | None
    """The identity of the client's token; None if the sending node has no tokens."""
    body_digest: bytes
    """In the form of Content-Digest."""

    def check_body(self, body: bytes) -> None:
        """Compare the body with its signed digest.

        Raises:
            InvalidForwardSignature: the body is not the one that was signed.
        """
        if _digest(body) != self.body_digest:
            raise InvalidForwardSignature("body", "the body of the forwarded request is not the one that was signed")


class ForwardSigner:
    """Signs the requests that this node forwards, and verifies those that other nodes forward to it."""

    def __init__(
        self,
        secret: str,
        node_url: str,
        max_age_ms: int,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        *,
        accepted_secret: str = "",
    ) -> None:
        """Start a run: a new run id and empty replay windows.

        Args:
            secret: the cluster secret; empty if there is none.
            node_url: the advertised URL of this node.
            max_age_ms: the maximum age of a signature, and the maximum time that it may be ahead.
            now_ms: the wall clock, in milliseconds since the epoch.
            accepted_secret: another secret, with which other nodes may sign; empty if there is none.
        """
        self._secret = secret.encode()
        self._accepted_secrets = [each.encode() for each in (secret, accepted_secret) if each or each is secret]
        self._node_url = node_url.encode()
        self._max_age_ms = max_age_ms
        self._now_ms = now_ms
        self._started_at_ms = now_ms()
        self._run = secrets.token_hex(8).encode()
        self._numbers = count()
        self._windows: dict[bytes, _ReplayWindow] = {}
        """Run id of a sender → its replay window."""

    def headers(
        self,
        target: bytes,
        body: bytes,
        given: Mapping[bytes, bytes],
        client_host: str,
        identity: Identity | None = None,
        *,
        node_url: str,
    ) -> list[tuple[bytes, bytes]]:
        """Return the signature headers of a forwarded request.

        Args:
            target: the method, the raw path and the query.
            body: the whole body.
            given: the client's headers by lower-case name.
            client_host: the client's address; empty if it has none.
            identity: the identity of the client's token; None without tokens.
            node_url: the URL of the receiving node.
        """
        token = f"{TOKEN_ID}{identity.token_id}" if identity is not None and identity.token_id else ""
        signed = {
            CLIENT_HEADER: f"{client_host}{token}".encode(),
            NODE_HEADER: node_url.encode(),
            TIME_HEADER: b"%d" % self._now_ms(),
            NONCE_HEADER: b"%b-%d" % (self._run, next(self._numbers)),
            DIGEST_HEADER: _digest(body),
        }
        if identity is not None:
            signed[IDENTITY_HEADER] = identity_bytes(identity)
        from_client = {name: given[name] for name in (ACTOR_HEADER, IDEMPOTENCY_HEADER) if name in given}
        signed[SIGNATURE_HEADER] = signature_of(self._secret, target, {**from_client, **signed})
        return list(signed.items())

    def read(self, target: bytes, headers: Mapping[bytes, bytes]) -> ForwardedClient:
        """Verify the signature headers of a request, mark the nonce as used, and return the client.

        The body need not have been read; check it with `ForwardedClient.check_body`.

        Args:
            target: the method, the raw path and the query.
            headers: the headers of the request by lower-case name.

        Raises:
            InvalidForwardSignature: the signature is invalid, for another node, too old, or already used, or the
                identity cannot be read.
            CoordinatorNotAvailable: the signature is older than this process, which cannot know whether it was used.
        """
        signature = headers.get(SIGNATURE_HEADER, b"")
        nonce = NONCE.fullmatch(headers.get(NONCE_HEADER, b""))
        signed_at = TIME.fullmatch(headers.get(TIME_HEADER, b""))
        is_signed = any(
            hmac.compare_digest(signature, signature_of(secret, target, headers)) for secret in self._accepted_secrets
        )
        if not is_signed or nonce is None or signed_at is None or not headers.keys() >= ALWAYS_SIGNED:
            raise InvalidForwardSignature("signature", "the forwarded request has no valid signature of this cluster")
        node_url = headers[NODE_HEADER]
        if node_url != self._node_url:
            shown = node_url.decode("latin-1")
            raise InvalidForwardSignature("node", f"the request was forwarded to {shown}, and this is another node")
        self._check_time(int(signed_at[0]))
        self._use(nonce[1], int(nonce[2]))
        host, _, token_id = headers[CLIENT_HEADER].decode("utf-8", "replace").partition(TOKEN_ID)
        identity = _read_identity(headers.get(IDENTITY_HEADER))
        if identity is not None:
            identity = replace(identity, token_id=token_id)
        return ForwardedClient(host, identity, headers[DIGEST_HEADER])

    def _check_time(self, signed_at_ms: int) -> None:
        age_ms = self._now_ms() - signed_at_ms
        if abs(age_ms) > self._max_age_ms:
            when = f"{age_ms} ms ago" if age_ms > 0 else f"{-age_ms} ms ahead of this node's clock"
            raise InvalidForwardSignature(
                "clock", f"the request was forwarded {when}: compare the clocks of the two nodes"
            )
        if signed_at_ms < self._started_at_ms:
            raise CoordinatorNotAvailable("the request was forwarded before this node started")

    def _use(self, run: bytes, number: int) -> None:
        """Mark a number as used, and drop the windows of runs without a recent request."""
        now_ms = self._now_ms()
        window = self._windows.get(run)
        if window is None:
            for known, each in list(self._windows.items()):
                if now_ms - each.used_at_ms > 2 * self._max_age_ms:
                    del self._windows[known]
            window = self._windows[run] = _ReplayWindow()
        window.used_at_ms = now_ms
        if not window.take(number):
            raise InvalidForwardSignature("replay", "the forwarded request was received before")


class _ReplayWindow:
    """The newest REPLAY_WINDOW sequence numbers of one run, used or free; older numbers count as used."""

    __slots__ = ("_newest", "_used", "used_at_ms")

    def __init__(self) -> None:
        self._newest = -1
        self._used = bytearray(REPLAY_WINDOW)
        self.used_at_ms = 0

    def take(self, number: int) -> bool:
        """Mark a number as used, and return whether it was free."""
        if number <= self._newest - REPLAY_WINDOW:
            return False
        for passed in range(max(self._newest + 1, number - REPLAY_WINDOW + 1), number + 1):
            self._used[passed % REPLAY_WINDOW] = 0
        self._newest = max(self._newest, number)
        was_free = not self._used[number % REPLAY_WINDOW]
        self._used[number % REPLAY_WINDOW] = 1
        return was_free


def signature_of(secret: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> bytes:
    """Return the signature of the headers of a request with its target."""
    digest = hmac.new(secret, digestmod=hashlib.sha256)
    for part in (target, *(headers.get(name) for name in SIGNED_HEADERS)):
        digest.update(b"-:" if part is None else b"%d:%b" % (len(part), part))
    return digest.hexdigest().encode()


def _read_identity(header: bytes | None) -> Identity | None:
    try:
        return None if header is None else read_identity(header)
    except ValueError:
        raise InvalidForwardSignature(
            "identity", "the identity of the forwarded request cannot be read: compare the releases of the two nodes"
        ) from None


def _digest(body: bytes) -> bytes:
    return b"sha-256=:%b:" % base64.b64encode(hashlib.sha256(body).digest())
