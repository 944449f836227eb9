"""Cost of a timeout over a group's history: rebalances, evictions of live members, and lost time.

Rules:

* A join phase lasts until its slowest member has joined, or as long as the rebalance timeout allows.
* A live member that is evicted joins again: one more rebalance under a rebalance timeout, two under a session timeout
  (one for its eviction, one for its return). Each takes as long as the group's average rebalance.
* A live member that is evicted cannot commit any more: its work since then is repeated.
* History is counted by steps (`steps`), so times are rounded up to a step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_core.analytics.advice.evidence import Day, Rebalances, Rejoins
from coordinator_core.analytics.advice.replay import spurious_at
from coordinator_core.analytics.advice.steps import STEPS_MS, covered

REBALANCES_A_SPURIOUS_EXPIRY = 2


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a timeout over the history."""

    rebalances: int
    evictions: int
    """Of live members, at most."""
    stood_still_ms: int
    """The total duration of the rebalances."""
    repeated_work_ms: int
    """The total time of work that evicted live members could not commit."""

    @property
    def total_ms(self) -> int:
        """Return the lost time."""
        return self.stood_still_ms + self.repeated_work_ms

    def as_effect(self, name: str) -> dict[str, int]:
        """Return the cost under the names that advice uses."""
        return {
            f"rebalances_{name}": self.rebalances,
            f"evictions_{name}": self.evictions,
            f"stood_still_{name}_ms": self.stood_still_ms,
            f"repeated_work_{name}_ms": self.repeated_work_ms,
        }


def cost_of_rebalance_timeout(rejoins: Rejoins, rebalances: Rebalances, timeout_ms: int) -> Cost:
    """Return what a rebalance timeout would have cost over the same history."""
    evictions = sum(rejoins.counts) - covered(rejoins.counts, timeout_ms)
    added = evictions - sum(rejoins.late)
    beside_waiting_ms = max(0, rebalances.took_ms - _waiting_ms(rejoins.waits, STEPS_MS[-1]))
    added_ms = added * min(rebalances.mean_ms, timeout_ms)
    return Cost(
        rebalances=max(0, rebalances.count + added),
        evictions=evictions,
        stood_still_ms=max(0, beside_waiting_ms + added_ms + _waiting_ms(rejoins.needed, timeout_ms)),
        repeated_work_ms=_evicted_work_ms(rejoins.counts, timeout_ms),
    )


def cost_of_session_timeout(days: Sequence[Day], rebalances: Rebalances, timeout_ms: int) -> Cost:
    """Return what a session timeout would have cost over the same history."""
    evictions = spurious_at(days, timeout_ms)
    added = REBALANCES_A_SPURIOUS_EXPIRY * (evictions - sum(day.spurious for day in days))
    return Cost(
        rebalances=max(0, rebalances.count + added),
        evictions=evictions,
        stood_still_ms=max(0, rebalances.took_ms + added * rebalances.mean_ms),
        repeated_work_ms=evictions * timeout_ms,
    )


def _waiting_ms(waits: Sequence[int], timeout_ms: int) -> int:
    """Return the total wait of rebalances, counted by the step of their slowest member; the last never joined."""
    *by_step, never = waits
    return never * timeout_ms + sum(
        count * min(step_ms, timeout_ms) for count, step_ms in zip(by_step, STEPS_MS, strict=True)
    )


def _evicted_work_ms(counts: Sequence[int], timeout_ms: int) -> int:
    """Return the work time of members that a timeout does not cover; beyond the steps it counts as the timeout."""
    *by_step, beyond = counts
    late = ((count, step_ms) for count, step_ms in zip(by_step, STEPS_MS, strict=True) if step_ms > timeout_ms)
    return beyond * timeout_ms + sum(count * step_ms for count, step_ms in late)
