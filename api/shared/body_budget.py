"""Memory budget for large request bodies, shared by all requests in progress.

A large body counts from before it is read until its request is answered: a join or a sync may be parked for minutes.
Small bodies do not count, so heartbeats and most commits are never refused by it.
"""

from collections import Counter
from typing import Final

from coordinator_core.protocol.errors import CoordinatorNotAvailable

SMALL_BODY_MAX_BYTES: Final = 65_536
"""A body up to this size does not count."""
MAX_SHARE: Final = 3
"""How many times the free bytes one client may reserve: three quarters of an otherwise free budget."""


class BodyBudget:
    """Counts the bytes of large bodies of one node."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._reserved_bytes = 0
        self._of_client: Counter[str] = Counter()
        """Client → the bytes that its requests reserve."""

    def resize(self, client: str, reserved_bytes: int, size: int) -> int:
        """Replace the reservation of a body by one for its new size, and return the bytes that it now reserves.

        Args:
            client: the client, of which one body always may fill the budget.
            reserved_bytes: the previous result for the same body; 0 at first.
            size: the size in bytes as far as it is known; 0 releases the reservation.

        Raises:
            CoordinatorNotAvailable: the budget is exhausted; the reservation is unchanged.
        """
        wanted = size if size > SMALL_BODY_MAX_BYTES else 0
        total = self._reserved_bytes - reserved_bytes + wanted
        of_others = self._of_client[client] - reserved_bytes
        own = of_others + wanted
        is_over = total > self._max_bytes or (of_others and own > MAX_SHARE * (self._max_bytes - total))
        if wanted > reserved_bytes and is_over:
            raise CoordinatorNotAvailable("too many large requests are under way (max_large_bodies_bytes)")
        self._reserved_bytes = total
        self._of_client[client] = own
        if not own:
            del self._of_client[client]
        return wanted
