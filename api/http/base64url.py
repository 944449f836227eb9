"""Base64url of text, for paths and cursors; written without padding, read with or without it."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

ENCODED = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def encode(text: str) -> str:
    """Return base64url of the UTF-8, without padding."""
    return urlsafe_b64encode(text.encode()).decode("ascii").rstrip("=")


def decode(encoded: str) -> bytes:
    """Return the bytes that base64url encodes.

    Raises:
        ValueError: the text is not base64url.
    """
    if not ENCODED.fullmatch(encoded):
        raise ValueError("not base64url")
    stripped = encoded.rstrip("=")
    return urlsafe_b64decode(stripped + "=" * (-len(stripped) % 4))
