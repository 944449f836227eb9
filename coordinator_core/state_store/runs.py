"""Maintenance runs: what a job or an operator proposes to delete or to restore, as candidates with an outcome each.

The status of a run changes from proposed to applying to applied, or from proposed to rejected: by an operator, by
a DAG, or because it has expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # The command line, which reads the statuses, needs no msgspec.
    from coordinator_core.protocol.requests import GroupSnapshot

OFFSET_RETENTION = "offset_retention"
"""The kind of a run that archives offsets that are due."""
TOPIC_DELETION = "topic_deletion"
"""The kind of a run that archives the offsets of a deleted topic."""
UNDO = "undo"
"""The kind of a run that restores what another change archived."""
GROUP_CLEANUP = "group_cleanup"
"""The kind of a run that deletes groups without offsets; its candidates are groups, not offsets."""
WHOLE_GROUP: tuple[str, int] = ("", -1)
"""The topic and partition of a candidate or outcome of a group, instead of an offset."""


class RunStatus(StrEnum):
    """The status of a run. Source: tables.md, `maintenance_runs`."""

    PROPOSED = "proposed"
    APPLYING = "applying"
    APPLIED = "applied"
    REJECTED = "rejected"
    FAILED = "failed"


FINISHED: Final[frozenset[str]] = frozenset({RunStatus.APPLIED, RunStatus.REJECTED, RunStatus.FAILED})
"""The final statuses."""
UNDECIDED: Final = "undecided"
"""The key under which candidates without an outcome are counted."""


@dataclass(frozen=True, slots=True)
class RunDecision:
    """The change that applied or rejected a run."""

    actor: str
    at_ms: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Rejection(RunDecision):
    """An operator's rejection of a run."""

    run_id: str


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
    """The number of candidates by outcome (`undecided` without one), and the job's own counts."""
    decision: RunDecision | None = None
    """None: the run is proposed, or release 0.1.0 rejected it."""


def decided(status: str, wanted: RunStatus) -> str | None:
    """Return the status of a run after a request to apply or reject it; None: the opposite was decided already.

    Args:
        status: the current status; a run that is applying, applied or rejected keeps it.
        wanted: APPLYING or REJECTED.
    """
    if status == RunStatus.PROPOSED:
        return wanted
    return status if (status == RunStatus.REJECTED) == (wanted == RunStatus.REJECTED) else None


def expiry_reason(ttl_hours: int) -> str:
    """Return the reason of the change that rejects a proposal which waited for a decision for too long."""
    return f"expired: no decision within {ttl_hours} hours"


def has_candidate_count(counts: Mapping[str, int], candidates: int | None) -> bool:
    """Return whether a proposal has the expected number of candidates; None: any number."""
    return candidates is None or counts.get("candidates") == candidates


class CandidateRow(NamedTuple):
    """A row of `expiry_candidates` or `cleanup_candidates` that has no outcome yet, in a run that is applying.

    A row of `cleanup_candidates` has the topic and partition of WHOLE_GROUP and the commit version 0.
    """

    run_id: str
    change_id: str
    """The change under which the run archives offsets."""
    shard_id: int
    group_id: str
    topic: str
    partition: int
    commit_version: int
    kind: str = OFFSET_RETENTION
    """The kind of the run."""
    undoes: str | None = None
    """The change that a run of kind `undo` undoes."""
    seen: GroupSnapshot | None = None
    """The group as the job read it, of a row of `cleanup_candidates`."""


class OutcomeRow(NamedTuple):
    """The outcome of a candidate; written in the transaction of the change."""

    run_id: str
    group_id: str
    topic: str
    partition: int
    outcome: str

    @property
    def is_of_group(self) -> bool:
        """Return whether the candidate is a group, not an offset."""
        return (self.topic, self.partition) == WHOLE_GROUP
