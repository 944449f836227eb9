"""Thresholds of the rules on rebalance churn, spurious evictions and groups that do not settle.

The rules, which `spark_jobs/rules/frequency.py` has as column expressions:

* *Churn*: at least so many rebalances began within a window. Churn periods that share a rebalance are one.
* A member that was evicted for its silence (its session, the join or the sync timed out) was evicted *spuriously* if
  the same consumer joined again within the grace, both ends included: it was alive all the time. The exception: if the
  consumer had already joined again while the member was silent, the evicted one was dead, and this is a further one.
  The same consumer has the same instance id, or else the same client id and host; and a new member id.
* A group *never settles* if a rebalance had been under way for longer than a bound when the interval ended, or if one
  that ended within the interval had restarted too often.
* The *share* of an interval in which a group rebalanced is a share of the group's life within it: from its creation to
  its death, clipped to the interval; the lives of a group that was created again add up.
* The *median* and the *high* percentile (19 of 20 are no longer) of durations are durations that occurred: the
  smallest that so large a share does not exceed.
"""

from dataclasses import dataclass
from typing import Final

EVICTION_REASONS: Final = ("session_expired", "rebalance_timeout", "sync_timeout")
"""End reasons of members that were evicted for their silence."""
MEDIAN: Final = 0.5
HIGH: Final = 0.95


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of the rules."""

    grace_ms: int
    """A member that is back within this time was evicted spuriously."""
    churn_min_rebalances: int
    """So many rebalances within the window are churn; at least 2."""
    churn_window_ms: int
    stuck_ms: int
    """A rebalance that has been under way for so long when the interval ends does not settle."""
    stuck_restarts: int
    """A rebalance that restarted so often does not settle."""
