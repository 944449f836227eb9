"""Parsing of request paths: a raw path is split at its slashes, and each segment is then percent-decoded once.

So a group id may contain a slash (`%2F`), and an empty or too long group id is reported as such.

Source: http-api.md "Group ids".
"""

from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from api.http import base64url
from api.http.problems import NoSuchRoute
from api.shared.limits import GROUP_ID_MAX_CHARS
from coordinator_core.protocol.errors import InvalidGroupId, InvalidRequest

GROUPS_PREFIX: Final = b"/v1/groups/"
PATH_CACHE_MAX: Final = 32_768
"""How many parsed paths are cached: agents request the same ones all the time."""
DOT_TOPICS: Final = {"~Lg": ".", "~Li4": ".."}
"""Segments of the topics that browsers and proxies take out of paths, in the form of such group ids."""
CACHED_PATH_MAX_BYTES: Final = 512
"""Longer paths are parsed each time, so that clients cannot fill the memory with paths."""
EMPTY_ID_ACTIONS: Final = frozenset({("DELETE", b""), ("POST", b"offsets"), ("POST", b"offsets/query")})
"""The requests other than GET that are allowed for the group with the empty id: delete, commit and fetch."""


class GroupPath(Struct, frozen=True):
    """A parsed path below `/v1/groups/`."""

    group_id: str
    action: bytes
    """The rest of the path after the group id, still encoded; empty for the group itself."""


def read_group_path(method: str, raw_path: bytes, max_chars: int = GROUP_ID_MAX_CHARS) -> GroupPath | None:
    """Parse a raw path; return None if it is not below `/v1/groups/`.

    Args:
        method: of the request.
        raw_path: still encoded.
        max_chars: the maximum length of the group id.

    Raises:
        InvalidGroupId: the segment is no valid group id.
        InvalidRequest: the segment is not UTF-8, or contains NUL.
        NoSuchRoute: another segment is empty.
    """
    read = _parse if len(raw_path) > CACHED_PATH_MAX_BYTES else _parse_cached
    return read(method, raw_path, max_chars)


def _parse(method: str, raw_path: bytes, max_chars: int) -> GroupPath | None:
    if not raw_path.startswith(GROUPS_PREFIX):
        _reject_empty_segments(raw_path)
        return None
    segment, slash, action = raw_path[len(GROUPS_PREFIX) :].partition(b"/")
    group_id = read_group_id(segment, max_chars)
    if slash:
        _reject_empty_segments(b"/g/" + action)
    if not group_id and method != "GET" and (method, action) not in EMPTY_ID_ACTIONS:
        raise InvalidGroupId("the group id is empty")
    return GroupPath(group_id, action)


_parse_cached = lru_cache(PATH_CACHE_MAX)(_parse)


def read_group_id(segment: bytes, max_chars: int = GROUP_ID_MAX_CHARS) -> str:
    """Return the group id of a raw path segment, which is percent-encoded, or `~` and base64url."""
    text = decode_segment(segment)
    if text.startswith("~"):
        text = _from_base64url(text[1:])
    elif not text:
        raise InvalidGroupId("the group id is empty")
    elif text in {".", ".."}:
        raise InvalidGroupId("a group id . or .. is written ~ and its base64url")
    if len(text) > max_chars:
        raise InvalidGroupId(f"the group id has {len(text)} characters, and may have {max_chars}")
    return text


def decode_segment(segment: bytes) -> str:
    """Percent-decode a raw path segment.

    Raises:
        InvalidRequest: the decoded bytes are not UTF-8, or contain NUL.
    """
    return read_text(unquote_to_bytes(segment), "a path segment")


def check_query_text(query: bytes) -> None:
    """Raise `InvalidRequest` unless the decoded query string is UTF-8 without NUL."""
    if query:
        read_text(unquote_to_bytes(query), "the query")


def _from_base64url(encoded: str) -> str:
    try:
        data = base64url.decode(encoded)
    except ValueError:
        raise InvalidGroupId("the group id after ~ is not base64url") from None
    return read_text(data, "the group id")


def read_text(data: bytes, subject: str) -> str:
    """Decode bytes as UTF-8.

    Raises:
        InvalidRequest: they are not UTF-8, or contain NUL; the detail begins with `subject`.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{subject} is not UTF-8") from None
    if "\0" in text:
        raise InvalidRequest(f"{subject} holds NUL")
    return text


def _reject_empty_segments(path: bytes) -> None:
    if b"//" in path or (path.endswith(b"/") and path != b"/"):
        raise NoSuchRoute("a segment of the path is empty")
