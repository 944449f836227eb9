"""What is wanted of a timeout, between which bounds it may lie, and the form in which advice is given."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Verdict = Literal["change", "keep", "too_little_data"]
Confidence = Literal["high", "medium", "low", "none"]

GRACE_MS: Final = 60_000
"""Who is back within this was put out in vain."""
LATE_GRACE_MS: Final = 600_000
"""A live member that was evicted at the rebalance timeout is expected to join again within this."""
SIGNS_PER_SESSION: Final = 3
"""Clients heartbeat at least so often per session timeout: a member that was heard that lately is live."""
FIXED_MS: Final = (10_000, 45_000)
"""The fixed session timeouts that advice is judged beside: Kafka's default before 3.0, and since."""
DAYS_PER_WEEK: Final = 7


@dataclass(frozen=True, slots=True)
class Policy:
    """What is wanted, and how much must be known before anything is said."""

    spurious_per_week: float = 1.0
    """How many spurious evictions a week a group may have."""
    late_share: float = 0.001
    """Which share of rejoins to come may be late, for the confidence in a rebalance timeout to be high."""
    startup_coverage: float = 0.9
    """Which share of start-ups an initial delay must bring together in one rebalance."""
    headroom_percent: int = 25
    """How much longer than what was seen a timeout is to be: what is to come may be a little worse."""
    least_gain_percent: int = 20
    """A good value is left alone unless detection would be quicker by this share of it."""
    held_back_days: int = 7
    """How many of the last days advice is tested on; of a short history, a quarter."""
    least_days: int = 3
    least_heartbeats: int = 1_000
    least_rejoins: int = 100
    least_late_rejoins: int = 3
    """So many live members that were evicted at the rebalance timeout are enough to judge it."""
    least_startups: int = 3
    least_rebalances: int = 10
    """Completed rebalances that it takes to judge an assignor."""
    least_restarts: int = 3
    """Restarts that it takes to recommend static membership."""
    least_rebalance_timeout_ms: int = 10_000
    """No shorter rebalance timeout is advised: members hear of a rebalance by their heartbeats only."""
    most_initial_delay_ms: int = 60_000
    """No longer initial delay is advised: nobody reads anything meanwhile."""

    def allowed(self, days: int) -> int:
        """Return how many spurious evictions so many days may have."""
        return int(self.spurious_per_week * days / DAYS_PER_WEEK)

    def without_headroom(self, timeout_ms: int) -> int:
        """Return the longest length that a timeout covers with the headroom to spare."""
        return timeout_ms * 100 // (100 + self.headroom_percent)

    def is_worth_it(self, present_ms: int, shorter_ms: int) -> bool:
        """Tell whether a shorter timeout is so much shorter that a good value should be changed."""
        return (present_ms - shorter_ms) * 100 >= present_ms * self.least_gain_percent


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which session timeouts to choose, both inclusive."""

    least_ms: int = 6_000
    most_ms: int = 1_800_000


@dataclass(frozen=True, slots=True)
class InForce:
    """What a group has now; None: not known, for nobody is there to ask."""

    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    initial_delay_ms: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """How a group's partitions are assigned now; without members or a known protocol, nothing."""

    protocol_name: str | None = None
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice, with what it would have done over the window that it comes from."""

    value_ms: int | None
    """What would be best by the policy; None: too little is known."""
    present_ms: int | None
    verdict: Verdict
    confidence: Confidence
    because: str
    """One sentence for a person."""
    effect: Mapping[str, int] = field(default_factory=dict)
    """What `value_ms` would have done, beside what happened; counts and milliseconds, by their names."""


def too_little(present_ms: int | None, known: str, needed: str) -> Advice:
    """Return that nothing can be said yet, from what is known, and how much it takes."""
    return Advice(None, present_ms, "too_little_data", "none", f"{known} so far; it takes {needed} to judge")


def so_many(count: int, noun: str) -> str:
    """Return how many there are of something."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def seconds(length_ms: int) -> str:
    """Return a length of time in seconds, to the tenth where that matters."""
    tenths = (length_ms + 50) // 100
    return f"{tenths // 10:,} s" if tenths % 10 == 0 or tenths >= 1_000 else f"{tenths / 10:.1f} s"


def is_live(silent_ms: int, session_timeout_ms: int) -> bool:
    """Return whether a member that was silent for so long still sent heartbeats."""
    return silent_ms * SIGNS_PER_SESSION <= session_timeout_ms
