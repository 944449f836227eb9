"""The initial delay: the shortest that would have brought most start-ups together in one rebalance.

It is raised only: a start that nobody follows tells nothing of how much sooner it could have begun.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from coordinator_core.protocol.advice.evidence import Startups
from coordinator_core.protocol.advice.policy import Advice, Confidence, Policy, so_many, too_little
from coordinator_core.protocol.advice.steps import candidates, counted, covered, shortest

STARTUP_MS: Final = 300_000
"""Whoever comes later than this after a start belongs to no start-up."""
SURE_STARTS: Final = 20
LIKELY_STARTS: Final = 8


def followed(starts: Iterable[Sequence[int]]) -> Startups:
    """Return start-ups counted; of each, how long after it newcomers caused a rebalance of their own."""
    soon = [[length_ms for length_ms in each if length_ms <= STARTUP_MS] for each in starts]
    return Startups(
        starts=len(soon),
        alone=sum(not each for each in soon),
        last_comers=counted(max(each) for each in soon if each),
        followers=counted(length_ms for each in soon for length_ms in each),
    )


def advise_initial_delay(startups: Startups, present_ms: int, policy: Policy) -> Advice:
    """Return what start-ups say of `group_initial_rebalance_delay_ms`."""
    if startups.starts < policy.least_startups:
        return too_little(present_ms, so_many(startups.starts, "start-up"), so_many(policy.least_startups, "start-up"))
    followers = sum(startups.followers)
    value_ms = _shortest_delay_ms(startups, present_ms, policy)
    is_enough = _together(startups, value_ms, policy)
    is_change = value_ms > present_ms and is_enough
    saved = covered(startups.followers, value_ms)
    if is_change:
        ever = f"{so_many(followers, 'rebalance')} followed {so_many(startups.starts, 'start-up')}"
        because = f"{ever}, and {value_ms} ms saves {saved} of them"
    elif is_enough:
        because = f"{startups.alone} of {startups.starts} start-ups came together in one rebalance"
    else:
        because = f"newcomers follow start-ups later than any delay up to {policy.most_initial_delay_ms} ms"
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
    """Return the present delay if it is enough, else the shortest that would be; if none is, the present one."""
    if _together(startups, 0, policy):
        return present_ms
    choices = candidates(present_ms, max(present_ms, policy.most_initial_delay_ms))
    found = shortest(choices, lambda ms: _together(startups, policy.without_headroom(ms), policy))
    return present_ms if found is None else found


def _together(startups: Startups, delay_ms: int, policy: Policy) -> bool:
    """Tell whether enough start-ups needed one rebalance only, or would have with a delay."""
    together = startups.alone + covered(startups.last_comers, delay_ms)
    return together >= policy.startup_coverage * startups.starts


def _confidence(startups: Startups) -> Confidence:
    return "high" if startups.starts >= SURE_STARTS else "medium" if startups.starts >= LIKELY_STARTS else "low"
