"""Shards that a node could not load: why, and when it tries each of them again.

A shard that fails is released, so that another node may take it, and this node waits twice as long after every failure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coordinator_core.runtime.clock import Clock

RETRY_MS: Final = 250
RETRY_MAX_MS: Final = 30_000
NAMED_MAX: Final = 5
"""Shards that one sentence names."""


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """The last failure of one shard."""

    why: str
    attempts: int
    retry_at_ms: int
    """Node time."""


class LoadFailures:
    """The shards of one node that could not be loaded and are not loaded since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[int, LoadFailure] = {}

    def add(self, shard_id: int, why: str) -> None:
        """Record a failure."""
        before = self._failures.get(shard_id)
        attempts = 1 if before is None else before.attempts + 1
        wait_ms = min(RETRY_MAX_MS, RETRY_MS * 2 ** min(attempts - 1, 10))
        self._failures[shard_id] = LoadFailure(why, attempts, self._clock.now().node_ms + wait_ms)

    def forget(self, shard_ids: Iterable[int]) -> None:
        """Forget shards that are loaded now, or that another node owns."""
        for shard_id in shard_ids:
            self._failures.pop(shard_id, None)

    def is_waiting(self, shard_id: int) -> bool:
        """Tell whether it is too early to try a shard again."""
        failure = self._failures.get(shard_id)
        return failure is not None and self._clock.now().node_ms < failure.retry_at_ms

    def steps(self, shard_ids: list[int], at_once: int) -> list[list[int]]:
        """Return in which steps shards are loaded: those that failed one by one, after all others."""
        fresh = [shard_id for shard_id in shard_ids if shard_id not in self._failures]
        failed = [[shard_id] for shard_id in shard_ids if shard_id in self._failures]
        return [fresh[first : first + at_once] for first in range(0, len(fresh), at_once)] + failed

    def why(self, shard_id: int) -> str | None:
        """Return why a shard is not served, as a sentence; None if it did not fail."""
        failure = self._failures.get(shard_id)
        return None if failure is None else f"the group's shard cannot be loaded: {failure.why}"

    def reasons(self) -> tuple[str, ...]:
        """Return why the node is not ready, a sentence for each cause."""
        by_cause: dict[str, list[int]] = {}
        for shard_id, failure in sorted(self._failures.items()):
            by_cause.setdefault(failure.why, []).append(shard_id)
        return tuple(f"{_named(shard_ids)} cannot be loaded: {why}" for why, shard_ids in by_cause.items())


def _named(shard_ids: list[int]) -> str:
    names = ", ".join(map(str, shard_ids[:NAMED_MAX]))
    if len(shard_ids) > NAMED_MAX:
        return f"{len(shard_ids)} shards ({names} …)"
    return f"shard {names}" if len(shard_ids) == 1 else f"shards {names}"
