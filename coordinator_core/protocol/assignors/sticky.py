"""Sticky: as even as subscriptions allow, and of all that is even, what leaves most partitions where they are.

Where all members subscribe alike, shares differ by at most one partition, and no even division keeps more
(`even_shares`). Where they do not, no partition is left with a member that has at least two more than some other
subscriber of its topic (`balance`). A member that joins without claims takes part like any other.

Source: protocol.md section 17; Kafka's ``StickyAssignor``, an ``AbstractStickyAssignor`` where no racks are known.
"""

from coordinator_core.protocol.assignors.balance import balance
from coordinator_core.protocol.assignors.claims import Claims, settle_claims
from coordinator_core.protocol.assignors.demand import Demand, Shares
from coordinator_core.protocol.assignors.even_shares import even_shares


def assign_sticky(demand: Demand) -> Shares:
    """Share all partitions out evenly and change as little as that allows."""
    return stick_to(demand, settle_claims(demand))


def stick_to(demand: Demand, claims: Claims) -> Shares:
    """Share all partitions out evenly, given who is believed to hold what."""
    return even_shares(demand, claims) if demand.is_uniform() else balance(demand, claims)
