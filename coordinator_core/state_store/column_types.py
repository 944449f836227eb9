"""The types of columns that values are checked against before they are stored, or when they are read."""

from typing import Annotated, Final

from msgspec import Meta

INT4_MAX: Final = 2**31 - 1
LAST_INSTANT_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""
UUID_PATTERN: Final = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"

Count = Annotated[int, Meta(ge=0, le=INT4_MAX)]
InstantMs = Annotated[int, Meta(ge=0, le=LAST_INSTANT_MS)]
UuidText = Annotated[str, Meta(pattern=UUID_PATTERN)]
