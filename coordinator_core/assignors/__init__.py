"""Partition assignors: pure functions of subscriptions, owned partitions and partition counts.

A group's leader runs one; a job that audits assignments runs it again for comparison. The result depends neither on
the order of the input nor on chance.

Read `group_spec` first (the input that all assignors share), then one assignor a file: `range`, `roundrobin`,
`sticky` with `claims`, `constrained_assignment` and `general_assignment`, and `cooperative_sticky`.

Source: protocol.md section 17; Kafka's ``ConsumerPartitionAssignor`` and its implementations. Racks are ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator_core.assignors.cooperative_sticky import assign_cooperative_sticky
from coordinator_core.assignors.group_spec import (
    NO_GENERATION,
    GroupSpec,
    MemberSubscription,
    Shares,
    TopicPartition,
    build_group_spec,
)
from coordinator_core.assignors.range import assign_range
from coordinator_core.assignors.roundrobin import assign_roundrobin
from coordinator_core.assignors.sticky import assign_sticky

__all__ = ["ASSIGNORS", "NO_GENERATION", "Assignment", "Assignor", "MemberSubscription", "TopicPartition", "assign"]

Assignment = dict[str, tuple[TopicPartition, ...]]
"""Member id → its partitions: every member has an entry, and every entry is sorted."""


@dataclass(frozen=True, slots=True)
class Assignor:
    """An assignor with the protocol name under which members support it.

    Under a cooperative assignor, members keep reading what they own while they rejoin. So it need not assign every
    partition at once, and members rejoin as long as one of them had to revoke a partition.
    """

    name: str
    is_cooperative: bool
    share_out: Callable[[GroupSpec], Shares]

    def assign(self, topics: Mapping[str, int], members: Sequence[MemberSubscription]) -> Assignment:
        """Assign the partitions.

        Args:
            topics: Topic → partition count. A topic that is missing or has none is skipped.
            members: In any order; may be empty.

        Returns:
            Each member's partitions, by topic and number. No partition is with two members, or with a member that does
            not subscribe to its topic; every one is assigned, except those that a cooperative assignor withholds.

        Raises:
            ValueError: two members have one id, or a topic has a negative count.
        """
        group_spec = build_group_spec(topics, members)
        shares = self.share_out(group_spec)
        return {
            member.member_id: tuple(sorted(share)) for member, share in zip(group_spec.members, shares, strict=True)
        }


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", False, assign_range),
        Assignor("roundrobin", False, assign_roundrobin),
        Assignor("sticky", False, assign_sticky),
        Assignor("cooperative-sticky", True, assign_cooperative_sticky),
    )
}
"""Name → assignor."""


def assign(assignor_name: str, topics: Mapping[str, int], members: Sequence[MemberSubscription]) -> Assignment:
    """Assign the partitions with the named assignor, as `Assignor.assign` does.

    Raises:
        ValueError: the assignor is unknown, or as in `Assignor.assign`.
    """
    if assignor_name not in ASSIGNORS:
        raise ValueError(f"no assignor is called {assignor_name!r}; there are {', '.join(ASSIGNORS)}")
    return ASSIGNORS[assignor_name].assign(topics, members)
