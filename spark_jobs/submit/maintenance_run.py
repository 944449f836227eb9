"""A maintenance run as nodes describe it.

Source: http-api.md, `/v1/maintenance/runs`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Copied from the core, which DAGs must not import; a test compares them.
FINISHED = frozenset({"applied", "rejected", "failed"})


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """A maintenance run's status; `counts` are by outcome and more."""

    run_id: str
    status: str
    counts: dict[str, int]
    held_by: Mapping[str, str | None] | None = None
    """The rejection that holds for it (`run_id`, `actor`, `at`, `reason`), if it is proposed."""

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> "MaintenanceRun":
        """Return the run of a node's response."""
        # Nodes of release 0.1.0 answer without `held_by`, and so does a decision.
        return cls(answer["run_id"], answer["status"], answer["counts"], answer.get("held_by"))

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended."""
        return self.status in FINISHED
