"""A tokens file says who may ask what: one entry a bearer token, of which it holds the SHA-256 and never the token.

A node reads it when it starts, and anew within a second of a change. A new file that will not do is told in the log,
and the one before stays in force. The form is told in docs/security.md.
"""

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
import structlog
from msgspec import Meta, Struct

from api.http.limits import ACTOR_MAX_CHARS, GROUP_ID_MAX_CHARS, TOPIC_MAX_CHARS
from api.http.reading import sentence_of

log = structlog.get_logger("muster.http")

LOOK_AGAIN_S: Final = 1.0
"""How long a changed file may stay unnoticed."""
TOKENS_FILE_MAX_BYTES: Final = 16_777_216
TOKEN_MAX_BYTES: Final = 4_096
IDENTITY_MAX_BYTES: Final = 16_384
"""How long it may be what one node tells another of who asks: a quarter of what headers may be."""
WARN_BEFORE_S: Final = 7 * 86_400.0
"""How long before a token expires it is told of."""
WARN_AGAIN_S: Final = 86_400.0
EVERY_GROUP: Final = ("",)
"""The prefixes of whoever may touch every group."""
EVERY_TOPIC: Final = ("",)


class Role(StrEnum):
    """What a token is for; an operator may do what the others may."""

    AGENT = "agent"
    VIEWER = "viewer"
    OPERATOR = "operator"


class Identity(NamedTuple):
    """Whoever came with a token."""

    actor: str
    role: Role
    prefixes: tuple[str, ...] = EVERY_GROUP
    """How the ids of the groups begin that it may touch."""
    topics: tuple[str, ...] = ()
    """How the topics begin for whose log ends it is trusted."""

    @property
    def trusted_topics(self) -> tuple[str, ...]:
        """Return the prefixes of the topics whose log ends it may set for every group.

        An operator of every group may set every group's offsets anyway, and is trusted for all topics unless its token
        names some.
        """
        is_trusted_anyway = not self.topics and self.role is Role.OPERATOR and self.sees_all
        return EVERY_TOPIC if is_trusted_anyway else self.topics

    def sees(self, group_id: str) -> bool:
        """Tell whether a group is one of its own."""
        return group_id.startswith(self.prefixes)

    @property
    def sees_all(self) -> bool:
        """Tell whether every group is its own."""
        return "" in self.prefixes

    def prefixes_within(self, asked: str) -> list[str]:
        """Return what its own groups begin with among those that begin with `asked`; in order, and none twice."""
        within = {asked if asked.startswith(own) else own for own in self.prefixes if _meet(asked, own)}
        return sorted(one for one in within if not any(one.startswith(other) for other in within - {one}))


class TokensFileError(Exception):
    """The file will not do; the sentence says where and why, and holds nothing of a token."""


Prefix = Annotated[str, Meta(max_length=GROUP_ID_MAX_CHARS)]
TopicPrefix = Annotated[str, Meta(max_length=TOPIC_MAX_CHARS)]


