"""The memory that large bodies may take, over all requests under way.

A large body counts from before it is read until its request is answered: a join or a sync may be parked for minutes.
Small bodies do not count, so heartbeats and most commits pass whatever else a node holds.
"""

from typing import Final

from coordinator_core.protocol.errors import CoordinatorNotAvailable

SMALL_BODY_MAX_BYTES: Final = 65_536
"""A body up to this size does not count."""


class BodyBudget:
    """Counts the bytes of large bodies of one node."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0

    def resize(self, held_bytes: int, size: int) -> int:
        """Hold memory for a body that has grown, in place of what it held; return what it holds now.

        Args:
            held_bytes: what was returned before for the same body; 0 at first.
            size: of the body in bytes, as far as it is known; 0 releases what was held.

        Raises:
            CoordinatorNotAvailable: large bodies take all the memory that they may; nothing has changed.
        """
        wanted = size if size > SMALL_BODY_MAX_BYTES else 0
        total = self._held_bytes - held_bytes + wanted
        if wanted > held_bytes and total > self._max_bytes:
            raise CoordinatorNotAvailable("too many large requests are under way (max_large_bodies_bytes)")
        self._held_bytes = total
        return wanted
