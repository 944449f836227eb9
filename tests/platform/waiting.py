"""Tests wait for what they expect, look often, and fail when it has not come in time."""

import select
import time
from collections.abc import Callable
from typing import TypeVar

WITHIN_S = 30.0
LOOK_EVERY_S = 0.02

Found = TypeVar("Found")


def eventually(look: Callable[[], Found], within_s: float = WITHIN_S) -> Found:
    """Return the first truth that `look` finds.

    Raises:
        AssertionError: none came in time.
    """
    deadline_s = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline_s, "what was expected did not come"
        select.select([], [], [], LOOK_EVERY_S)
    return found
