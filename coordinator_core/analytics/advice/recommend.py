"""Recommendations other than timeouts: cooperative rebalancing and static membership.

* *cooperative-sticky*: under an eager assignor each rebalance revokes every partition. Where at least half of them went
  back to the member that had them, that member could have gone on reading them.
* *static_membership*: members without an instance id that left, or died, and whose client was back within its session
  timeout. A static member keeps its place for that long: neither its absence nor its return rebalances the group.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from coordinator_core.analytics.advice.evidence import Rebalances
from coordinator_core.analytics.advice.policy import CurrentAssignment, Policy, plural, seconds
from coordinator_core.assignors import ASSIGNORS

COOPERATIVE: Final = "cooperative-sticky"
STATIC: Final = "static_membership"
EAGER: Final = frozenset(name for name, assignor in ASSIGNORS.items() if not assignor.is_cooperative)
REBALANCES_A_RESTART: Final = 2
"""One when the member leaves, one when it returns."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A change of the clients' configuration, with what it would have saved over the history."""

    name: Literal["cooperative-sticky", "static_membership"]
    because: str
    """One sentence for the operator."""
    effect: Mapping[str, int]
    """Name → count or milliseconds."""

    def as_json(self) -> dict[str, object]:
        """Return the recommendation as reports store it."""
        return {"name": self.name, "because": self.because, "effect": dict(self.effect)}


def recommend(rebalances: Rebalances, assigned: CurrentAssignment, policy: Policy) -> tuple[Recommendation, ...]:
    """Return the recommendations for a group.

    Args:
        rebalances: of the history.
        assigned: how the group's partitions are assigned now.
        policy: how many rebalances and restarts it takes.
    """
    return (*_cooperative(rebalances, assigned, policy), *_static(rebalances, policy))


def _cooperative(rebalances: Rebalances, assigned: CurrentAssignment, policy: Policy) -> Iterator[Recommendation]:
    revoked = rebalances.completed * assigned.partitions
    back = max(0, revoked - rebalances.partitions_moved)
    if assigned.protocol_name not in EAGER or rebalances.completed < policy.min_rebalances or 2 * back < revoked:
        return
    if revoked == 0:
        return
    saved_ms = rebalances.took_ms * back // revoked
    given_back = f"{back:,} of {plural(revoked, 'revoked partition')} ({100 * back // revoked} %)"
    yield Recommendation(
        name=COOPERATIVE,
        because=f"{plural(rebalances.completed, 'rebalance')} with {assigned.protocol_name} gave {given_back} back to"
        f" the same member; with cooperative-sticky members go on reading these, which saves {seconds(saved_ms)} of"
        f" {seconds(rebalances.took_ms)} without reading",
        effect={
            "rebalances": rebalances.completed,
            "partitions_revoked": revoked,
            "partitions_given_back": back,
            "stood_still_ms": rebalances.took_ms,
            "stood_still_saved_ms": saved_ms,
        },
    )


def _static(rebalances: Rebalances, policy: Policy) -> Iterator[Recommendation]:
    if rebalances.restarts < policy.min_restarts or not rebalances.by_members:
        return
    saved = min(REBALANCES_A_RESTART * rebalances.restarts, rebalances.by_members)
    saved_ms = saved * rebalances.mean_ms
    yield Recommendation(
        name=STATIC,
        because=f"members left or died {plural(rebalances.restarts, 'time')} and their client was back within its"
        f" session timeout; with a group_instance_id they keep their place, which saves up to {saved:,} of"
        f" {plural(rebalances.count, 'rebalance')} and {seconds(saved_ms)} without reading",
        effect={
            "restarts": rebalances.restarts,
            "rebalances": rebalances.count,
            "rebalances_saved": saved,
            "stood_still_saved_ms": saved_ms,
        },
    )