class TokenEntry(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One token of the file."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """Of the token's bytes, in small hexadecimal letters."""
    actor: Annotated[str, Meta(min_length=1, max_length=ACTOR_MAX_CHARS)]
    role: Role
    prefixes: Annotated[tuple[Prefix, ...], Meta(min_length=1)] = EVERY_GROUP
    topics: tuple[TopicPrefix, ...] = ()
    """How the topics begin for whose log ends it is trusted: those count for every group, others for its own."""
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None
    """From then on it is refused; None: never."""


class KnownToken(NamedTuple):
    """What is known of a token by its digest."""

    digest: bytes
    identity: Identity | None
    expires_at: datetime | None

    def is_over(self, now_s: float) -> bool:
        """Tell whether it is refused at a Unix time."""
        return self.expires_at is not None and now_s >= self.expires_at.timestamp()

    def is_over_soon(self, now_s: float) -> bool:
        """Tell whether it is refused then, or will be within the days of the warning."""
        return self.is_over(now_s + WARN_BEFORE_S)


NO_TOKEN: Final = KnownToken(b"", None, None)


class TokensFileBody(Struct, forbid_unknown_fields=True):
    """The whole file."""

    tokens: list[TokenEntry]


Signs = tuple[int, int, int]
"""What shows that a file is another: its inode, its size and when it was written."""


class Tokens:
    """The tokens of one file, as they are in force."""

    def __init__(
        self, path: Path, now_s: Callable[[], float] = time.monotonic, wall_s: Callable[[], float] = time.time
    ) -> None:
        """Read the file.

        Args:
            path: of the tokens file.
            now_s: a clock that never steps, in seconds.
            wall_s: what time it is, in seconds since the epoch; tokens expire by it.

        Raises:
            TokensFileError: it will not do.
        """
        self._path = path
        self._now_s = now_s
        self._wall_s = wall_s
        self._warn_again_at_s: dict[bytes, float] = {}
        self._look_again_at_s = now_s() + LOOK_AGAIN_S
        self._signs = _signs(path)
        self._known = read_tokens_file(path)

    def __len__(self) -> int:
        """Return how many tokens are in force."""
        return len(self._known)

    def find(self, token: bytes) -> Identity | None:
        """Return who has this token, or None when nobody has, or it has expired.

        The time it takes tells nothing of any token: what is looked up is a digest, whose neighbours nobody can aim at.
        """
        if self._now_s() >= self._look_again_at_s:
            self._look_again()
        known = self._of(token)
        if known.expires_at is not None and self._is_over(known):
            return None
        return known.identity

    def expired_at(self, token: bytes) -> datetime | None:
        """Return when a token expired that was one, or None."""
        known = self._of(token)
        return known.expires_at if known.is_over(self._wall_s()) else None

    def _of(self, token: bytes) -> KnownToken:
        digest = hashlib.sha256(token).digest()
        known = self._known.get(digest, NO_TOKEN)
        return known if hmac.compare_digest(known.digest, digest) else NO_TOKEN

    def _is_over(self, known: KnownToken) -> bool:
        """Tell whether a token has expired; while it is used in its last days, that is told once a day."""
        now_s = self._wall_s()
        if known.is_over_soon(now_s) and now_s >= self._warn_again_at_s.get(known.digest, 0.0):
            self._warn_again_at_s[known.digest] = now_s + WARN_AGAIN_S
            actor = None if known.identity is None else known.identity.actor
            log.warning("token_expires", actor=actor, expires_at=str(known.expires_at), is_over=known.is_over(now_s))
        return known.is_over(now_s)

    def _look_again(self) -> None:
        """Read the file anew if it is another one."""
        self._look_again_at_s = self._now_s() + LOOK_AGAIN_S
        signs = _signs(self._path)
        if signs == self._signs:
            return
        self._signs = signs
        try:
            self._known = read_tokens_file(self._path)
            self._warn_again_at_s.clear()
        except TokensFileError as refusal:
            log.error("tokens_not_read", why=str(refusal))
        else:
            log.info("tokens_read", tokens=len(self._known))


def read_tokens_file(path: Path) -> dict[bytes, KnownToken]:
    """Return who has which token, by the token's digest; those that have expired as well.

    Raises:
        TokensFileError: the file cannot be read, or is not what it should be.
    """
    try:
        if path.stat().st_size > TOKENS_FILE_MAX_BYTES:
            raise TokensFileError(f"{path} is larger than {TOKENS_FILE_MAX_BYTES} bytes")
        body = msgspec.json.decode(path.read_bytes(), type=TokensFileBody)
    except OSError as failure:
        raise TokensFileError(f"{path} cannot be read ({failure.strerror})") from None
    except msgspec.ValidationError as refusal:
        raise TokensFileError(f"{path}: {sentence_of(str(refusal))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise TokensFileError(f"{path} is not JSON") from None
    found: dict[bytes, KnownToken] = {}
    for number, entry in enumerate(body.tokens):
        digest = bytes.fromhex(entry.sha256)
        if digest in found:
            raise TokensFileError(f"{path}: tokens[{number}] has the sha256 of another token")
        identity = Identity(entry.actor, entry.role, entry.prefixes, entry.topics)
        if len(identity_bytes(identity)) > IDENTITY_MAX_BYTES:
            raise TokensFileError(f"{path}: tokens[{number}] has more prefixes and topics than a request can carry on")
        found[digest] = KnownToken(digest, identity, entry.expires_at)
    return found


def identity_bytes(identity: Identity) -> bytes:
    """Return an identity as JSON in ASCII, for a header; nodes of earlier releases read one without topics."""
    return json.dumps(identity if identity.topics else identity[:-1]).encode("ascii")


def read_identity(data: bytes) -> Identity:
    """Return who somebody is out of what `identity_bytes` made."""
    return msgspec.json.decode(data, type=Identity)


def token_entry(
    token: str,
    actor: str,
    role: Role,
    prefixes: tuple[str, ...],
    topics: tuple[str, ...] = (),
    expires_at: datetime | None = None,
) -> TokenEntry:
    """Return what a tokens file says of a token; `expires_at` to the second, in UTC."""
    until = None if expires_at is None else expires_at.astimezone(UTC).replace(microsecond=0)
    return TokenEntry(hashlib.sha256(token.encode()).hexdigest(), actor, role, prefixes, topics, until)


def _meet(asked: str, own: str) -> bool:
    return asked.startswith(own) or own.startswith(asked)


def _signs(path: Path) -> Signs | None:
    """Return a file's signs; a name that points elsewhere now has others, and one that is gone has none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - what is wanted is what it points to
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
