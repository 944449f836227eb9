"""Policy, bounds and result types of the advice, and the wording that they share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Verdict = Literal["change", "keep", "too_little_data", "not_measured"]
"""Of these, a report's rows have the first three: `not_measured` is what a mirror answers."""
Confidence = Literal["high", "medium", "low", "none"]

GRACE_MS: Final = 60_000
"""A member that is back within this was evicted spuriously."""
LATE_GRACE_MS: Final = 600_000
"""A live member that was evicted at the rebalance timeout is expected to join again within this."""
SIGNS_PER_SESSION: Final = 3
"""Clients heartbeat at least so often per session timeout; a more recent heartbeat means that the member is live."""
FIXED_MS: Final = (10_000, 45_000)
"""The fixed session timeouts of the back test: Kafka's defaults before and since 3.0."""
DAYS_PER_WEEK: Final = 7


@dataclass(frozen=True, slots=True)
class Policy:
    """Targets of the advice, and how much data it takes."""

    spurious_per_week: float = 1.0
    """How many spurious evictions a week a group may have."""
    late_share: float = 0.001
    """The share of future rejoins that may be late if the confidence in a rebalance timeout is to be high."""
    startup_coverage: float = 0.9
    """The share of start-ups that an initial delay has to gather in one rebalance."""
    headroom_percent: int = 25
    """The headroom of a timeout over the history, as the future may be a little worse."""
    min_gain_percent: int = 20
    """A good value is changed only if detection becomes faster by this share of it."""
    held_back_days: int = 7
    """How many of the last days the back test uses; of a short history, a quarter."""
    min_days: int = 3
    min_heartbeats: int = 1_000
    min_rejoins: int = 100
    min_late_rejoins: int = 3
    """So many evictions of live members at the rebalance timeout are enough data."""
    min_startups: int = 3
    min_rebalances: int = 10
    """How many completed rebalances it takes to judge an assignor."""
    min_restarts: int = 3
    """How many restarts it takes to recommend static membership."""
    min_rebalance_timeout_ms: int = 10_000
    """The shortest rebalance timeout advised: only heartbeats notify members of a rebalance."""
    max_initial_delay_ms: int = 60_000
    """The longest initial delay advised: no member reads anything meanwhile."""

    def allowed(self, days: int) -> int:
        """Return the allowed number of spurious evictions in so many days."""
        return int(self.spurious_per_week * days / DAYS_PER_WEEK)

    def without_headroom(self, timeout_ms: int) -> int:
        """Return the longest duration that a timeout covers with the headroom."""
        return timeout_ms * 100 // (100 + self.headroom_percent)

    def is_worthwhile(self, present_ms: int, shorter_ms: int) -> bool:
        """Return whether a shorter timeout is so much shorter that a good value should be changed."""
        return (present_ms - shorter_ms) * 100 >= present_ms * self.min_gain_percent


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a session timeout, both inclusive."""

    least_ms: int = 6_000
    most_ms: int = 1_800_000


@dataclass(frozen=True, slots=True)
class CurrentTimeouts:
    """A group's current timeouts; None: unknown, as the group has no members."""

    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    initial_delay_ms: int


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """How a group's partitions are assigned now; empty without members or a known protocol."""

    protocol_name: str | None = None
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice, with its effect over the history that it comes from."""

    value_ms: int | None
    """The best value by the policy; None: not enough data."""
    present_ms: int | None
    verdict: Verdict
    confidence: Confidence
    because: str
    """One sentence for the operator."""
    effect: Mapping[str, int] = field(default_factory=dict)
    """The effect of `value_ms` beside what happened: name → count or milliseconds."""


def too_little_data(present_ms: int | None, known: str, needed: str) -> Advice:
    """Return advice that there is not enough data yet: what is known, and what it takes."""
    return Advice(None, present_ms, "too_little_data", "none", f"{known} so far; it takes {needed} to judge")


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 day" or "2 days"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def seconds(length_ms: int) -> str:
    """Return a duration in seconds as text, with a tenth where it matters."""
    tenths = (length_ms + 50) // 100
    return f"{tenths // 10:,} s" if tenths % 10 == 0 or tenths >= 1_000 else f"{tenths / 10:.1f} s"


def is_live(silent_ms: int, session_timeout_ms: int) -> bool:
    """Return whether a member that was silent for so long still sent heartbeats."""
    return silent_ms * SIGNS_PER_SESSION <= session_timeout_ms
