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
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
import structlog
from msgspec import Meta, Struct

from api.http.limits import ACTOR_MAX_CHARS, GROUP_ID_MAX_CHARS
from api.http.reading import sentence_of

log = structlog.get_logger("muster.http")

LOOK_AGAIN_S: Final = 1.0
"""How long a changed file may stay unnoticed."""
TOKENS_FILE_MAX_BYTES: Final = 16_777_216
TOKEN_MAX_BYTES: Final = 4_096
IDENTITY_MAX_BYTES: Final = 16_384
"""How long it may be what one node tells another of who asks: a quarter of what headers may be."""
EVERY_GROUP: Final = ("",)
"""The prefixes of whoever may touch every group."""


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


class TokenEntry(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One token of the file."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """Of the token's bytes, in small hexadecimal letters."""
    actor: Annotated[str, Meta(min_length=1, max_length=ACTOR_MAX_CHARS)]
    role: Role
    prefixes: Annotated[tuple[Prefix, ...], Meta(min_length=1)] = EVERY_GROUP


class TokensFileBody(Struct, forbid_unknown_fields=True):
    """The whole file."""

    tokens: list[TokenEntry]


Signs = tuple[int, int, int]
"""What shows that a file is another: its inode, its size and when it was written."""


class Tokens:
    """The tokens of one file, as they are in force."""

    def __init__(self, path: Path, now_s: Callable[[], float] = time.monotonic) -> None:
        """Read the file.

        Args:
            path: of the tokens file.
            now_s: a clock that never steps, in seconds.

        Raises:
            TokensFileError: it will not do.
        """
        self._path = path
        self._now_s = now_s
        self._look_again_at_s = now_s() + LOOK_AGAIN_S
        self._signs = _signs(path)
        self._identities = read_tokens_file(path)

    def __len__(self) -> int:
        """Return how many tokens are in force."""
        return len(self._identities)

    def find(self, token: bytes) -> Identity | None:
        """Return who has this token, or None when nobody has.

        The time it takes tells nothing of any token: what is looked up is a digest, whose neighbours nobody can aim at.
        """
        if self._now_s() >= self._look_again_at_s:
            self._look_again()
        digest = hashlib.sha256(token).digest()
        kept, identity = self._identities.get(digest, (b"", None))
        return identity if hmac.compare_digest(kept, digest) else None

    def _look_again(self) -> None:
        """Read the file anew if it is another one."""
        self._look_again_at_s = self._now_s() + LOOK_AGAIN_S
        signs = _signs(self._path)
        if signs == self._signs:
            return
        self._signs = signs
        try:
            self._identities = read_tokens_file(self._path)
        except TokensFileError as refusal:
            log.error("tokens_not_read", why=str(refusal))
        else:
            log.info("tokens_read", tokens=len(self._identities))


def read_tokens_file(path: Path) -> dict[bytes, tuple[bytes, Identity]]:
    """Return who has which token, by the token's digest.

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
    identities: dict[bytes, tuple[bytes, Identity]] = {}
    for number, entry in enumerate(body.tokens):
        digest = bytes.fromhex(entry.sha256)
        if digest in identities:
            raise TokensFileError(f"{path}: tokens[{number}] has the sha256 of another token")
        identity = Identity(entry.actor, entry.role, entry.prefixes)
        if len(identity_bytes(identity)) > IDENTITY_MAX_BYTES:
            raise TokensFileError(f"{path}: tokens[{number}] has more prefixes than a request can carry on")
        identities[digest] = digest, identity
    return identities


def identity_bytes(identity: Identity) -> bytes:
    """Return who somebody is as one node tells another: JSON in ASCII, which a header can hold."""
    return json.dumps(identity).encode("ascii")


def read_identity(data: bytes) -> Identity:
    """Return who somebody is out of what `identity_bytes` made."""
    return msgspec.json.decode(data, type=Identity)


def token_entry(token: str, actor: str, role: Role, prefixes: tuple[str, ...]) -> TokenEntry:
    """Return what a tokens file says of a token."""
    return TokenEntry(hashlib.sha256(token.encode()).hexdigest(), actor, role, prefixes)


def _meet(asked: str, own: str) -> bool:
    return asked.startswith(own) or own.startswith(asked)


def _signs(path: Path) -> Signs | None:
    """Return a file's signs; a name that points elsewhere now has others, and one that is gone has none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - what is wanted is what it points to
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
