"""Session timeout advice: the shortest value that would have kept spurious evictions under the target.

Rules:

* A value that misses the target is raised, as far as the history requires, with headroom.
* A good value is lowered only if members died meanwhile and would have been detected much sooner; and never below a
  silence of a live member in the history, however few the target allows.
* A change is advised only after a back test: advice from the earlier days must do better on the days held back than
  the current value and the fixed values.
"""

from collections.abc import Sequence
from dataclasses import replace

from coordinator_core.analytics.advice.backtest import BackTest, back_test
from coordinator_core.analytics.advice.cost import cost_of_session_timeout
from coordinator_core.analytics.advice.evidence import Day, Rebalances, span_days
from coordinator_core.analytics.advice.policy import (
    DAYS_PER_WEEK,
    Advice,
    Bounds,
    Confidence,
    Policy,
    plural,
    too_little_data,
)
from coordinator_core.analytics.advice.replay import (
    added_at,
    avoided_at,
    detection_added_ms,
    failures_of,
    rate_at_most,
    spurious_at,
)
from coordinator_core.analytics.advice.steps import candidates, shortest


def advise_session_timeout(
    days: Sequence[Day], rebalances: Rebalances, present_ms: int | None, bounds: Bounds, policy: Policy
) -> tuple[Advice, BackTest | None]:
    """Return advice on the session timeout, and its back test (None: not enough data).

    Args:
        days: in order; may be empty.
        rebalances: of the same time.
        present_ms: the effective timeout; None: unknown.
        bounds: of the value.
        policy: targets, and how much data they take.
    """
    known_days, heartbeats = span_days(days), sum(day.heartbeats for day in days)
    if known_days < policy.min_days or heartbeats < policy.min_heartbeats:
        known = f"{plural(known_days, 'day')} and {plural(heartbeats, 'heartbeat')}"
        needed = f"{plural(policy.min_days, 'day')} and {plural(policy.min_heartbeats, 'heartbeat')}"
        return too_little_data(present_ms, known, needed), None
    value_ms = timeout_to_advise_ms(days, present_ms, bounds, policy)
    tested = back_test(
        days, present_ms, policy, lambda earlier: timeout_to_advise_ms(earlier, present_ms, bounds, policy)
    )
    advice = _advice(days, rebalances, value_ms, present_ms, policy)
    if advice.verdict == "change" and not tested.is_passed:
        advice = replace(advice, verdict="keep", because=f"{advice.because}, but {tested.because}")
    return advice, tested


def timeout_to_advise_ms(days: Sequence[Day], present_ms: int | None, bounds: Bounds, policy: Policy) -> int:
    """Return the shortest timeout that meets the target; below the current one, the shortest without any eviction."""
    value_ms = shortest_timeout_ms(days, bounds, policy)
    if present_ms is None or value_ms >= present_ms:
        return value_ms
    return min(present_ms, shortest_timeout_ms(days, bounds, replace(policy, spurious_per_week=0)))


def shortest_timeout_ms(days: Sequence[Day], bounds: Bounds, policy: Policy) -> int:
    """Return the shortest timeout under which the days meet the target, with headroom; else the upper bound."""
    allowed = policy.allowed(span_days(days))
    choices = candidates(bounds.least_ms, bounds.most_ms)
    found = shortest(choices, lambda ms: spurious_at(days, policy.without_headroom(ms)) <= allowed)
    return choices[-1] if found is None else found


def _advice(
    days: Sequence[Day], rebalances: Rebalances, value_ms: int, present_ms: int | None, policy: Policy
) -> Advice:
    """Return the value with its verdict in comparison with the current one."""
    effect = {
        "spurious_evictions": sum(day.spurious for day in days),
        "evictions_avoided": avoided_at(days, value_ms),
        "evictions_added": added_at(days, value_ms)[1],
        "failures": failures_of(days),
        "detection_added_ms": detection_added_ms(days, value_ms),
        **cost_of_session_timeout(days, rebalances, value_ms).as_effect("advised"),
    }
    if present_ms is not None:
        effect |= cost_of_session_timeout(days, rebalances, present_ms).as_effect("present")
    allowed = policy.allowed(span_days(days))
    is_change, because = _verdict(days, value_ms, present_ms, allowed, policy)
    return Advice(
        value_ms=value_ms,
        present_ms=present_ms,
        verdict="change" if is_change else "keep",
        confidence=_confidence(days, value_ms, policy),
        because=because,
        effect=effect,
    )


def _verdict(
    days: Sequence[Day], value_ms: int, present_ms: int | None, allowed: int, policy: Policy
) -> tuple[bool, str]:
    if present_ms is None:
        return False, f"{value_ms} ms would suffice, but the group has no members to compare with"
    now, then = spurious_at(days, present_ms), spurious_at(days, value_ms)
    if now > allowed and value_ms > present_ms:
        beside = f"the target allows {allowed}, and {value_ms} ms has {then}"
        return True, f"{present_ms} ms has up to {now} spurious evictions; {beside}"
    if now > allowed:
        return False, f"{present_ms} ms is the longest allowed, and still has {now} spurious evictions"
    if value_ms >= present_ms:
        return False, f"{present_ms} ms meets the target, and no much shorter timeout does with headroom"
    if not failures_of(days):
        return (
            False,
            f"{present_ms} ms meets the target, and no death of a member would be detected sooner",
        )
    if not policy.is_worthwhile(present_ms, value_ms):
        return False, f"{present_ms} ms meets the target, and {value_ms} ms is hardly shorter"
    saved_s = (present_ms - value_ms) // 1_000
    return True, f"{value_ms} ms meets the target too, and detects a dead member {saved_s} s sooner"


def _confidence(days: Sequence[Day], value_ms: int, policy: Policy) -> Confidence:
    """Return the confidence that the target will hold: by the rate that the history cannot rule out."""
    weekly = rate_at_most(spurious_at(days, value_ms)) * DAYS_PER_WEEK / span_days(days)
    target = max(1.0, policy.spurious_per_week)
    return "high" if weekly <= target else "medium" if weekly <= 3 * target else "low"
