"""The built-in assignors: range, roundrobin, sticky and cooperative-sticky.

The algorithms are in `coordinator_core.assignors`, the one part of the core that the agent imports. This
module adds how a member sends its previous assignment to the leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agent.assignors.claims import Claim, generation_data, owned_claim, remembered_claim, remembered_data
from agent.assignors.model import Assign, Assignment, Assignor, Member
from agent.partitions import TopicPartition
from coordinator_core import assignors as kafkas


def _assign(name: str, claim_of: Callable[[Member], Claim]) -> Assign:
    """Return the assign function of a built-in assignor."""

    def assign(counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
        shares = kafkas.assign(name, counts, [_subscription(member, claim_of(member)) for member in members])
        return {member_id: [TopicPartition(*each) for each in share] for member_id, share in shares.items()}

    return assign


def _subscription(member: Member, claim: Claim) -> kafkas.MemberSubscription:
    owned = tuple(kafkas.TopicPartition(*each) for each in claim.partitions)
    return kafkas.MemberSubscription(member.member_id, member.group_instance_id, member.topics, owned, claim.generation)


BUILT_IN: Final[Mapping[str, Assignor]] = {
    each.name: each
    for each in (
        Assignor("range", _assign("range", owned_claim)),
        Assignor("roundrobin", _assign("roundrobin", owned_claim)),
        Assignor("sticky", _assign("sticky", remembered_claim), user_data=remembered_data),
        Assignor(
            "cooperative-sticky",
            _assign("cooperative-sticky", owned_claim),
            is_cooperative=True,
            user_data=generation_data,
        ),
    )
}
