"""Cursors: the place of a page's last row, as base64url of a JSON array.

A cursor is opaque to callers. One that the list did not give (altered, or of another list) is refused, and nothing of
it reaches the database that the database could not hold.
"""

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from api.http import base64url
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.store.history import END_OF_TIME_MS

Fields = TypeVar("Fields", bound=tuple[object, ...])

AtMs = Annotated[int, Meta(ge=0, le=END_OF_TIME_MS)]
"""An instant, in milliseconds since the epoch."""
Int32 = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Name = Annotated[str, Meta(max_length=1_000, pattern=r"\A[^\0]*\Z")]
"""A text that Postgres can hold: no NUL. The decoder refuses half a surrogate pair."""
UUID_LETTERS: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
UuidText = Annotated[str, Meta(pattern=rf"\A{UUID_LETTERS}\Z")]
NOT_OURS: Final = "the cursor is not one that this list gave"


def write_cursor(*place: int | str) -> str:
    """Return the cursor of a place."""
    return base64url.encode(msgspec.json.encode(place).decode())


def read_cursor(cursor: str, fields: type[Fields]) -> Fields | None:
    """Return the place that a cursor names; None for no cursor, which is the first page.

    Args:
        cursor: as the caller sent it.
        fields: a tuple type whose parts have bounds, as those above.

    Raises:
        InvalidRequest: the list never gave such a cursor.
    """
    if not cursor:
        return None
    try:
        return msgspec.json.decode(base64url.decode(cursor), type=fields)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        raise InvalidRequest(NOT_OURS) from None
