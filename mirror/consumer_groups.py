"""Groups of Kafka's consumer, share and streams protocols, put together from their records.

A consumer group becomes what a classic group is in the log, one `ObservedGroup` for each generation: each group epoch
for which a target assignment was computed, and each in which the group is Empty. Share and streams groups have a state.

How Kafka writes the records, those of one decision next to each other in one batch:

* A member joins, or its subscription changes: its subscription; the raised group epoch; the target assignments that
  differ; the epoch of the target assignment; its current assignment. So a rebalance often starts and ends in one batch.
* A member with a regular expression joins: its subscription and current assignment, in the epoch as it is. When the
  broker has resolved it: its topics and the raised group epoch; a target assignment with the next heartbeat.
* A member leaves, or its session ends: tombstones of its current assignment, target assignment and subscription; the
  raised group epoch. The target assignment follows with the next heartbeat of another member, or, from Kafka 4.3,
  after `group.consumer.assignment.interval.ms`; epochs between have none. Without another member there is none, and
  the group is Empty.
* A static member leaves for a restart: its current assignment, with epoch -2. It comes back under a new id: tombstones
  of the old member; subscription, target assignment and current assignment of the new one. The group epoch is not
  raised unless the subscription has changed.
* The metadata of subscribed topics changes: the raised group epoch and a target assignment, with a heartbeat.
* A member goes on from another host, or with another client id: its subscription. The group epoch is not raised.
* Members move to their target assignments: their current assignments, one by one. The other records stay.
* A group is deleted: tombstones of its members' records, of the epoch of the target assignment, and last of the group
  epoch. `is_conversion` says which tombstones are not the end of a group.

The groups are those of the log at the last record that was applied, so a process reads the log from its beginning, and
takes results from its stored position on. A compacted log has the last record of each key at the place where it was
written last, so results before its end may lack members: take `current` there.

Pure: no clock, no I/O. Source: Kafka's `GroupMetadataManager`, `ConsumerGroup` and `TargetAssignmentBuilder`, 4.1.1 and
4.3.1.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar, assert_never
from uuid import UUID

from coordinator_core.protocol import consumer_protocol
from coordinator_core.protocol.consumer_protocol import (
    CONSUMER,
    Assignment,
    TopicPartitions,
    write_assignment,
    write_subscription,
)
from mirror.group_records import (
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    GroupType,
    MemberSubscription,
    Reconciliation,
    ResolvedRegex,
    Subscription,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicIdPartitions,
)
from mirror.observed import (
    GroupDeleted,
    ObservedGroup,
    ObservedMember,
    ObservedOtherGroup,
    ObservedRebalanceStart,
    UnknownTopicIds,
)
from mirror.offsets_topic import Decoded

SESSION_TIMEOUT_MS: Final = 45_000
"""The broker's default of `group.consumer.session.timeout.ms`, which the log does not have."""
ASSIGNOR: Final = "uniform"
"""The first of the broker's default `group.consumer.assignors`, for groups whose members prefer none."""

_Content = TypeVar("_Content")

Result = ObservedGroup | ObservedRebalanceStart | ObservedOtherGroup | GroupDeleted | UnknownTopicIds


