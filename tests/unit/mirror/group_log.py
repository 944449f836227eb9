"""What Kafka appends to its log when members of a consumer group join, leave, and are replaced."""

from collections.abc import Mapping
from uuid import UUID

from mirror.group_records import (
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    GroupType,
    MemberSubscription,
    Reconciliation,
    Subscription,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicIdPartitions,
)

ORDERS = UUID("5f1f5a3e-70a3-4ee9-9a55-4a8e0cf5b0a1")
CONSUMER = GroupType.CONSUMER


class GroupLog:
    """A group of the consumer protocol; each method returns the records of one decision."""

    def __init__(self, group_id: str = "g", topic_id: UUID = ORDERS) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.members: dict[str, str | None] = {}
        """Member id → group instance id."""
        self._topic_id = topic_id

    def joined(self, member_id: str, instance_id: str | None = None) -> list[GroupRecord]:
        """Return what is appended when a member joins: it gets the partition of its place."""
        self.members[member_id] = instance_id
        return [*self._subscribed(member_id), *self.raised(), *self.assigned(), self._reached(member_id)]

    def moved(self, member_id: str, client_id: str, client_host: str) -> list[GroupRecord]:
        """Return what is appended when a member goes on from another host, with another client id."""
        return self._subscribed(member_id, client_id, client_host)

    def left(self, member_id: str) -> list[GroupRecord]:
        """Return what is appended when a member leaves; the assignment follows."""
        del self.members[member_id]
        return [*self._deleted(member_id), *self.raised()]

    def raised(self) -> list[GroupRecord]:
        """Return what is appended when the epoch is raised."""
        self.epoch += 1
        return [GroupEpoch(CONSUMER, self.group_id, self.epoch)]

    def assigned(self) -> list[GroupRecord]:
        """Return what is appended when the target assignment is computed."""
        targets = [self._target(member_id, place) for place, member_id in enumerate(self.members)]
        return [*targets, TargetAssignmentEpoch(CONSUMER, self.group_id, self.epoch, None)]

    def returned(self, old_id: str, new_id: str) -> list[GroupRecord]:
        """Return what is appended when a static member that has left for a restart comes back."""
        place = list(self.members).index(old_id)
        self.members = {new_id if each == old_id else each: instance for each, instance in self.members.items()}
        left = Reconciliation(-2, is_stable=True, assigned=(), pending_revocation=())
        records: list[GroupRecord] = [CurrentAssignment(CONSUMER, self.group_id, old_id, left)]
        records += [*self._deleted(old_id), *self._subscribed(new_id)]
        return [*records, self._target(new_id, place), self._reached(new_id)]

    def deleted(self) -> list[GroupRecord]:
        """Return what is appended when the group is deleted, or converted to the classic protocol."""
        of_members = [record for member_id in self.members for record in self._deleted(member_id)]
        self.members.clear()
        end = TargetAssignmentEpoch(CONSUMER, self.group_id, None, None)
        return [*of_members, end, GroupEpoch(CONSUMER, self.group_id, None)]

    def converted(self, epoch: int, members: Mapping[str, str | None]) -> list[GroupRecord]:
        """Return what follows the deletion of a classic group when a member of the consumer protocol joins it."""
        self.epoch, self.members = epoch, dict(members)
        subscriptions = [record for member_id in members for record in self._subscribed(member_id)]
        raised = GroupEpoch(CONSUMER, self.group_id, epoch)
        return [*subscriptions, raised, *self.assigned(), *map(self._reached, members)]

    def _subscribed(self, member_id: str, client_id: str = "client", host: str = "/127.0.0.1") -> list[GroupRecord]:
        instance_id = self.members[member_id]
        subscription = Subscription(instance_id, client_id, host, 60_000, ("orders",), None, None, None)
        return [MemberSubscription(CONSUMER, self.group_id, member_id, subscription)]

    def _target(self, member_id: str, place: int) -> TargetAssignment:
        return TargetAssignment(self.group_id, member_id, (TopicIdPartitions(self._topic_id, (place,)),))

    def _reached(self, member_id: str) -> CurrentAssignment:
        reached = Reconciliation(self.epoch, is_stable=True, assigned=(), pending_revocation=())
        return CurrentAssignment(CONSUMER, self.group_id, member_id, reached)

    def _deleted(self, member_id: str) -> list[GroupRecord]:
        return [
            CurrentAssignment(CONSUMER, self.group_id, member_id, None),
            TargetAssignment(self.group_id, member_id, None),
            MemberSubscription(CONSUMER, self.group_id, member_id, None),
        ]
