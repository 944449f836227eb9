"""A finding is what one check saw, how bad that is, and what to do about it."""

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """What one check found."""

    check: str
    verdict: Literal["fine", "look", "wrong"]
    saw: str
    advice: str | None = None


def fine(check: str, saw: str) -> Finding:
    """Return that nothing needs to be done."""
    return Finding(check, "fine", saw)


def look(check: str, saw: str, advice: str) -> Finding:
    """Return that it may be meant so, or not."""
    return Finding(check, "look", saw, advice)


def wrong(check: str, saw: str, advice: str) -> Finding:
    """Return that something does not work."""
    return Finding(check, "wrong", saw, advice)
