"""Rebalance timeout advice: the shortest value that allows every rejoin of a live member, if it costs less.

Rules:

* Under the proposed value no live member of the group's history would be evicted. A member is live if it heartbeated
  until it was evicted at the limit, however late it joined again. If it did not join again, the time that it needed is
  unknown, so nothing shorter than the timeout that evicted it is proposed.
* A value is proposed only if its whole cost over that history (`cost`) is lower than that of the current value.
"""

from coordinator_core.analytics.advice.cost import Cost, cost_of_rebalance_timeout
from coordinator_core.analytics.advice.evidence import Rebalances, Rejoins
from coordinator_core.analytics.advice.policy import Advice, Confidence, Policy, plural, seconds, too_little_data
from coordinator_core.analytics.advice.replay import rate_at_most
from coordinator_core.analytics.advice.steps import BEYOND, STEPS_MS, candidates, covered, share_step_ms, shortest


def advise_rebalance_timeout(
    rejoins: Rejoins, rebalances: Rebalances, present_ms: int | None, policy: Policy
) -> Advice:
    """Return advice on the rebalance timeout; `present_ms` None: the group has no members."""
    total = sum(rejoins.counts)
    if total < policy.min_rejoins and sum(rejoins.late) < policy.min_late_rejoins:
        return too_little_data(present_ms, plural(total, "rejoin"), plural(policy.min_rejoins, "rejoin"))
    value_ms = shortest_timeout_ms(rejoins, policy)
    then = cost_of_rebalance_timeout(rejoins, rebalances, value_ms)
    now = None if present_ms is None else cost_of_rebalance_timeout(rejoins, rebalances, present_ms)
    is_change, because = _verdict(rejoins, (present_ms, now), (value_ms, then), policy)
    return Advice(
        value_ms=value_ms,
        present_ms=present_ms,
        verdict="change" if is_change else "keep",
        confidence=_confidence(rejoins, value_ms, policy),
        because=f"{_seen(rejoins)}; {because}",
        effect={
            "rejoins": total,
            "rejoin_p99_ms": share_step_ms(rejoins.counts, 0.99),
            "rejoin_max_ms": share_step_ms(rejoins.counts, 1.0),
            "late_rejoins": sum(rejoins.late),
            "no_shows": rejoins.no_shows,
            **({} if now is None else now.as_effect("present")),
            **then.as_effect("advised"),
        },
    )


def shortest_timeout_ms(rejoins: Rejoins, policy: Policy) -> int:
    """Return the shortest timeout that allows every rejoin of known duration, with headroom."""
    known = sum(rejoins.counts[:BEYOND])
    choices = candidates(policy.min_rebalance_timeout_ms, STEPS_MS[-1])
    found = shortest(choices, lambda ms: covered(rejoins.counts, policy.without_headroom(ms)) >= known)
    return choices[-1] if found is None else found


def _verdict(
    rejoins: Rejoins, present: tuple[int | None, Cost | None], advised: tuple[int, Cost], policy: Policy
) -> tuple[bool, str]:
    (present_ms, now), (value_ms, then) = present, advised
    if present_ms is None or now is None:
        return False, f"{seconds(value_ms)} allows all of them, but the group has no members to compare with"
    if value_ms >= present_ms:
        if now.evictions == then.evictions:
            return False, f"{seconds(present_ms)} allows all of them, and {seconds(value_ms)} would save nothing"
        evicts = f"{seconds(present_ms)} evicts {plural(now.evictions, 'live member')}"
        return _compared(now, then, f"{evicts}, and {seconds(value_ms)} evicts {then.evictions:,}")
    if rejoins.counts[BEYOND]:
        live = plural(rejoins.counts[BEYOND], "live member")
        return (
            False,
            f"{live} took an unknown time, so nothing shorter than {seconds(present_ms)} is proposed",
        )
    if not policy.is_worthwhile(present_ms, value_ms):
        return False, f"{seconds(present_ms)} allows all of them, and {seconds(value_ms)} is hardly shorter"
    return _compared(now, then, f"{seconds(value_ms)} allows all of them and evicts no live member either")


def _compared(now: Cost, then: Cost, effect: str) -> tuple[bool, str]:
    """Return whether the proposed cost is lower, and a sentence with both costs."""
    rebalances = f"{then.rebalances:,} rebalances instead of {now.rebalances:,}"
    still = f"{seconds(then.stood_still_ms)} of standstill instead of {seconds(now.stood_still_ms)}"
    work = f"{seconds(then.repeated_work_ms)} of repeated work instead of {seconds(now.repeated_work_ms)}"
    is_lower = then.total_ms < now.total_ms
    return is_lower, f"{effect}: {rebalances}, {still}, {work}" + ("" if is_lower else ", which is not less")


def _seen(rejoins: Rejoins) -> str:
    p99, longest = (share_step_ms(rejoins.counts, share) for share in (0.99, 1.0))
    seen = f"{plural(sum(rejoins.counts), 'rejoin')} took up to {seconds(longest)} (p99 {seconds(p99)})"
    if not any(rejoins.late):
        return seen
    return f"{seen}, {sum(rejoins.late):,} of them by live members that had been evicted"


def _confidence(rejoins: Rejoins, value_ms: int, policy: Policy) -> Confidence:
    """Return the confidence: by the share of late rejoins that the history cannot rule out."""
    total = sum(rejoins.counts)
    late_share = rate_at_most(total - covered(rejoins.counts, value_ms)) / total
    wanted = policy.late_share
    return "high" if late_share <= wanted else "medium" if late_share <= 5 * wanted else "low"
