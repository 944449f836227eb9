"""Conversion between RFC 3339 instants and milliseconds since the epoch."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, ValidationError, convert

from coordinator_core.protocol.errors import InvalidRequest

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MIN_INSTANT: Final = datetime.min.replace(tzinfo=UTC)
"""The earliest instant that `datetime` can hold."""


def instant(at_ms: int) -> datetime:
    """Return the instant of milliseconds since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def instant_or_none(at_ms: int | None) -> datetime | None:
    """Return the instant of milliseconds since the epoch; None for None."""
    return None if at_ms is None else instant(at_ms)


def parse_instant(text: str, name: str) -> datetime:
    """Parse a query parameter as an instant; accept a space for the plus of the offset, since a query decodes it so.

    Raises:
        InvalidRequest: the text is no instant; the detail names the parameter.
    """
    try:
        found: datetime = convert(re.sub(r" (?=\d\d:\d\d$)", "+", text), Annotated[datetime, Meta(tz=True)])
    except ValidationError:
        example = "2026-11-21T02:13:00Z"
        raise InvalidRequest(f"{name} must be an RFC 3339 time with its offset, such as {example}") from None
    return in_utc(found, name)


def in_utc(found: datetime, name: str) -> datetime:
    """Convert an instant to UTC.

    Raises:
        InvalidRequest: the year in UTC is out of range; the detail names the field or parameter.
    """
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise InvalidRequest(f"{name} must be within the years 1 to 9999 in UTC") from None


def epoch_ms(found: datetime) -> int:
    """Return an instant as milliseconds since the epoch, rounded down."""
    return (found - EPOCH) // timedelta(milliseconds=1)


def parse_instant_ms(text: str, name: str) -> int:
    """Parse a query parameter as an instant in milliseconds since the epoch, rounded down."""
    return epoch_ms(parse_instant(text, name))
