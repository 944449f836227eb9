"""Where all members subscribe alike, shares have two sizes, and everyone keeps what fits into its own.

Rules, for n partitions and k members, q = floor(n / k):

1. n mod k members get q + 1 partitions, the others q.
2. The larger shares go first to members that hold at least q + 1, in member order. This makes the division keep as
   many partitions as any even one can.
3. Whoever holds more than its share keeps the lowest numbers, so that a cut takes a bit of every topic.
4. What is left is dealt, by topic and number: to those below q in turn, by member id, until they have q; then one
   each to those that have q, before them those that had it from the start.

Source: the constrained algorithm of Kafka's ``AbstractStickyAssignor``, where rule 2 goes by hash order.
"""

from coordinator_core.protocol.assignors.claims import Claims
from coordinator_core.protocol.assignors.demand import Demand, Shares


def even_shares(demand: Demand, claims: Claims) -> Shares:
    """Divide all partitions evenly among members that are alike."""
    if not demand.members:
        return []
    small, larger_count = divmod(sum(demand.counts.values()), len(demand.members))
    shares = _keep(_held(demand, claims), small, larger_count)
    _deal_rest(demand, shares, small)
    return shares


def _held(demand: Demand, claims: Claims) -> Shares:
    """Return what each member holds, the lowest numbers first."""
    held = demand.no_shares()
    for partition, holder in claims.holders.items():
        held[holder].append(partition)
    topic_ranks = {topic: rank for rank, topic in enumerate(demand.counts)}
    for share in held:
        share.sort(key=lambda partition: (partition.partition, topic_ranks[partition.topic]))
    return held


def _keep(held: Shares, small: int, larger_count: int) -> Shares:
    """Cut what is held down to a large share, while there is one to be had, or a small one."""
    shares = []
    for share in held:
        takes_larger = larger_count > 0 and len(share) > small
        larger_count -= takes_larger
        shares.append(share[: small + takes_larger])
    return shares


def _deal_rest(demand: Demand, shares: Shares, small: int) -> None:
    kept = {partition for share in shares for partition in share}
    rest = (partition for partition in demand.partitions() if partition not in kept)
    ready = [taker for taker in demand.by_member_id if len(shares[taker]) == small]
    short = [taker for taker in demand.by_member_id if len(shares[taker]) < small]
    while short:
        for taker in short:
            shares[taker].append(next(rest))
        ready += [taker for taker in short if len(shares[taker]) == small]
        short = [taker for taker in short if len(shares[taker]) < small]
    for taker, partition in zip(ready, rest, strict=False):
        shares[taker].append(partition)
