"""What an assignor is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.partitions import TopicPartition


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group as its leader sees it."""

    member_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


Assignment = dict[str, list[TopicPartition]]
UserData = Callable[[Sequence[TopicPartition], int], bytes | None]
Assign = Callable[[Mapping[str, int], Sequence[Member]], Assignment]
OnAssignment = Callable[[Sequence[TopicPartition], int], object]


def _nothing(_: Sequence[TopicPartition], generation: int) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class Assignor:
    """A way to share partitions out, under the name that the members agree on.

    `assign(counts, members)` gets the partition count of every subscribed topic that has partitions, and returns a
    (possibly empty) list for every member id. With `is_cooperative` members keep their partitions while they rejoin
    and give up only what the new assignment takes from them; such an assignor must never hand a partition to a new
    owner while another member's `owned_partitions` still names it. `user_data(partitions, generation)` returns what a
    member sends to the leader besides: it is given the member's last assignment and its generation (-1: none).
    `on_assignment(partitions, generation)` is called at every member, the leader too, with all partitions of its new
    assignment: inside poll(), after on_revoked and before on_assigned. If it raises, on_assigned is called all the
    same, and poll() raises.

    Source: Kafka's ConsumerPartitionAssignor, whose onAssignment also gets the user data of the leader's assignment.
    """

    name: str
    assign: Assign
    is_cooperative: bool = False
    user_data: UserData = _nothing
    on_assignment: OnAssignment = _nothing
