"""Advice is put to the test on days that it has not seen, beside what is in force and two fixed values.

Of two timeouts the better one has fewer spurious evictions beyond what the days allow; of equals, the shorter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coordinator_core.protocol.advice.evidence import Day, span_days
from coordinator_core.protocol.advice.policy import FIXED_MS, Policy, so_many
from coordinator_core.protocol.advice.replay import spurious_at


@dataclass(frozen=True, slots=True)
class Trial:
    """How one timeout did on the days held back."""

    timeout_ms: int
    spurious: int
    """Spurious evictions, at most."""
    excess: int
    """Those beyond what the days allow."""

    @property
    def rank(self) -> tuple[int, int]:
        """Return what is compared; less is better."""
        return self.excess, self.timeout_ms

    def as_json(self) -> dict[str, int]:
        """Return the trial as reports tell it."""
        return {"timeout_ms": self.timeout_ms, "spurious_evictions": self.spurious, "excess": self.excess}


@dataclass(frozen=True, slots=True)
class BackTest:
    """How advice from the earlier days did on the days held back."""

    held_back_days: int
    advised: Trial
    present: Trial | None
    fixed: tuple[Trial, ...]
    """In the order of FIXED_MS."""

    @property
    def rivals(self) -> tuple[Trial, ...]:
        """Return what the advice has to do better than, unless it is the same."""
        return self.fixed if self.present is None else (self.present, *self.fixed)

    @property
    def is_passed(self) -> bool:
        """Tell whether nothing else did better, nor as well and sooner."""
        return all(self.advised.rank <= rival.rank for rival in self.rivals)

    @property
    def because(self) -> str:
        """Say what did better, where the test is not passed."""
        better = min(self.rivals, key=lambda rival: rival.rank)
        than = f"{better.timeout_ms} ms did better than {self.advised.timeout_ms} ms"
        return f"on {so_many(self.held_back_days, 'day')} held back {than}"

    def as_json(self) -> dict[str, object]:
        """Return the test as reports tell it."""
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
    """Judge what is advised from the earlier days on the later ones.

    Args:
        days: at least two days apart from first to last, in order.
        present_ms: what is in force; None: not known.
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
