"""The minute cache: skips the history lookup for partitions that were already committed in the current minute.

A commit adds the offset that it replaces to history, unless that is of the same minute. The lookup is a quarter of the
cost of a commit. It can be skipped for partitions that this writer stored in the current minute under a lease that it
still has: no other node can have changed them since. The cache is bounded, and may be cleared at any time.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from coordinator_core.store.postgres.folding import Folded, OffsetKey

REMEMBERED_MAX: Final = 200_000
"""The maximum number of partitions, at some hundred bytes each."""
NO_PARTITIONS: Final[AbstractSet[OffsetKey]] = frozenset()


class MinuteCache:
    """The partitions that were stored in one minute; for the writer's thread only."""

    def __init__(self) -> None:
        self._minute_ms = 0
        self._stored: set[OffsetKey] = set()
        self._epochs: dict[int, int] = {}
        """Shard → the epoch under which its partitions were stored."""

    def known(self, folded: Folded, epochs: Mapping[int, int]) -> AbstractSet[OffsetKey]:
        """Return partitions whose stored offset, if any, is of the same minute as all commits of the batch."""
        is_present = folded.minutes == {self._minute_ms} and self._has_kept(epochs)
        return self._stored if is_present else NO_PARTITIONS

    def add(self, folded: Folded, epochs: Mapping[int, int]) -> None:
        """Add the partitions of a batch that was stored as a whole."""
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
        """Return whether no shard has changed its epoch."""
        return {**self._epochs, **epochs} == {**epochs, **self._epochs}