class ConsumerGroups:
    """The groups of one partition of the log, as of the last record that was applied."""

    def __init__(
        self,
        topic_name: Callable[[UUID], str | None],
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        default_assignor: str = ASSIGNOR,
    ) -> None:
        """Begin without groups.

        Args:
            topic_name: the name of a topic, None if it is not known.
            session_timeout_ms: the broker's `group.consumer.session.timeout.ms`.
            default_assignor: the broker's first of `group.consumer.assignors`.
        """
        assert session_timeout_ms > 0, "a session has a length"
        self._topic_name = topic_name
        self._session_timeout_ms = session_timeout_ms
        self._default_assignor = default_assignor
        self._groups: dict[tuple[GroupType, str], _Group] = {}

    def apply(self, record: GroupRecord, appended_ms: int) -> list[Result]:
        """Apply the next record of the log.

        Args:
            record: the record.
            appended_ms: wall time of the broker when it was appended.

        Returns:
            What it says of its group that the records before did not say, in order; most records say nothing alone.
            Unknown topics stand before their group.
        """
        key = (_group_type(record), record.group_id)
        if isinstance(record, GroupEpoch) and record.epoch is None:
            self._groups.pop(key, None)
            return [GroupDeleted(record.group_id, is_classic=False)]
        group = self._groups.get(key) or _Group(*key)
        if group.apply(record, appended_ms):
            self._groups[key] = group
        if group.group_type is not GroupType.CONSUMER:
            return group.changed_state(appended_ms)
        return self._consequences(group, record)

    def current(self, group_id: str) -> list[Result]:
        """Return what the records say of a group together; nothing if they do not say anything of it yet.

        It is also of use when the name of an unknown topic has become known.
        """
        results: list[Result] = []
        for group_type in GroupType:
            group = self._groups.get((group_type, group_id))
            if group is None or group.epoch is None:
                continue
            if group_type is not GroupType.CONSUMER:
                results.append(group.other_group())
            elif group.members and group.epoch != group.target_epoch:
                results.append(ObservedRebalanceStart(group_id, group.epoch, group.epoch_since_ms))
            else:
                results += self._observed(group)
        return results

    def consumer_group_ids(self) -> list[str]:
        """Return the ids of the consumer groups."""
        return [group_id for group_type, group_id in self._groups if group_type is GroupType.CONSUMER]

    def state(self, group_id: str) -> str | None:
        """Return the state of a consumer group by Kafka's name of it, None if there is no such group."""
        group = self._groups.get((GroupType.CONSUMER, group_id))
        return None if group is None or group.epoch is None else group.state()

    def _consequences(self, group: "_Group", record: GroupRecord) -> list[Result]:
        """Return what a record of a consumer group says now that it is applied."""
        match record:
            case GroupEpoch(epoch=int(epoch)) if group.members:
                return [ObservedRebalanceStart(group.group_id, epoch, group.epoch_since_ms)]
            case GroupEpoch() | TargetAssignmentEpoch(epoch=int()) if group.is_assigned():
                return self._observed(group)
            case MemberSubscription() if group.is_assigned() and group.has_moved_members():
                return self._observed(group)
            # The end of the records that replace a static member.
            case CurrentAssignment(reconciliation=Reconciliation()) if (
                group.has_other_members() and group.is_assigned()
            ):
                return self._observed(group)
        return []

    def _observed(self, group: "_Group") -> list[Result]:
        """Return a consumer group whose target assignment is computed, or which is Empty."""
        assert group.epoch is not None, "there is no target assignment without a group"
        group.observed_clients = group.clients()
        started_ms, group.started_ms = group.started_ms, None
        if not group.members:
            since_ms = group.epoch_since_ms
            return [ObservedGroup(group.group_id, CONSUMER, group.epoch, None, None, since_ms, started_ms=started_ms)]
        unknown: set[UUID] = set()
        members = tuple(self._member(group, member_id, unknown) for member_id in sorted(group.members))
        observed = ObservedGroup(
            group.group_id,
            CONSUMER,
            group.epoch,
            group.assignor() or self._default_assignor,
            None,
            group.target_since_ms,
            members,
            started_ms,
        )
        return [*([UnknownTopicIds(group.group_id, tuple(sorted(unknown)))] if unknown else []), observed]

    def _member(self, group: "_Group", member_id: str, unknown: set[UUID]) -> ObservedMember:
        subscription = group.members[member_id]
        session_timeout_ms = subscription.classic_session_timeout_ms or self._session_timeout_ms
        rebalance_timeout_ms = subscription.rebalance_timeout_ms
        return ObservedMember(
            member_id,
            subscription.group_instance_id,
            subscription.client_id,
            subscription.client_host,
            session_timeout_ms,
            session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
            write_subscription(consumer_protocol.Subscription(group.topics_of(subscription))),
            write_assignment(Assignment(self._named(group.targets.get(member_id, ()), unknown))),
        )

    def _named(self, partitions: Iterable[TopicIdPartitions], unknown: set[UUID]) -> tuple[TopicPartitions, ...]:
        """Return partitions by the names of their topics, in order; add the ids without a name to `unknown`."""
        named = []
        for topic_id, numbers in partitions:
            name = self._topic_name(topic_id)
            if name is None:
                unknown.add(topic_id)
            else:
                named.append(TopicPartitions(name, tuple(sorted(numbers))))
        return tuple(sorted(named))


def is_conversion(deleted: GroupDeleted, following: Decoded | None) -> bool:
    """Return whether a group was not deleted but goes on with another protocol, with its offsets.

    Kafka does so when the first member of the new protocol joins, or the last one leaves: the records of the old
    protocol are deleted, and those of the new one follow in the same batch. A group with members keeps its generation
    as its epoch; an Empty one begins again. One that was created again with the protocol that it had is another group.

    Args:
        deleted: what the tombstone of a group's metadata or epoch says.
        following: what the next record of the log says.
    """
    match following:
        case MemberSubscription(subscription=Subscription()) | GroupEpoch(epoch=int()):
            return following.group_id == deleted.group_id and deleted.is_classic
        case ObservedGroup():
            return following.group_id == deleted.group_id and not deleted.is_classic
        case _:
            return False


