"""A run is what a job or a person would have taken away, or brought back: candidate by candidate, each with an outcome.

Its status only goes forward: proposed → applying → applied, or proposed → rejected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from coordinator_core.protocol.requests import GroupSeen

TOPIC_DELETION = "topic_deletion"
"""The kind of a run that takes the offsets of a deleted topic away."""
UNDO = "undo"
"""The kind of a run that takes back what another change archived."""
GROUP_CLEANUP = "group_cleanup"
"""The kind of a run that retires groups; its candidates are groups, and no offsets."""
WHOLE_GROUP: tuple[str, int] = ("", -1)
"""The topic and partition of a candidate, or of an outcome, that is about a group and no offset of it."""


class RunStatus(StrEnum):
    """How far a run is. Source: tables.md, `maintenance_runs`."""

    PROPOSED = "proposed"
    APPLYING = "applying"
    APPLIED = "applied"
    REJECTED = "rejected"
    FAILED = "failed"


OVER: Final[frozenset[str]] = frozenset({RunStatus.APPLIED, RunStatus.REJECTED, RunStatus.FAILED})
"""The statuses after which nothing more comes of a run."""
UNDECIDED: Final = "undecided"
"""How candidates are counted that have no outcome yet."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of `maintenance_runs`."""

    run_id: str
    kind: str
    as_of_ms: int
    interval_start_ms: int | None
    interval_end_ms: int | None
    status: str
    dry_run: bool
    counts: dict[str, int]
    """Candidates by outcome (`undecided` while they have none), beside what the job itself counted."""


def decided(status: str, wanted: RunStatus) -> str | None:
    """Return the status of a run once somebody has it applied or rejected; None: it was decided otherwise.

    A run that is further already stays as it is.

    Args:
        status: what it is now.
        wanted: APPLYING or REJECTED.
    """
    if status == RunStatus.PROPOSED:
        return wanted
    return status if (status == RunStatus.REJECTED) == (wanted == RunStatus.REJECTED) else None


def is_as_seen(counts: Mapping[str, int], candidates: int | None) -> bool:
    """Tell whether a proposal still names as many candidates as somebody has seen; None: nobody minds."""
    return candidates is None or counts.get("candidates") == candidates


class CandidateRow(NamedTuple):
    """A row of `expiry_candidates` or `cleanup_candidates` that has no outcome yet, in a run that is applying.

    One of `cleanup_candidates` has the topic and partition of WHOLE_GROUP and the commit version 0.
    """

    run_id: str
    change_id: str
    """The change under which the run takes what it takes."""
    shard_id: int
    group_id: str
    topic: str
    partition: int
    commit_version: int
    kind: str = "offset_retention"
    """The run's."""
    undoes: str | None = None
    """The change that a run of kind `undo` takes back."""
    seen: GroupSeen | None = None
    """What a row of `cleanup_candidates` says of its group."""


class ForecastRow(NamedTuple):
    """A row of `offset_expiry_forecasts`, without what its run says."""

    group_id: str
    shard_id: int
    within_a_day: int
    within_a_week: int
    next_at_ms: int


class OutcomeRow(NamedTuple):
    """What became of a candidate; written in the transaction of the change itself."""

    run_id: str
    group_id: str
    topic: str
    partition: int
    outcome: str

    @property
    def is_of_group(self) -> bool:
        """Tell whether it is about a group, and no offset of it."""
        return (self.topic, self.partition) == WHOLE_GROUP
