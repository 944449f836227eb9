"""Back test of session timeout advice: advice from earlier days is compared on later ones with three other values.

These are the current value and two fixed ones. The better of two timeouts has fewer spurious evictions beyond what
the days allow; of equals, the shorter is better.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coordinator_core.analytics.advice.evidence import Day, span_days
from coordinator_core.analytics.advice.policy import FIXED_MS, Policy, plural
from coordinator_core.analytics.advice.replay import spurious_at


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one timeout on the days held back."""

    timeout_ms: int
    spurious: int
    """Spurious evictions, at most."""
    excess: int
    """Those beyond what the days allow."""

    @property
    def rank(self) -> tuple[int, int]:
        """Return the sort key of the comparison; lower is better."""
        return self.excess, self.timeout_ms

    def as_json(self) -> dict[str, int]:
        """Return the trial as reports store it."""
        return {"timeout_ms": self.timeout_ms, "spurious_evictions": self.spurious, "excess": self.excess}


@dataclass(frozen=True, slots=True)
class BackTest:
    """The result of advice from the earlier days on the days held back."""

    held_back_days: int
    advised: Trial
    present: Trial | None
    fixed: tuple[Trial, ...]
    """In the order of FIXED_MS."""

    @property
    def alternatives(self) -> tuple[Trial, ...]:
        """Return the trials that the advice has to beat or equal."""
        return self.fixed if self.present is None else (self.present, *self.fixed)

    @property
    def is_passed(self) -> bool:
        """Return whether no alternative did better."""
        return all(self.advised.rank <= alternative.rank for alternative in self.alternatives)

    @property
    def because(self) -> str:
        """Return which alternative did better, as part of a sentence, for a test that failed."""
        better = min(self.alternatives, key=lambda alternative: alternative.rank)
        than = f"{better.timeout_ms} ms did better than {self.advised.timeout_ms} ms"
        return f"on {plural(self.held_back_days, 'day')} held back {than}"

    def as_json(self) -> dict[str, object]:
        """Return the test as reports store it."""
        return {
            "held_back_days": self.held_back_days,
            "is_passed": self.is_passed,
            "advised": self.advised.as_json(),
            "present": None if self.present is None else self.present.as_json(),
            "fixed": [trial.as_json() for trial in self.fixed],
        }


def back_test(
    days: Sequence[Day], present_ms: int | None, policy: Policy, advise: Callable[[Sequence[Day]], int]
) -> BackTest:
    """Test advice from the earlier days on the later ones.

    Args:
        days: at least two days apart from first to last, in order.
        present_ms: the effective timeout; None: unknown.
        policy: how many days to hold back, and what they allow.
        advise: returns a timeout from days.
    """
    held_back = max(1, min(policy.held_back_days, span_days(days) // 4))
    first_held = days[-1].day - held_back + 1
    later = [day for day in days if day.day >= first_held]

    def tried(timeout_ms: int) -> Trial:
        spurious = spurious_at(later, timeout_ms)
        return Trial(timeout_ms, spurious, max(0, spurious - policy.allowed(held_back)))

    return BackTest(
        held_back_days=held_back,
        advised=tried(advise([day for day in days if day.day < first_held])),
        present=None if present_ms is None else tried(present_ms),
        fixed=tuple(tried(fixed_ms) for fixed_ms in FIXED_MS),
    )