# -- one group -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Group:
    """What the records say of one group."""

    group_type: GroupType
    group_id: str
    epoch: int | None = None
    epoch_since_ms: int = 0
    started_ms: int | None = None
    """When the epoch was first raised since the group was last returned with an assignment, or as Empty."""
    target_epoch: int | None = None
    target_since_ms: int = 0
    members: dict[str, Subscription] = field(default_factory=dict)
    targets: dict[str, tuple[TopicIdPartitions, ...]] = field(default_factory=dict)
    reconciliations: dict[str, Reconciliation] = field(default_factory=dict)
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    observed_clients: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The members when the group was last returned, with the client id and the host of each."""
    shown: tuple[str, int | None, int] | None = None
    """State, epoch and number of members of a share or streams group when it was last returned."""
    state_since_ms: int = 0

    def apply(self, record: GroupRecord, appended_ms: int) -> bool:
        """Keep a record's content; return whether there is one, and not a tombstone."""
        match record:
            case GroupEpoch():
                self.epoch, self.epoch_since_ms = record.epoch, appended_ms
                self.started_ms = appended_ms if self.started_ms is None else self.started_ms
                return record.epoch is not None
            case TargetAssignmentEpoch():
                self.target_epoch, self.target_since_ms = record.epoch, record.computed_at_ms or appended_ms
                return record.epoch is not None
            case MemberSubscription():
                return _put(self.members, record.member_id, record.subscription)
            case TargetAssignment():
                return _put(self.targets, record.member_id, record.partitions)
            case CurrentAssignment():
                return _put(self.reconciliations, record.member_id, record.reconciliation)
            case ResolvedRegex():
                return _put(self.regexes, record.regex, record.topics)
            case _:
                assert_never(record)

    def is_assigned(self) -> bool:
        """Return whether the target assignment of the epoch is computed; an Empty group needs none."""
        return self.epoch is not None and (not self.members or self.epoch == self.target_epoch)

    def has_other_members(self) -> bool:
        """Return whether a member has been replaced since the group was last returned."""
        return self.members.keys() != self.observed_clients.keys() and len(self.members) == len(self.observed_clients)

    def clients(self) -> dict[str, tuple[str, str]]:
        """Return the client id and the host of each member."""
        return {member_id: (each.client_id, each.client_host) for member_id, each in self.members.items()}

    def has_moved_members(self) -> bool:
        """Return whether the members are those that the group was last returned with, and the client of one is not."""
        return self.members.keys() == self.observed_clients.keys() and self.clients() != self.observed_clients

    def assignor(self) -> str | None:
        """Return the server-side assignor that most members prefer, None if no member prefers one."""
        wanted = Counter(each.server_assignor for each in self.members.values() if each.server_assignor is not None)
        # Of as many uniform and range, Kafka takes uniform: they are in this order in its hash map.
        return max(wanted, key=lambda name: (wanted[name], name), default=None)

    def topics_of(self, subscription: Subscription) -> tuple[str, ...]:
        """Return the topics that a member subscribes to by name and by regular expression, in order."""
        by_regex = self.regexes.get(subscription.topic_regex or "", ())
        return tuple(sorted({*subscription.topics, *by_regex}))

    def state(self) -> str:
        """Return the state of the group by Kafka's name of it, as far as the log has it.

        A streams group that lacks topics is NotReady in Kafka; the log does not have that.
        """
        if not self.members:
            return "Empty"
        if self.group_type is GroupType.SHARE:
            return "Stable"
        if self.epoch != self.target_epoch:
            return "Assigning"
        at_target = [self._is_at_target(member_id) for member_id in self.members]
        return "Stable" if all(at_target) else "Reconciling"

    def _is_at_target(self, member_id: str) -> bool:
        reached = self.reconciliations.get(member_id)
        return reached is not None and reached.is_stable and reached.epoch == self.target_epoch

    def changed_state(self, appended_ms: int) -> list[Result]:
        """Return a share or streams group if its state, epoch or number of members has changed."""
        shown = (self.state(), self.epoch, len(self.members))
        if self.epoch is None or shown == self.shown:
            return []
        if self.shown is None or shown[0] != self.shown[0]:
            self.state_since_ms = appended_ms
        self.shown = shown
        return [self.other_group()]

    def other_group(self) -> ObservedOtherGroup:
        """Return a share or streams group."""
        assert self.epoch is not None, "the group exists"
        state, count = self.state(), len(self.members)
        return ObservedOtherGroup(self.group_id, self.group_type, state, self.epoch, count, self.state_since_ms)


def _group_type(record: GroupRecord) -> GroupType:
    """Return the type of a record's group; only records of consumer groups do not have it."""
    return GroupType.CONSUMER if isinstance(record, TargetAssignment | ResolvedRegex) else record.group_type


def _put(contents: dict[str, _Content], key: str, content: _Content | None) -> bool:
    """Keep a content, or forget it if it was deleted; return whether it is kept."""
    if content is None:
        contents.pop(key, None)
        return False
    contents[key] = content
    return True
