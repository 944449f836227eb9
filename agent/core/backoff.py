"""Exponential backoff with jitter."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Backoff:
    """Computes the pause after consecutive failures: doubled each time up to `max_ms`, with 20 % jitter."""

    first_ms: int
    max_ms: int
    chance: random.Random = field(default_factory=random.Random)

    def delay_ms(self, failures: int, retry_after_s: float = 0.0) -> int:
        """Return the pause in ms after so many consecutive failures (1 or more), never shorter than Retry-After."""
        doublings = min(failures - 1, 30)
        grown_ms = min(self.max_ms, self.first_ms * 2**doublings)
        jittered_ms = grown_ms * self.chance.uniform(1 - JITTER, 1 + JITTER)
        return int(max(jittered_ms, retry_after_s * 1000 * self.chance.uniform(1, 1 + JITTER)))
