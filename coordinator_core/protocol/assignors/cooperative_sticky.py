"""Cooperative sticky: what sticky decides, without what somebody else may still be reading.

Cooperative members go on reading while they rejoin, so a partition on its way from one member to another is given to
neither: the old owner sees that it lost it, gives it up and rejoins, and in that next round it is nobody's and can
be handed out. A partition whose claims void each other is withheld from everyone, its claimants included, until they
have let go.

Where subscriptions differ, Kafka gives such a contested partition to one of its claimants at once, while the other
still reads it; here it is withheld as well.

Source: protocol.md section 17; Kafka's ``CooperativeStickyAssignor``.
"""

from coordinator_core.protocol.assignors.claims import settle_claims
from coordinator_core.protocol.assignors.demand import Demand, Shares
from coordinator_core.protocol.assignors.sticky import stick_to


def assign_cooperative_sticky(demand: Demand) -> Shares:
    """Share out evenly, and withhold for one round what has yet to be given up."""
    claims = settle_claims(demand)
    return [
        [partition for partition in share if claims.is_free_for(partition, position)]
        for position, share in enumerate(stick_to(demand, claims))
    ]
