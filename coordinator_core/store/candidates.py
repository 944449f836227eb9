"""A run's candidates as people look through them: what was proposed of which group, and what came of it."""

from dataclasses import dataclass
from typing import NamedTuple


class CandidatePlace(NamedTuple):
    """Where a page of candidates ended."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCandidate:
    """An offset, or (with the topic and partition of WHOLE_GROUP) a group; what does not belong to it is None."""

    group_id: str
    topic: str
    partition: int
    generation: int | None
    state_since_ms: int | None
    committed_at_ms: int | None
    reason: str | None
    outcome: str | None
    """None while nobody has decided."""

    @property
    def place(self) -> CandidatePlace:
        """Return where a page that ends here ends."""
        return CandidatePlace(self.group_id, self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDay:
    """A day of a history table that a run has copied, and means to drop."""

    table: str
    day: str
    """As 2026-01-31, in UTC."""
    path: str
    row_count: int
    checksum: str
    verified_at_ms: int
    outcome: str | None
    """None while nobody has decided."""
