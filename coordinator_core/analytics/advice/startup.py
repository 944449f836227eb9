"""Initial rebalance delay advice: the shortest that would have gathered most start-ups in one rebalance.

The delay is only ever raised: a start without followers does not show how much sooner it could have begun.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from coordinator_core.analytics.advice.evidence import Startups
from coordinator_core.analytics.advice.policy import Advice, Confidence, Policy, plural, too_little_data
from coordinator_core.analytics.advice.steps import candidates, counted, covered, shortest

STARTUP_MS: Final = 300_000
"""A member that joins later than this after a start is not part of the start-up."""
SURE_STARTS: Final = 20
LIKELY_STARTS: Final = 8


def count_startups(starts: Iterable[Sequence[int]]) -> Startups:
    """Return start-up counts; each start has the times after which new members caused further rebalances."""
    soon = [[length_ms for length_ms in each if length_ms <= STARTUP_MS] for each in starts]
    return Startups(
        starts=len(soon),
        alone=sum(not each for each in soon),
        last_comers=counted(max(each) for each in soon if each),
        followers=counted(length_ms for each in soon for length_ms in each),
    )


def advise_initial_delay(startups: Startups, present_ms: int, policy: Policy) -> Advice:
    """Return advice on `group_initial_rebalance_delay_ms`."""
    if startups.starts < policy.min_startups:
        return too_little_data(present_ms, plural(startups.starts, "start-up"), plural(policy.min_startups, "start-up"))
    followers = sum(startups.followers)
    value_ms = _shortest_delay_ms(startups, present_ms, policy)
    is_enough = _share_one_rebalance(startups, value_ms, policy)
    is_change = value_ms > present_ms and is_enough
    saved = covered(startups.followers, value_ms)
    if is_change:
        ever = f"{plural(followers, 'rebalance')} followed {plural(startups.starts, 'start-up')}"
        because = f"{ever}, and {value_ms} ms saves {saved} of them"
    elif is_enough:
        because = f"{startups.alone} of {startups.starts} start-ups took a single rebalance"
    else:
        because = f"new members join after start-ups later than any delay up to {policy.max_initial_delay_ms} ms"
    return Advice(
        value_ms=value_ms,
        present_ms=present_ms,
        verdict="change" if is_change else "keep",
        confidence=_confidence(startups),
        because=because,
        effect={
            "startups": startups.starts,
            "rebalances_after_startup": followers,
            "rebalances_saved": saved if is_change else 0,
            "startup_added_ms": max(0, value_ms - present_ms) if is_change else 0,
        },
    )


def _shortest_delay_ms(startups: Startups, present_ms: int, policy: Policy) -> int:
    """Return the current delay if it is sufficient or no delay is, else the shortest sufficient one."""
    if _share_one_rebalance(startups, 0, policy):
        return present_ms
    choices = candidates(present_ms, max(present_ms, policy.max_initial_delay_ms))
    found = shortest(choices, lambda ms: _share_one_rebalance(startups, policy.without_headroom(ms), policy))
    return present_ms if found is None else found


def _share_one_rebalance(startups: Startups, delay_ms: int, policy: Policy) -> bool:
    """Return whether enough start-ups needed only one rebalance, or would have with this delay."""
    together = startups.alone + covered(startups.last_comers, delay_ms)
    return together >= policy.startup_coverage * startups.starts


def _confidence(startups: Startups) -> Confidence:
    return "high" if startups.starts >= SURE_STARTS else "medium" if startups.starts >= LIKELY_STARTS else "low"
