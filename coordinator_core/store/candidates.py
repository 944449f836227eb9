"""Lists of a run's candidates: what it proposes for which group, and the outcome."""

from dataclasses import dataclass
from typing import NamedTuple


class CandidateCursor(NamedTuple):
    """The last candidate of a page."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCandidate:
    """A candidate: an offset, or (with the topic and partition of WHOLE_GROUP) a group. Unused fields are None."""

    group_id: str
    topic: str
    partition: int
    generation: int | None
    state_since_ms: int | None
    committed_at_ms: int | None
    reason: str | None
    outcome: str | None
    """None while undecided."""

    @property
    def cursor(self) -> CandidateCursor:
        """Return the cursor of a page that ends here."""
        return CandidateCursor(self.group_id, self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDay:
    """A day of a history table that a run has copied and proposes to drop."""

    table: str
    day: str
    """As 2026-01-31, in UTC."""
    path: str
    row_count: int
    checksum: str
    verified_at_ms: int
    outcome: str | None
    """None while undecided."""
