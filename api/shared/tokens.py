"""The tokens file: one entry per bearer token or client certificate, with its actor and its permissions.

A node reads the file when it starts, and again within a second of a change. If a new file is invalid, the node logs
`token_reload_failed` and keeps the previous tokens. The format is in docs/security.md.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
import structlog
from msgspec import Meta, Struct

from api.shared.access_control import AccessControlEntry
from api.shared.file_version import file_version
from api.shared.identity import ALL_GROUPS, IDENTITY_MAX_BYTES, Actor, Identity, Role, identity_bytes
from api.shared.limits import GROUP_ID_MAX_CHARS, TOPIC_MAX_CHARS
from api.shared.quotas import NO_RATES
from api.shared.tls import ClientCertificate
from api.shared.validation import validation_message

log = structlog.get_logger("muster.api")

RELOAD_CHECK_INTERVAL_S: Final = 1.0
"""The minimum time between two checks of the file for changes."""
TOKENS_FILE_MAX_BYTES: Final = 16_777_216
TOKEN_MAX_BYTES: Final = 4_096
CREDENTIALS_KEPT: Final = 10_000
"""How many credentials are remembered as they were sent, before all are forgotten."""
TOKEN_ID_CHARS: Final = 16
"""A token's id is the beginning of its SHA-256 in hexadecimal, which names it in logs and reveals nothing of it."""
EXPIRY_WARNING_S: Final = 7 * 86_400.0
"""How long before its expiry a token is warned about."""
EXPIRY_WARNING_INTERVAL_S: Final = 86_400.0


class TokensFileError(Exception):
    """The tokens file is invalid; the text names the place and the reason, and contains no part of a token."""


Prefix = Annotated[str, Meta(max_length=GROUP_ID_MAX_CHARS)]
TopicPrefix = Annotated[str, Meta(max_length=TOPIC_MAX_CHARS)]


QuotaName = Literal["client_quota_requests_per_s", "client_quota_bytes_per_s"]


