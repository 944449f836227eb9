"""Shards that a node failed to load: the reasons, and when it retries.

A shard that fails is released, so that another node may acquire it. This node waits twice as long after each failure.
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

    reason: str
    attempts: int
    retry_at_ms: int
    """Node time."""


class LoadFailures:
    """The shards of one node whose last load failed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[int, LoadFailure] = {}

    def add(self, shard_id: int, reason: str) -> None:
        """Record a failure."""
        before = self._failures.get(shard_id)
        attempts = 1 if before is None else before.attempts + 1
        wait_ms = min(RETRY_MAX_MS, RETRY_MS * 2 ** min(attempts - 1, 10))
        self._failures[shard_id] = LoadFailure(reason, attempts, self._clock.now().node_ms + wait_ms)

    def forget(self, shard_ids: Iterable[int]) -> None:
        """Forget shards that are loaded now, or that another node owns."""
        for shard_id in shard_ids:
            self._failures.pop(shard_id, None)

    def is_waiting(self, shard_id: int) -> bool:
        """Return whether it is too early to retry a shard."""
        failure = self._failures.get(shard_id)
        return failure is not None and self._clock.now().node_ms < failure.retry_at_ms

    def steps(self, shard_ids: list[int], step_size: int) -> list[list[int]]:
        """Return the steps in which shards are loaded: shards that failed come last, one by one."""
        fresh = [shard_id for shard_id in shard_ids if shard_id not in self._failures]
        failed = [[shard_id] for shard_id in shard_ids if shard_id in self._failures]
        return [fresh[first : first + step_size] for first in range(0, len(fresh), step_size)] + failed

    def reason(self, shard_id: int) -> str | None:
        """Return why a shard is not served, as a sentence; None if it did not fail."""
        failure = self._failures.get(shard_id)
        return None if failure is None else f"the group's shard cannot be loaded: {failure.reason}"

    def reasons(self) -> tuple[str, ...]:
        """Return why the node is not ready, one sentence for each cause."""
        by_cause: dict[str, list[int]] = {}
        for shard_id, failure in sorted(self._failures.items()):
            by_cause.setdefault(failure.reason, []).append(shard_id)
        return tuple(f"{_named(shard_ids)} cannot be loaded: {reason}" for reason, shard_ids in by_cause.items())


def _named(shard_ids: list[int]) -> str:
    names = ", ".join(map(str, shard_ids[:NAMED_MAX]))
    if len(shard_ids) > NAMED_MAX:
        return f"{len(shard_ids)} shards ({names} …)"
    return f"shard {names}" if len(shard_ids) == 1 else f"shards {names}"
