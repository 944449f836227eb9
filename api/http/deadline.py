"""A request other than a long poll is answered in time, or told to come again."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from coordinator_core.protocol.errors import CoordinatorNotAvailable

T = TypeVar("T")


async def in_time(answer: Awaitable[T], timeout_ms: int) -> T:
    """Wait for an answer for so long.

    Raises:
        CoordinatorNotAvailable: none has come; what was asked may have been done or not.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await answer
    except TimeoutError:
        raise CoordinatorNotAvailable(f"no answer within {timeout_ms} ms") from None
