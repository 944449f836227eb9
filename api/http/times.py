"""Instants come and go as RFC 3339, and go in UTC; lengths stay numbers of milliseconds."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, ValidationError, convert

from coordinator_core.protocol.errors import InvalidRequest

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST: Final = datetime.min.replace(tzinfo=UTC)
"""No moment that can be told is earlier."""


def instant(at_ms: int) -> datetime:
    """Return a moment given in milliseconds since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def instant_or_none(at_ms: int | None) -> datetime | None:
    """Return a moment, or None where there is none."""
    return None if at_ms is None else instant(at_ms)


def moment(text: str, name: str) -> datetime:
    """Read the moment that a query names; a plus that came unencoded, which a query reads as a space, is put back.

    Raises:
        InvalidRequest: it is none; the text names the parameter.
    """
    try:
        found: datetime = convert(re.sub(r" (?=\d\d:\d\d$)", "+", text), Annotated[datetime, Meta(tz=True)])
    except ValidationError:
        example = "2026-11-21T02:13:00Z"
        raise InvalidRequest(f"{name} must be a moment in RFC 3339 with its offset, such as {example}") from None
    return in_utc(found, name)


def in_utc(found: datetime, name: str) -> datetime:
    """Return a moment with its offset as one in UTC.

    Raises:
        InvalidRequest: UTC has no such year; the text names the field or parameter.
    """
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise InvalidRequest(f"{name} must be a moment of the years 1 to 9999 in UTC") from None


def as_ms(found: datetime) -> int:
    """Return a moment as milliseconds since the epoch, cutting off what is finer."""
    return (found - EPOCH) // timedelta(milliseconds=1)


def moment_ms(text: str, name: str) -> int:
    """Read the moment that a query names, as milliseconds since the epoch, cutting off what is finer."""
    return as_ms(moment(text, name))
