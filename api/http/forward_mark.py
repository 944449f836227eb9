"""Forwarding marks: a request that one node forwards to another carries who asked, signed with the cluster's secret.

A mark is good for one request to one node, once. The signature (HMAC-SHA256) covers

* the client's address, and where there are tokens the identity of the client's token, which itself stays behind;
* the node that the mark is meant for, and when it was signed: it is refused after MUSTER_FORWARD_MAX_AGE_MS, or when
  the clocks of the two nodes differ by more than that;
* a nonce, which is the sender's run and a number that it uses once: the receiver keeps a window of the numbers that it
  has seen, as IPsec does;
* the method, the path, the query, the actor, the idempotency key and the digest of the body. So a mark is checked
  before the body is read, and the body against its digest afterwards.

A node that has just started has seen no numbers, so it refuses marks that are older than itself; the client asks again.
A request with a mark is never forwarded again. Without a secret every node signs with an empty one, which is fit for an
open node only: it listens on loopback.

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

from api.http.limits import MARK_WINDOW
from api.http.problems import ForeignMark
from api.http.tokens import Identity, identity_bytes, read_identity
from coordinator_core.protocol.errors import CoordinatorNotAvailable

ACTOR_HEADER: Final = b"x-muster-actor"
IDEMPOTENCY_HEADER: Final = b"idempotency-key"

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

MarkFault = Literal["signature", "node", "clock", "replay", "body"]
MARK_FAULTS: Final[tuple[MarkFault, ...]] = get_args(MarkFault)
ALWAYS_SIGNED: Final = frozenset({CLIENT_HEADER, NODE_HEADER, DIGEST_HEADER})
TIME = re.compile(rb"[0-9]{1,15}")
NONCE = re.compile(rb"([0-9a-f]{16})-([0-9]{1,18})")


class Mark(NamedTuple):
    """What a mark says of the client that asked first."""

    client_host: str
    identity: Identity | None
    """Whose token it came with; None where the node that forwarded the request is open."""
    body_digest: bytes
    """As Content-Digest has it."""

    def check_body(self, body: bytes) -> None:
        """Check the body that has been read.

        Raises:
            ForeignMark: it is not the one that was signed.
        """
        if _digest(body) != self.body_digest:
            raise ForeignMark("body", "the body of the forwarded request is not the one that was signed")


class ForwardMarks:
    """Signs what this node forwards, and reads the marks of other nodes."""

    def __init__(
        self, secret: str, node_url: str, max_age_ms: int, now_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    ) -> None:
        """Prepare.

        Args:
            secret: the cluster's.
            node_url: this node's, as other nodes know it.
            max_age_ms: how old a mark may be, and how far ahead.
            now_ms: the wall clock, in milliseconds since the epoch.
        """
        self._secret = secret.encode()
        self._node_url = node_url.encode()
        self._max_age_ms = max_age_ms
        self._now_ms = now_ms
        self._started_at_ms = now_ms()
        self._run = secrets.token_hex(8).encode()
        self._numbers = count()
        self._windows: dict[bytes, _Window] = {}
        """Run of a sender → the numbers that it has used."""

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
        """Return the headers that mark a request.

        Args:
            target: the method, the raw path and the query.
            body: the whole body.
            given: the client's headers, by their names in lower case.
            client_host: the address of the client that asked first; empty where it has none.
            identity: whose token it came with, where there are tokens.
            node_url: the node that the request is forwarded to.
        """
        mark = {
            CLIENT_HEADER: client_host.encode(),
            NODE_HEADER: node_url.encode(),
            TIME_HEADER: b"%d" % self._now_ms(),
            NONCE_HEADER: b"%b-%d" % (self._run, next(self._numbers)),
            DIGEST_HEADER: _digest(body),
        }
        if identity is not None:
            mark[IDENTITY_HEADER] = identity_bytes(identity)
        asked = {name: given[name] for name in (ACTOR_HEADER, IDEMPOTENCY_HEADER) if name in given}
        mark[SIGNATURE_HEADER] = self._signature(target, {**asked, **mark})
        return list(mark.items())

    def read(self, target: bytes, headers: Mapping[bytes, bytes]) -> Mark:
        """Return what a request's mark says, and take it as used; the body need not have been read.

        Args:
            target: the method, the raw path and the query.
            headers: the request's, by their names in lower case.

        Raises:
            ForeignMark: it was not signed with this cluster's secret, for this node and within the time, or was used.
            CoordinatorNotAvailable: it is older than this process, which cannot know whether it was used.
        """
        signature = headers.get(SIGNATURE_HEADER, b"")
        nonce = NONCE.fullmatch(headers.get(NONCE_HEADER, b""))
        signed_at = TIME.fullmatch(headers.get(TIME_HEADER, b""))
        is_signed = hmac.compare_digest(signature, self._signature(target, headers))
        if not is_signed or nonce is None or signed_at is None or not headers.keys() >= ALWAYS_SIGNED:
            raise ForeignMark("signature", "the request claims to come from a node of this cluster and is not signed")
        node_url = headers[NODE_HEADER]
        if node_url != self._node_url:
            shown = node_url.decode("latin-1")
            raise ForeignMark("node", f"the request was forwarded to {shown}, and this is another node")
        self._check_time(int(signed_at[0]))
        self._use(nonce[1], int(nonce[2]))
        identity = headers.get(IDENTITY_HEADER)
        host = headers[CLIENT_HEADER].decode("utf-8", "replace")
        return Mark(host, None if identity is None else read_identity(identity), headers[DIGEST_HEADER])

    def _check_time(self, signed_at_ms: int) -> None:
        age_ms = self._now_ms() - signed_at_ms
        if abs(age_ms) > self._max_age_ms:
            when = f"{age_ms} ms ago" if age_ms > 0 else f"{-age_ms} ms ahead of this node's clock"
            raise ForeignMark("clock", f"the request was forwarded {when}: compare the clocks of the two nodes")
        if signed_at_ms < self._started_at_ms:
            raise CoordinatorNotAvailable("the request was forwarded before this node started")

    def _use(self, run: bytes, number: int) -> None:
        """Take a number as used; windows of runs that can send nothing more within the time are dropped."""
        now_ms = self._now_ms()
        window = self._windows.get(run)
        if window is None:
            for known, each in list(self._windows.items()):
                if now_ms - each.used_at_ms > 2 * self._max_age_ms:
                    del self._windows[known]
            window = self._windows[run] = _Window()
        window.used_at_ms = now_ms
        if not window.take(number):
            raise ForeignMark("replay", "the forwarded request has been here before")

    def _signature(self, target: bytes, headers: Mapping[bytes, bytes]) -> bytes:
        digest = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in (target, *(headers.get(name) for name in SIGNED_HEADERS)):
            digest.update(b"-:" if part is None else b"%d:%b" % (len(part), part))
        return digest.hexdigest().encode()


class _Window:
    """The numbers of one sender that have been used, the newest MARK_WINDOW of them; older ones count as used."""

    __slots__ = ("_newest", "_used", "used_at_ms")

    def __init__(self) -> None:
        self._newest = -1
        self._used = bytearray(MARK_WINDOW)
        self.used_at_ms = 0

    def take(self, number: int) -> bool:
        """Take a number as used, and return whether it was free."""
        if number <= self._newest - MARK_WINDOW:
            return False
        for passed in range(max(self._newest + 1, number - MARK_WINDOW + 1), number + 1):
            self._used[passed % MARK_WINDOW] = 0
        self._newest = max(self._newest, number)
        was_free = not self._used[number % MARK_WINDOW]
        self._used[number % MARK_WINDOW] = 1
        return was_free


def _digest(body: bytes) -> bytes:
    return b"sha-256=:%b:" % base64.b64encode(hashlib.sha256(body).digest())