class TokenEntry(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One token of the file, or the certificates of one client."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None
    """The digest of the token's bytes, in lower-case hexadecimal."""
    certificate: Annotated[str, Meta(pattern="^(CN=|DNS:|URI:|email:).", max_length=1_024)] | None = None
    """In place of a token: a name in the certificate of the client, as `client_certificate` returns them."""
    actor: Actor
    role: Role | None = None
    prefixes: Annotated[tuple[Prefix, ...], Meta(min_length=1)] = ALL_GROUPS
    topics: tuple[TopicPrefix, ...] = ()
    """Prefixes of the topics whose log ends it is trusted to report for every group."""
    acls: tuple[AccessControlEntry, ...] = ()
    """What it is allowed or denied beside its role; without a role, all that it is allowed."""
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None
    """The instant from which it is refused; None: never."""
    quotas: dict[QuotaName, Annotated[int, Meta(ge=1)]] = {}
    """Quotas in place of the settings, for all clients with a token of this actor."""


def token_id_of(token: bytes) -> str:
    """Return the id of a token, whether it is known or not."""
    return hashlib.sha256(token).hexdigest()[:TOKEN_ID_CHARS]


class KnownToken(NamedTuple):
    """A token or the certificates of a client; `digest` is that of the token, or of the name."""

    digest: bytes
    identity: Identity | None
    expires_at: datetime | None
    quotas: Mapping[str, int] = NO_RATES

    def is_expired(self, now_s: float) -> bool:
        """Return whether it has expired at a Unix time."""
        return self.expires_at is not None and now_s >= self.expires_at.timestamp()

    def expires_soon(self, now_s: float) -> bool:
        """Return whether it has expired at a Unix time, or will within EXPIRY_WARNING_S."""
        return self.is_expired(now_s + EXPIRY_WARNING_S)


NO_TOKEN: Final = KnownToken(b"", None, None)


class TokensFileBody(Struct, forbid_unknown_fields=True):
    """The whole file."""

    tokens: list[TokenEntry]


TokenKey = bytes | str
"""The digest of a token, or a name in a certificate."""


class Tokens:
    """The effective tokens of a node: those of the file, and those in the database."""

    def __init__(
        self, path: Path | None, now_s: Callable[[], float] = time.monotonic, wall_s: Callable[[], float] = time.time
    ) -> None:
        """Read the file.

        Args:
            path: the tokens file; None: there is none, and `replace_stored` gives all tokens.
            now_s: a monotonic clock, in seconds.
            wall_s: the wall clock, in seconds since the epoch; tokens expire by it.

        Raises:
            TokensFileError: the file cannot be read or is invalid.
        """
        self._path = path
        self._now_s = now_s
        self._wall_s = wall_s
        self._next_warning_at_s: dict[bytes, float] = {}
        self._next_reload_check_at_s = now_s() + RELOAD_CHECK_INTERVAL_S
        self._file_version = None if path is None else file_version(path)
        self._known = {} if path is None else read_tokens_file(path)
        self._stored: Mapping[bytes, KnownToken] = {}
        self._version = 0
        """Changes with each change of the tokens."""
        self._recent: dict[bytes, KnownToken] = {}
        """Known tokens by the credentials that a client has sent: without them each heartbeat parses its header again,
        and computes a digest."""
        self._quotas: Mapping[str, Mapping[str, int]] = {}
        self._quotas_of: Mapping[TokenKey, KnownToken] = {}
        """The tokens that `_quotas` was read from."""

    def __len__(self) -> int:
        """Return the number of tokens, expired ones included."""
        return len(self._known) + len(self._stored)

    def replace_stored(self, tokens: Mapping[bytes, KnownToken]) -> None:
        """Set the tokens in the database, by digest; they count beside those of the file."""
        self._stored = tokens
        self._forget_recent()

    def find(self, credentials: bytes, token_of: Callable[[bytes], bytes] = bytes) -> Identity | None:
        """Return the identity of a token, or None if it is unknown or has expired.

        The time of the look-up reveals nothing about other tokens: a dictionary compares keys of equal hashes only, and
        Python's hash of bytes has a secret of the process.

        Args:
            credentials: what the client has sent.
            token_of: returns the token in credentials, empty if there is none; not called for those that were sent
                lately. The default is for a token by itself.
        """
        if self._path is not None and self._now_s() >= self._next_reload_check_at_s:
            self._reload_if_changed(self._path)
        known = self._recent.get(credentials) or self._remember(credentials, token_of(credentials))
        if known.expires_at is not None and self._is_expired(known):
            return None
        return known.identity

    def version_of(self, credentials: bytes) -> int | None:
        """Return a version: while it is current, credentials that `find` has found have the same identity and quotas.

        None: they expire at some time, or are not remembered.
        """
        known = self._recent.get(credentials, NO_TOKEN)
        return self._version if known is not NO_TOKEN and known.expires_at is None else None

    def is_current(self, version: int) -> bool:
        """Return whether no token has changed since a version."""
        if self._path is not None and self._now_s() >= self._next_reload_check_at_s:
            self._reload_if_changed(self._path)
        return version == self._version

    def find_certificate(self, certificate: ClientCertificate) -> Identity | None:
        """Return the identity of a client's certificate; the first of its names that the file has counts.

        None: the file has none of its names, or the entry or the certificate has expired.
        """
        if self.is_expired(certificate):
            return None
        if self._path is not None and self._now_s() >= self._next_reload_check_at_s:
            self._reload_if_changed(self._path)
        known = next((self._known[name] for name in certificate.names if name in self._known), NO_TOKEN)
        return None if self._is_expired(known) else known.identity

    def is_expired(self, certificate: ClientCertificate) -> bool:
        """Return whether a certificate, which was valid in the handshake, has expired since."""
        return self._wall_s() >= certificate.expires_at_s

    def quotas_of(self, actor: str) -> Mapping[str, int]:
        """Return the own quotas of an actor, by the name of their settings; of several tokens the last counts."""
        if self._quotas_of is not self._known:
            self._quotas_of = self._known
            self._quotas = {
                one.identity.actor: one.quotas for one in self._known.values() if one.identity and one.quotas
            }
        return self._quotas.get(actor, NO_RATES)

    def lifetime_s(self, credentials: bytes) -> float | None:
        """Return for how many seconds credentials that `find` has just found are valid; None: without an end."""
        expires_at = self._recent.get(credentials, NO_TOKEN).expires_at
        return None if expires_at is None else max(0.0, expires_at.timestamp() - self._wall_s())

    def expired_at(self, token: bytes) -> datetime | None:
        """Return when a token expired; None if it is unknown or has not."""
        known = self._of(token)
        return known.expires_at if known.is_expired(self._wall_s()) else None

    def _forget_recent(self) -> None:
        self._version += 1
        self._recent.clear()

    def _of(self, token: bytes) -> KnownToken:
        if not token or len(token) > TOKEN_MAX_BYTES:
            return NO_TOKEN
        digest = hashlib.sha256(token).digest()
        return self._known.get(digest) or self._stored.get(digest) or NO_TOKEN

    def _remember(self, credentials: bytes, token: bytes) -> KnownToken:
        """Return the token, and find it faster in the same credentials from now on if it is known."""
        known = self._of(token)
        if known is not NO_TOKEN and len(credentials) <= 2 * TOKEN_MAX_BYTES:
            if len(self._recent) >= CREDENTIALS_KEPT:
                self._recent.clear()
            self._recent[credentials] = known
        return known

    def _is_expired(self, known: KnownToken) -> bool:
        """Return whether a token has expired; log a warning once a day while it is used near or after its expiry."""
        now_s = self._wall_s()
        if known.expires_soon(now_s) and now_s >= self._next_warning_at_s.get(known.digest, 0.0):
            self._next_warning_at_s[known.digest] = now_s + EXPIRY_WARNING_INTERVAL_S
            log.warning(
                "token_expiring",
                actor=known.identity and known.identity.actor,
                token_id=known.identity and known.identity.token_id,
                expires_at=str(known.expires_at),
                is_expired=known.is_expired(now_s),
            )
        return known.is_expired(now_s)

    def _reload_if_changed(self, path: Path) -> None:
        """Read the file again if its version has changed."""
        self._next_reload_check_at_s = self._now_s() + RELOAD_CHECK_INTERVAL_S
        version = file_version(path)
        if version == self._file_version:
            return
        self._file_version = version
        try:
            self._known = read_tokens_file(path)
            self._forget_recent()
            self._next_warning_at_s.clear()
        except TokensFileError as error:
            log.error("token_reload_failed", reason=str(error))
        else:
            log.info("tokens_reloaded", tokens=len(self._known))


def read_tokens_file(path: Path) -> dict[TokenKey, KnownToken]:
    """Return the tokens of a file by digest, and the clients by a name in their certificates, expired ones included.

    Raises:
        TokensFileError: the file cannot be read or is invalid.
    """
    try:
        if path.stat().st_size > TOKENS_FILE_MAX_BYTES:
            raise TokensFileError(f"{path} is larger than {TOKENS_FILE_MAX_BYTES} bytes")
        body = msgspec.json.decode(path.read_bytes(), type=TokensFileBody)
    except OSError as failure:
        raise TokensFileError(f"{path} cannot be read ({failure.strerror})") from None
    except msgspec.ValidationError as refusal:
        raise TokensFileError(f"{path}: {validation_message(str(refusal))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise TokensFileError(f"{path} is not JSON") from None
    found: dict[TokenKey, KnownToken] = {}
    for number, entry in enumerate(body.tokens):
        try:
            known = known_token(entry)
        except ValueError as refusal:
            raise TokensFileError(f"{path}: tokens[{number}] {refusal}") from None
        key = entry.certificate or known.digest
        if key in found:
            kind = "sha256" if isinstance(key, bytes) else "certificate"
            raise TokensFileError(f"{path}: tokens[{number}] has the {kind} of another token")
        found[key] = known
    return found


def known_token(entry: TokenEntry) -> KnownToken:
    """Return the token of an entry.

    Raises:
        ValueError: it has both a digest and a certificate, or neither; neither a role nor an entry of access control;
            or is too large to be forwarded.
    """
    if (entry.sha256 is None) == (entry.certificate is None):
        raise ValueError("needs either sha256 or certificate")
    if entry.role is None and not entry.acls:
        raise ValueError("has neither a role nor acls")
    sha256 = entry.sha256 or hashlib.sha256((entry.certificate or "").encode()).hexdigest()
    token_id = sha256[:TOKEN_ID_CHARS]
    identity = Identity(entry.actor, entry.role, entry.prefixes, entry.topics, entry.acls, token_id)
    if len(identity_bytes(identity)) > IDENTITY_MAX_BYTES:
        raise ValueError("has more prefixes, topics and acls than a request can carry on")
    quotas = {str(name): rate for name, rate in entry.quotas.items()}
    return KnownToken(bytes.fromhex(sha256), identity, entry.expires_at, quotas)


def token_entry(
    token: str,
    actor: str,
    role: Role | None,
    prefixes: tuple[str, ...],
    topics: tuple[str, ...] = (),
    expires_at: datetime | None = None,
    acls: tuple[AccessControlEntry, ...] = (),
) -> TokenEntry:
    """Return the entry of a tokens file for a token; `expires_at` is rounded down to the second, in UTC."""
    until = None if expires_at is None else expires_at.astimezone(UTC).replace(microsecond=0)
    return TokenEntry(
        sha256=hashlib.sha256(token.encode()).hexdigest(),
        actor=actor,
        role=role,
        prefixes=prefixes,
        topics=topics,
        acls=acls,
        expires_at=until,
    )
