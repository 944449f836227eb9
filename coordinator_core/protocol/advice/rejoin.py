"""The rebalance timeout: the shortest that would have left time for nearly every rejoin.

It is lowered only where groups did wait to the limit for members that never came, and raised where living members were
left out.
"""

from coordinator_core.protocol.advice.evidence import Rejoins
from coordinator_core.protocol.advice.policy import Advice, Confidence, Policy, so_many, too_little
from coordinator_core.protocol.advice.replay import rate_at_most
from coordinator_core.protocol.advice.steps import STEPS_MS, candidates, covered, shortest


def advise_rebalance_timeout(rejoins: Rejoins, present_ms: int | None, policy: Policy) -> Advice:
    """Return what the rejoins say of the rebalance timeout; `present_ms` None: nobody is there to ask."""
    total = sum(rejoins.counts)
    if total < policy.least_rejoins:
        return too_little(present_ms, so_many(total, "rejoin"), so_many(policy.least_rejoins, "rejoin"))
    value_ms = shortest_timeout_ms(rejoins, policy)
    is_change, because = _judged(rejoins, value_ms, present_ms, policy)
    return Advice(
        value_ms=value_ms,
        present_ms=present_ms,
        verdict="change" if is_change else "keep",
        confidence=_confidence(rejoins, value_ms, policy),
        because=because,
        effect={
            "rejoins": total,
            "late_rejoins": sum(rejoins.late),
            "evictions_avoided": covered(rejoins.late, value_ms),
            "no_shows": rejoins.no_shows,
            "waiting_added_ms": rejoins.no_shows * value_ms - rejoins.no_shows_limit_ms,
        },
    )


def shortest_timeout_ms(rejoins: Rejoins, policy: Policy) -> int:
    """Return the shortest timeout that covers enough, with headroom; else the longest step."""
    choices = candidates(policy.least_rebalance_timeout_ms, STEPS_MS[-1])
    found = shortest(choices, lambda ms: _covers(rejoins, policy.without_headroom(ms), policy))
    return choices[-1] if found is None else found


def _covers(rejoins: Rejoins, timeout_ms: int, policy: Policy) -> bool:
    return covered(rejoins.counts, timeout_ms) >= policy.coverage * sum(rejoins.counts)


def _judged(rejoins: Rejoins, value_ms: int, present_ms: int | None, policy: Policy) -> tuple[bool, str]:
    share = f"{policy.coverage * 100:g} %"
    if present_ms is None:
        return False, f"{value_ms} ms covers {share} of rejoins, but nobody is there whose timeout could be compared"
    if not _covers(rejoins, present_ms, policy):
        if value_ms > present_ms:
            return True, f"{present_ms} ms leaves out more living members than {value_ms} ms, which covers {share}"
        return False, f"{present_ms} ms is as long as any that could be advised, and some come later even so"
    if value_ms >= present_ms:
        return False, f"{present_ms} ms covers {share} of rejoins, and nothing much shorter does with room to spare"
    if not rejoins.no_shows:
        return False, f"{present_ms} ms covers {share} of rejoins, and nobody was waited for in vain"
    if not policy.is_worth_it(present_ms, value_ms):
        return False, f"{present_ms} ms covers {share} of rejoins, and {value_ms} ms is hardly shorter"
    return True, f"{value_ms} ms covers {share} of rejoins too, and {rejoins.no_shows} members were waited for in vain"


def _confidence(rejoins: Rejoins, value_ms: int, policy: Policy) -> Confidence:
    """Say how surely the share holds: by the share of late comers that what was seen does not rule out."""
    total = sum(rejoins.counts)
    late_share = rate_at_most(total - covered(rejoins.counts, value_ms)) / total
    wanted = 1 - policy.coverage
    return "high" if late_share <= wanted else "medium" if late_share <= 5 * wanted else "low"
