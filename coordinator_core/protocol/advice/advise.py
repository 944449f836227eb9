"""All that history says of a group's timeouts, from what it has now."""

from dataclasses import dataclass

from coordinator_core.protocol.advice.backtest import BackTest
from coordinator_core.protocol.advice.evidence import Evidence
from coordinator_core.protocol.advice.policy import Advice, Assigned, Bounds, InForce, Policy
from coordinator_core.protocol.advice.recommend import Recommendation, recommend
from coordinator_core.protocol.advice.rejoin import advise_rebalance_timeout
from coordinator_core.protocol.advice.session import advise_session_timeout
from coordinator_core.protocol.advice.startup import advise_initial_delay


@dataclass(frozen=True, slots=True)
class Advised:
    """Advice on three timeouts, the test of the first (None: too little is known for one), and recommendations."""

    session: Advice
    rebalance: Advice
    initial_delay: Advice
    tested: BackTest | None
    recommendations: tuple[Recommendation, ...]


def advise(evidence: Evidence, in_force: InForce, assigned: Assigned, bounds: Bounds, policy: Policy) -> Advised:
    """Return what the evidence says.

    Args:
        evidence: of one group.
        in_force: what it has now.
        assigned: how its partitions are assigned now.
        bounds: between which its session timeout may lie.
        policy: what is wanted.
    """
    session, tested = advise_session_timeout(
        evidence.days, evidence.rebalances, in_force.session_timeout_ms, bounds, policy
    )
    return Advised(
        session=session,
        rebalance=advise_rebalance_timeout(
            evidence.rejoins, evidence.rebalances, in_force.rebalance_timeout_ms, policy
        ),
        initial_delay=advise_initial_delay(evidence.startups, in_force.initial_delay_ms, policy),
        tested=tested,
        recommendations=recommend(evidence.rebalances, assigned, policy),
    )
