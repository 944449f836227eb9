"""Entry point of the advice: all advice on the timeouts of one group."""

from dataclasses import dataclass

from coordinator_core.analytics.advice.backtest import BackTest
from coordinator_core.analytics.advice.evidence import Evidence
from coordinator_core.analytics.advice.policy import Advice, Bounds, CurrentAssignment, CurrentTimeouts, Policy
from coordinator_core.analytics.advice.recommend import Recommendation, recommend
from coordinator_core.analytics.advice.rejoin import advise_rebalance_timeout
from coordinator_core.analytics.advice.session import advise_session_timeout
from coordinator_core.analytics.advice.startup import advise_initial_delay


@dataclass(frozen=True, slots=True)
class TimeoutAdvice:
    """Advice on three timeouts, the back test of the first (None: not enough data), and recommendations."""

    session: Advice
    rebalance: Advice
    initial_delay: Advice
    tested: BackTest | None
    recommendations: tuple[Recommendation, ...]


def advise(
    evidence: Evidence, current: CurrentTimeouts, assigned: CurrentAssignment, bounds: Bounds, policy: Policy
) -> TimeoutAdvice:
    """Return all advice for one group.

    Args:
        evidence: the group's history.
        current: the group's current timeouts.
        assigned: how its partitions are assigned now.
        bounds: of its session timeout.
        policy: targets, and how much data they take.
    """
    session, tested = advise_session_timeout(
        evidence.days, evidence.rebalances, current.session_timeout_ms, bounds, policy
    )
    return TimeoutAdvice(
        session=session,
        rebalance=advise_rebalance_timeout(evidence.rejoins, evidence.rebalances, current.rebalance_timeout_ms, policy),
        initial_delay=advise_initial_delay(evidence.startups, current.initial_delay_ms, policy),
        tested=tested,
        recommendations=recommend(evidence.rebalances, assigned, policy),
    )
