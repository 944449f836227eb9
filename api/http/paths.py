"""A path is read as it came over the wire: split at its slashes, and only then percent-decoded, once.

So a group id may hold a slash (`%2F`), and one that is empty or too long is told so, whatever else the path says.

Source: http-api.md "What a group may be called".
"""

from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from api.http import base64url
from api.http.limits import GROUP_ID_MAX_CHARS
from api.http.problems import NoSuchRoute
from coordinator_core.protocol.errors import InvalidGroupId, InvalidRequest

GROUPS: Final = b"/v1/groups/"
PATHS_REMEMBERED: Final = 32_768
"""How many paths are not read again: agents ask the same ones all the time."""
REMEMBERED_MAX_BYTES: Final = 512
"""What is longer is read each time, so that nobody can fill the memory with paths."""
EMPTY_ID_ACTIONS: Final = frozenset(
    {("GET", b""), ("DELETE", b""), ("POST", b"offsets"), ("GET", b"offsets"), ("POST", b"offsets/query")}
)
"""What may be asked of the group whose id is empty: describe, delete, commit and fetch."""


class GroupPath(NamedTuple):
    """A path below `/v1/groups/`, taken apart."""

    group_id: str
    action: bytes
    """What follows the group, still encoded; empty for the group itself."""


def read_group_path(method: str, raw_path: bytes) -> GroupPath | None:
    """Take a raw path apart, or return None where it names no group.

    Raises:
        InvalidGroupId: the segment cannot be a group's id.
        InvalidRequest: the segment is no text.
        NoSuchRoute: another segment is empty.
    """
    read = _read_anew if len(raw_path) > REMEMBERED_MAX_BYTES else _read
    return read(method, raw_path)


def _read_anew(method: str, raw_path: bytes) -> GroupPath | None:
    if not raw_path.startswith(GROUPS):
        _refuse_empty_segments(raw_path)
        return None
    segment, slash, action = raw_path[len(GROUPS) :].partition(b"/")
    group_id = read_group_id(segment)
    if slash:
        _refuse_empty_segments(b"/g/" + action)
    if not group_id and (method, action) not in EMPTY_ID_ACTIONS:
        raise InvalidGroupId("the group id is empty")
    return GroupPath(group_id, action)


_read = lru_cache(PATHS_REMEMBERED)(_read_anew)


def read_group_id(segment: bytes) -> str:
    """Return the group id that a raw path segment names; `~` and base64url can name any."""
    text = read_segment(segment)
    if text.startswith("~"):
        text = _from_base64url(text[1:])
    elif not text:
        raise InvalidGroupId("the group id is empty")
    elif text in {".", ".."}:
        raise InvalidGroupId("a group id . or .. is written ~ and its base64url")
    if len(text) > GROUP_ID_MAX_CHARS:
        raise InvalidGroupId(f"the group id has {len(text)} characters, and may have {GROUP_ID_MAX_CHARS}")
    return text


def read_segment(segment: bytes) -> str:
    """Percent-decode a raw path segment.

    Raises:
        InvalidRequest: what comes out is not UTF-8, or holds NUL.
    """
    return read_text(unquote_to_bytes(segment), "a path segment")


def refuse_unreadable_query(query: bytes) -> None:
    """Raise `InvalidRequest` unless the query string is text once it is decoded."""
    if query:
        read_text(unquote_to_bytes(query), "the query")


def _from_base64url(encoded: str) -> str:
    try:
        data = base64url.decode(encoded)
    except ValueError:
        raise InvalidGroupId("after ~ comes base64url, and this is none") from None
    return read_text(data, "the group id")


def read_text(data: bytes, what: str) -> str:
    """Return bytes as text.

    Raises:
        InvalidRequest: they are not UTF-8, or hold NUL; the detail begins with `what` they are.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{what} is not UTF-8") from None
    if "\0" in text:
        raise InvalidRequest(f"{what} holds NUL")
    return text


def _refuse_empty_segments(path: bytes) -> None:
    if b"//" in path or (path.endswith(b"/") and path != b"/"):
        raise NoSuchRoute("a segment of the path is empty")
