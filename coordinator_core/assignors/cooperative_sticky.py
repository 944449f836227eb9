"""Cooperative sticky: the sticky assignment, without partitions that another member may still be reading.

Cooperative members keep reading while they rejoin, so a partition that moves is assigned to neither member: the old
owner sees that it lost the partition, revokes it and rejoins, and the next round assigns it. A partition whose claims
void each other is withheld from every member, its claimants included, until they have revoked it.

With different subscriptions, Kafka assigns such a contested partition to one of its claimants at once, while the
other still reads it; here it is withheld as well.

Source: protocol.md section 17; Kafka's ``CooperativeStickyAssignor``.
"""

from coordinator_core.assignors.claims import resolve_claims
from coordinator_core.assignors.group_spec import GroupSpec, Shares
from coordinator_core.assignors.sticky import assign_with_claims


def assign_cooperative_sticky(group_spec: GroupSpec) -> Shares:
    """Assign partitions evenly, and withhold for one round what has to be revoked first."""
    claims = resolve_claims(group_spec)
    return [
        [partition for partition in share if claims.is_free_for(partition, position)]
        for position, share in enumerate(assign_with_claims(group_spec, claims))
    ]
