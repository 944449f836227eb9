"""Types of the assignor interface: `Member`, `Assignment` and `Assignor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.functions import check_function
from agent.partitions import TopicPartition
from agent.settings import MAX_ASSIGNOR_NAME_LENGTH, check_name


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as passed to the assignor; its generation is that of `owned_partitions` (-1: not sent)."""

    member_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None
    generation: int = -1


Assignment = dict[str, list[TopicPartition]]
UserData = Callable[[Sequence[TopicPartition], int], bytes | None]
Assign = Callable[[Mapping[str, int], Sequence[Member]], Assignment]
OnAssignment = Callable[[Sequence[TopicPartition], int], object]


def _nothing(_: Sequence[TopicPartition], generation: int) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class Assignor:
    """An assignor: a function that assigns partitions to members, and its name.

    `assign(counts, members)` gets the partition count of every subscribed topic that has partitions, and returns a
    (possibly empty) list for every member id. With `is_cooperative` members keep their partitions while they rejoin
    and revoke only those that the new assignment moves; such an assignor must not assign a partition to a new
    owner while another member's `owned_partitions` still names it. `user_data(partitions, generation)` returns
    further data for the leader, from the member's last assignment and its generation (-1: none).
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

    def __post_init__(self) -> None:
        """Check the name and the functions; whether on_assignment may be a coroutine function, the agent knows.

        Raises:
            ValueError: one is of another type or takes other arguments; the message names it.
        """
        check_name("name of an assignor", self.name, MAX_ASSIGNOR_NAME_LENGTH)
        if not isinstance(self.is_cooperative, bool):
            raise ValueError(f"is_cooperative must be True or False, and is {self.is_cooperative!r}")
        for name in ("assign", "user_data", "on_assignment"):
            check_function(name, getattr(self, name), 2, may_be_coroutine=name == "on_assignment")
