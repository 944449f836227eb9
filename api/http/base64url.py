"""Any text as characters that need no escape in a path or query, and back; padding may be there or not."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

ENCODED = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def encode(text: str) -> str:
    """Return base64url of the UTF-8, without padding."""
    return urlsafe_b64encode(text.encode()).decode("ascii").rstrip("=")


def decode(encoded: str) -> bytes:
    """Return what base64url stands for.

    Raises:
        ValueError: it is none.
    """
    if not ENCODED.fullmatch(encoded):
        raise ValueError("not base64url")
    stripped = encoded.rstrip("=")
    return urlsafe_b64decode(stripped + "=" * (-len(stripped) % 4))
