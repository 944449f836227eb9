"""The sticky assignment of members with equal subscriptions: shares of two sizes, of which members keep what fits.

Rules, for n partitions and k members, q = floor(n / k):

1. n mod k members get q + 1 partitions, the others q.
2. The larger shares go first to members that own at least q + 1, in member order. No even assignment keeps more
   partitions.
3. A member that owns more than its share keeps the lowest numbers, so it gives up some of every topic.
4. The rest is assigned by topic and number: to members below q in turn, by member id, until they have q; then one
   each to members with q, those that had q from the start first.

Source: the constrained algorithm of Kafka's ``AbstractStickyAssignor``, where rule 2 goes by hash order.
"""

from coordinator_core.assignors.claims import Claims
from coordinator_core.assignors.group_spec import GroupSpec, Shares


def constrained_assignment(group_spec: GroupSpec, claims: Claims) -> Shares:
    """Assign all partitions evenly to members with equal subscriptions."""
    if not group_spec.members:
        return []
    small, larger_count = divmod(sum(group_spec.counts.values()), len(group_spec.members))
    shares = _keep(_held(group_spec, claims), small, larger_count)
    _assign_rest(group_spec, shares, small)
    return shares


def _held(group_spec: GroupSpec, claims: Claims) -> Shares:
    """Return what each member owns, the lowest numbers first."""
    held = group_spec.empty_shares()
    for partition, holder in claims.holders.items():
        held[holder].append(partition)
    topic_ranks = {topic: rank for rank, topic in enumerate(group_spec.counts)}
    for share in held:
        share.sort(key=lambda partition: (partition.partition, topic_ranks[partition.topic]))
    return held


def _keep(held: Shares, small: int, larger_count: int) -> Shares:
    """Cut each member's partitions to a larger share, while any is left, or a smaller one."""
    shares = []
    for share in held:
        takes_larger = larger_count > 0 and len(share) > small
        larger_count -= takes_larger
        shares.append(share[: small + takes_larger])
    return shares


def _assign_rest(group_spec: GroupSpec, shares: Shares, small: int) -> None:
    kept = {partition for share in shares for partition in share}
    rest = (partition for partition in group_spec.partitions() if partition not in kept)
    ready = [subscriber for subscriber in group_spec.by_member_id if len(shares[subscriber]) == small]
    short = [subscriber for subscriber in group_spec.by_member_id if len(shares[subscriber]) < small]
    while short:
        for subscriber in short:
            shares[subscriber].append(next(rest))
        ready += [subscriber for subscriber in short if len(shares[subscriber]) == small]
        short = [subscriber for subscriber in short if len(shares[subscriber]) < small]
    for subscriber, partition in zip(ready, rest, strict=False):
        shares[subscriber].append(partition)
