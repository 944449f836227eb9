"""Cursors: the name of the list and the sort key of a page's last row, as base64url of text with a JSON array.

A cursor is opaque to clients. A cursor from another list is refused, and so is an altered one if its fields do not fit,
so that no value reaches the database that it cannot hold.
"""

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from api.http import base64url
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.state_store.postgres.timestamps import END_OF_TIME_MS

Fields = TypeVar("Fields", bound=tuple[object, ...])
Place = TypeVar("Place", bound=tuple[int | str, ...])
Row = TypeVar("Row")

AtMs = Annotated[int, Meta(ge=0, le=END_OF_TIME_MS)]
"""An instant, in milliseconds since the epoch."""
Int32 = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Name = Annotated[str, Meta(max_length=1_000, pattern=r"\A[^\0]*\Z")]
"""A text that Postgres can hold: no NUL. The decoder refuses half a surrogate pair."""
UUID_LETTERS: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
UuidText = Annotated[str, Meta(pattern=rf"\A{UUID_LETTERS}\Z")]
current_list: Final[ContextVar[str]] = ContextVar("current_list", default="")
"""The name of the request that is answered, which is that of a list."""
INVALID_CURSOR: Final = "the cursor was not issued by this list"


def write_cursor(*place: int | str | tuple[int, ...] | None) -> str:
    """Return the cursor for a sort key, and what the next page has to know besides."""
    return base64url.encode(f"{current_list.get()} {msgspec.json.encode(place).decode()}")


def page_after(
    rows: Iterable[Row], place: Callable[[Row], Place], after: Place | None, limit: int
) -> tuple[Sequence[Row], str | None]:
    """Return a page of rows that were all read, and the cursor of the next page; None if it is the last one.

    Args:
        rows: the rows, sorted by `place`.
        place: returns the sort key of a row.
        after: the sort key of the last row of the previous page; None: the first page.
        limit: how many rows the page has at most.
    """
    return page_of([row for row in rows if after is None or place(row) > after], place, limit)


def page_of(
    rows: Sequence[Row], place: Callable[[Row], tuple[int | str, ...]], limit: int
) -> tuple[Sequence[Row], str | None]:
    """Return a page, and the cursor of the next one; None if there are no more rows than `limit`.

    Args:
        rows: the rows of the page, and at least one more if there is one.
        place: returns the sort key of a row.
        limit: how many rows the page has at most.
    """
    page = rows[:limit]
    return page, write_cursor(*place(page[-1])) if len(rows) > limit else None


def read_cursor(cursor: str, fields: type[Fields]) -> Fields | None:
    """Return the sort key of a cursor; None for an empty cursor, which is the first page.

    Args:
        cursor: the text that the client sent.
        fields: a tuple type of bounded fields, such as those above.

    Raises:
        InvalidRequest: the list does not issue such a cursor.
    """
    if not cursor:
        return None
    try:
        list_name, _, place = base64url.decode(cursor).partition(b" ")
        if list_name.decode() != current_list.get():
            raise InvalidRequest(INVALID_CURSOR)
        return msgspec.json.decode(place, type=fields)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        raise InvalidRequest(INVALID_CURSOR) from None
