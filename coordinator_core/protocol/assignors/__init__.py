"""An assignor shares a group's partitions out: a pure function of who subscribes to what, who holds what, and counts.

The leader of a group runs one; a job that audits an assignment runs it again to see what would have been best. The
result never depends on the order of the input, and never on chance.

Read `demand` first (the picture that all start from), then one assignor a file: `range`, `roundrobin`, `sticky` with
`claims`, `even_shares` and `balance`, and `cooperative_sticky`.

Source: protocol.md section 17; Kafka's ``ConsumerPartitionAssignor`` and its implementations. Racks are not heeded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator_core.protocol.assignors.cooperative_sticky import assign_cooperative_sticky
from coordinator_core.protocol.assignors.demand import (
    NO_GENERATION,
    Demand,
    MemberSubscription,
    Shares,
    TopicPartition,
    demand_of,
)
from coordinator_core.protocol.assignors.range import assign_range
from coordinator_core.protocol.assignors.roundrobin import assign_roundrobin
from coordinator_core.protocol.assignors.sticky import assign_sticky

__all__ = ["ASSIGNORS", "NO_GENERATION", "Assignment", "Assignor", "MemberSubscription", "TopicPartition", "assign"]

Assignment = dict[str, tuple[TopicPartition, ...]]
"""What each member is to read, by member id: every member has an entry, and every entry is sorted."""


@dataclass(frozen=True, slots=True)
class Assignor:
    """One way to share out, by the name that members offer it under.

    With a cooperative one, members keep reading what they hold while they rejoin; so not every partition need be
    given out at once, and they rejoin again as long as somebody had to give something up.
    """

    name: str
    is_cooperative: bool
    share_out: Callable[[Demand], Shares]

    def assign(self, topics: Mapping[str, int], members: Sequence[MemberSubscription]) -> Assignment:
        """Share the partitions out.

        Args:
            topics: Partitions a topic. One that is missing or has none is skipped.
            members: In any order; may be empty.

        Returns:
            Each member's partitions, by topic and number. No partition is with two members, and none with a member
            that does not subscribe to its topic; every one is with somebody, but for what a cooperative assignor
            withholds.

        Raises:
            ValueError: two members have one id, or a topic has fewer than no partitions.
        """
        demand = demand_of(topics, members)
        shares = self.share_out(demand)
        return {member.member_id: tuple(sorted(share)) for member, share in zip(demand.members, shares, strict=True)}


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", False, assign_range),
        Assignor("roundrobin", False, assign_roundrobin),
        Assignor("sticky", False, assign_sticky),
        Assignor("cooperative-sticky", True, assign_cooperative_sticky),
    )
}
"""All that there are, by name."""


def assign(assignor_name: str, topics: Mapping[str, int], members: Sequence[MemberSubscription]) -> Assignment:
    """Share the partitions out with the assignor of that name, as `Assignor.assign` does.

    Raises:
        ValueError: there is no such assignor, or what `Assignor.assign` says.
    """
    if assignor_name not in ASSIGNORS:
        raise ValueError(f"no assignor is called {assignor_name!r}; there are {', '.join(ASSIGNORS)}")
    return ASSIGNORS[assignor_name].assign(topics, members)
