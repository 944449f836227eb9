"""A position that replaces one of the same minute sends nothing to history; where that is certain, nobody looks.

Looking costs Postgres a quarter of a commit. What the writer itself has stored in the present minute, under a lease
that it still has, nobody else can have changed since. What is remembered is bounded, and may be forgotten at any time:
whoever is not known is looked at.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from coordinator_core.store.postgres.folding import Folded, OffsetKey

REMEMBERED_MAX: Final = 200_000
"""How many partitions are remembered, at some hundred bytes each."""
NOBODY: Final[AbstractSet[OffsetKey]] = frozenset()


class PresentMinute:
    """The partitions that were stored in one minute; for the writer's thread only."""

    def __init__(self) -> None:
        self._minute_ms = 0
        self._stored: set[OffsetKey] = set()
        self._epochs: dict[int, int] = {}
        """Shard → the epoch under which its partitions were stored."""

    def known(self, folded: Folded, epochs: Mapping[int, int]) -> AbstractSet[OffsetKey]:
        """Return partitions whose position, where one is stored, is of the very minute of all the batch's commits."""
        is_present = folded.minutes == {self._minute_ms} and self._has_kept(epochs)
        return self._stored if is_present else NOBODY

    def note(self, folded: Folded, epochs: Mapping[int, int]) -> None:
        """Take note that a whole batch is committed."""
        if len(folded.minutes) != 1:
            return
        (minute_ms,) = folded.minutes
        is_full = len(self._stored) + len(folded.commits) > REMEMBERED_MAX
        if minute_ms != self._minute_ms or is_full or not self._has_kept(epochs):
            self._minute_ms = minute_ms
            self._stored.clear()
            self._epochs.clear()
        self._stored.update(folded.commits)
        self._epochs.update(epochs)

    def _has_kept(self, epochs: Mapping[int, int]) -> bool:
        """Tell whether none of the shards was away in between."""
        return {**self._epochs, **epochs} == {**epochs, **self._epochs}
