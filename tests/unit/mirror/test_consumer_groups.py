"""Records of consumer, share and streams groups become groups, in the order in which Kafka writes the records."""

from uuid import UUID

import pytest

from coordinator_core.protocol.consumer_protocol import TopicPartitions, partitions_of, topics_of
from mirror.consumer_groups import ConsumerGroups, Result, is_conversion
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
    OffsetDeleted,
    UnknownTopicIds,
)
from mirror.offsets_topic import Decoded, UnknownRecord

ORDERS = UUID("5f1f5a3e-70a3-4ee9-9a55-4a8e0cf5b0a1")
REFUNDS = UUID("0c3f5a3e-70a3-4ee9-9a55-4a8e0cf5b0a1")
NAMES = {ORDERS: "orders", REFUNDS: "refunds"}
A_SUBSCRIPTION = Subscription(None, "client", "/10.0.0.1", 300_000, ("orders",), None, None, None)


class Log:
    """A log of one group, whose records are appended one millisecond after another."""

    def __init__(self, names: dict[UUID, str] | None = None, group_type: GroupType = GroupType.CONSUMER) -> None:
        self.names = dict(NAMES) if names is None else names
        self.groups = ConsumerGroups(self.names.get)
        self.now_ms = 1_000
        self._type = group_type

    def apply(self, *records: GroupRecord) -> list[Result]:
        results: list[Result] = []
        for record in records:
            self.now_ms += 1
            results += self.groups.apply(record, self.now_ms)
        return results

    def join(self, epoch: int, member_id: str, subscription: Subscription = A_SUBSCRIPTION) -> list[Result]:
        """Append what Kafka appends when a member joins, which gets the partition of the epoch's number."""
        return self.apply(
            MemberSubscription(self._type, "g", member_id, subscription),
            GroupEpoch(self._type, "g", epoch),
            *([assigned(member_id, epoch)] if self._type is GroupType.CONSUMER else []),
            TargetAssignmentEpoch(self._type, "g", epoch, None),
            self.current(member_id, epoch),
        )

    def remove(self, member_id: str) -> list[Result]:
        return self.apply(
            CurrentAssignment(self._type, "g", member_id, None),
            *([TargetAssignment("g", member_id, None)] if self._type is GroupType.CONSUMER else []),
            MemberSubscription(self._type, "g", member_id, None),
        )

    def leave(self, epoch: int, member_id: str) -> list[Result]:
        return [*self.remove(member_id), *self.apply(GroupEpoch(self._type, "g", epoch))]

    def current(self, member_id: str, epoch: int, *, is_stable: bool = True) -> CurrentAssignment:
        return CurrentAssignment(self._type, "g", member_id, Reconciliation(epoch, is_stable, (), ()))


def test_a_first_member_starts_and_ends_a_rebalance() -> None:
    start, group = Log().join(1, "m1")

    assert start == ObservedRebalanceStart("g", 1, 1_002)
    assert isinstance(group, ObservedGroup)
    [member] = group.members
    assert group == ObservedGroup("g", "consumer", 1, "uniform", None, 1_004, (member,), started_ms=1_002)
    contents = (member.subscription, member.assignment)
    assert member == ObservedMember("m1", None, "client", "/10.0.0.1", 45_000, 300_000, *contents)
    assert topics_of(member.subscription) == frozenset({"orders"})
    assert partitions_of(member.assignment) == (TopicPartitions("orders", (1,)),)


def test_a_generation_has_all_members_with_their_newest_assignments() -> None:
    log = Log()
    log.join(1, "m2")

    group = log.join(2, "m1")[-1]

    assert isinstance(group, ObservedGroup)
    assert {member.member_id: partitions_of(member.assignment) for member in group.members} == {
        "m1": (TopicPartitions("orders", (2,)),),
        "m2": (TopicPartitions("orders", (1,)),),
    }


def test_a_rebalance_starts_when_a_member_leaves_and_ends_with_the_next_target_assignment() -> None:
    log = Log()
    log.join(1, "m1")
    log.join(2, "m2")

    assert log.leave(3, "m1") == [ObservedRebalanceStart("g", 3, log.now_ms)]
    assert log.groups.state("g") == "Assigning"
    [group] = log.apply(assigned("m2", 0), target_epoch(3))

    assert isinstance(group, ObservedGroup)
    assert (group.generation, group.state_since_ms) == (3, log.now_ms)
    assert group.started_ms == log.now_ms - 2
    assert [member.member_id for member in group.members] == ["m2"]


def test_an_epoch_without_a_target_assignment_is_no_generation() -> None:
    log = Log()
    log.join(1, "m1")
    log.join(2, "m2")

    starts = [*log.leave(3, "m1"), *log.apply(epoch(4))]

    assert [type(each) for each in starts] == [ObservedRebalanceStart, ObservedRebalanceStart]
    assert log.apply(target_epoch(3)) == []
    [group] = log.apply(target_epoch(4))
    assert isinstance(group, ObservedGroup)
    assert isinstance(starts[0], ObservedRebalanceStart)
    assert (group.generation, group.started_ms) == (4, starts[0].at_ms)


def test_a_group_whose_last_member_leaves_is_empty_in_the_raised_epoch() -> None:
    log = Log()
    log.join(1, "m1")

    [empty] = log.leave(2, "m1")

    assert empty == ObservedGroup("g", "consumer", 2, None, None, log.now_ms, started_ms=log.now_ms)
    assert log.groups.state("g") == "Empty"


def test_reconciling_members_start_no_rebalance() -> None:
    log = Log()
    log.join(1, "m1")
    log.join(2, "m2")

    assert log.groups.state("g") == "Reconciling"
    assert log.apply(log.current("m1", 1, is_stable=False)) == []
    assert log.apply(log.current("m1", 2, is_stable=False)) == []
    assert log.groups.state("g") == "Reconciling"
    assert log.apply(log.current("m1", 2)) == []
    assert log.groups.state("g") == "Stable"


def test_a_static_member_that_comes_back_is_the_same_generation_under_its_new_id() -> None:
    static = A_SUBSCRIPTION._replace(group_instance_id="i")
    log = Log()
    log.join(1, "old", static)

    assert log.apply(log.current("old", -2)) == []
    assert log.remove("old") == []
    [group] = log.apply(
        MemberSubscription(GroupType.CONSUMER, "g", "new", static), assigned("new", 1), log.current("new", 0)
    )

    assert isinstance(group, ObservedGroup)
    assert (group.generation, group.started_ms) == (1, None)
    [member] = group.members
    assert (member.member_id, member.group_instance_id) == ("new", "i")
    assert partitions_of(member.assignment) == (TopicPartitions("orders", (1,)),)


def test_a_changed_subscription_is_seen_with_its_target_assignment() -> None:
    log = Log()
    log.join(1, "m1")

    start, group = log.join(2, "m1", A_SUBSCRIPTION._replace(topics=("refunds", "orders")))

    assert isinstance(start, ObservedRebalanceStart)
    assert isinstance(group, ObservedGroup)
    assert topics_of(group.members[0].subscription) == frozenset({"orders", "refunds"})


def test_topics_of_a_regular_expression_are_subscribed_to() -> None:
    log = Log()
    log.apply(ResolvedRegex("g", "re.*", ("refunds",)))

    group = log.join(1, "m1", A_SUBSCRIPTION._replace(topic_regex="re.*"))[-1]

    assert isinstance(group, ObservedGroup)
    assert topics_of(group.members[0].subscription) == frozenset({"orders", "refunds"})


def test_partitions_of_an_unknown_topic_are_left_out_until_its_name_is_known() -> None:
    log = Log(names={REFUNDS: "refunds"})

    _, unknown, group = log.join(1, "m1")

    assert unknown == UnknownTopicIds("g", (ORDERS,))
    assert isinstance(group, ObservedGroup)
    assert partitions_of(group.members[0].assignment) == ()
    log.names[ORDERS] = "orders"
    [known] = log.groups.current("g")
    assert isinstance(known, ObservedGroup)
    assert partitions_of(known.members[0].assignment) == (TopicPartitions("orders", (1,)),)


@pytest.mark.parametrize(
    ("preferred", "expected"),
    [
        ([None], "uniform"),
        (["range", None], "range"),
        (["range", "uniform"], "uniform"),
        (["range", "range", "uniform"], "range"),
    ],
)
def test_the_assignor_is_the_one_that_most_members_prefer(preferred: list[str | None], expected: str) -> None:
    log = Log()
    for number, name in enumerate(preferred, start=1):
        log.join(number, f"m{number}", A_SUBSCRIPTION._replace(server_assignor=name))

    [group] = log.groups.current("g")

    assert isinstance(group, ObservedGroup)
    assert group.protocol_name == expected


def test_a_member_of_the_classic_protocol_has_its_own_session_timeout() -> None:
    group = Log().join(1, "m1", A_SUBSCRIPTION._replace(classic_session_timeout_ms=10_000))[-1]

    assert isinstance(group, ObservedGroup)
    assert group.members[0].session_timeout_ms == 10_000


def test_the_time_of_the_target_assignment_is_that_of_the_record_since_kafka_4_3() -> None:
    log = Log()
    log.join(1, "m1")

    [_, group] = log.apply(epoch(2), TargetAssignmentEpoch(GroupType.CONSUMER, "g", 2, 777))

    assert isinstance(group, ObservedGroup)
    assert group.state_since_ms == 777


# -- the whole log -------------------------------------------------------------------------------------------


def test_a_compacted_log_says_at_its_end_what_the_whole_log_says() -> None:
    whole = Log()
    whole.join(1, "m1")
    expected = whole.join(2, "m2")[-1]
    compacted = Log()
    compacted.apply(
        assigned("m1", 1),
        MemberSubscription(GroupType.CONSUMER, "g", "m2", A_SUBSCRIPTION),
        epoch(2),
        assigned("m2", 2),
        target_epoch(2),
        MemberSubscription(GroupType.CONSUMER, "g", "m1", A_SUBSCRIPTION),
    )

    [found] = compacted.groups.current("g")

    assert isinstance(expected, ObservedGroup)
    assert isinstance(found, ObservedGroup)
    assert found.members == expected.members


def test_a_group_whose_target_assignment_is_missing_is_a_rebalance_that_has_started() -> None:
    log = Log()
    log.join(1, "m1")
    log.apply(epoch(2))

    assert log.groups.current("g") == [ObservedRebalanceStart("g", 2, log.now_ms)]
    assert log.groups.current("another") == []


# -- the end of a group --------------------------------------------------------------------------------------


def test_a_deleted_group_is_forgotten() -> None:
    log = Log()
    log.join(1, "m1")
    log.leave(2, "m1")

    assert log.apply(TargetAssignmentEpoch(GroupType.CONSUMER, "g", None, None), epoch(None)) == [
        GroupDeleted("g", is_classic=False)
    ]
    assert log.groups.current("g") == []
    assert log.groups.state("g") is None


def test_deletions_do_not_make_a_group() -> None:
    log = Log()
    log.remove("m1")
    log.apply(TargetAssignmentEpoch(GroupType.CONSUMER, "g", None, None))

    assert log.groups.state("g") is None


@pytest.mark.parametrize(
    ("is_classic", "following", "expected"),
    [
        (True, MemberSubscription(GroupType.CONSUMER, "g", "m1", A_SUBSCRIPTION), True),
        (True, GroupEpoch(GroupType.CONSUMER, "g", 4), True),
        (True, ObservedGroup("g", "consumer", 4, None, None, None), False),
        (False, MemberSubscription(GroupType.CONSUMER, "g", "m1", A_SUBSCRIPTION), False),
        (False, GroupEpoch(GroupType.CONSUMER, "g", 4), False),
        (False, ObservedGroup("g", "consumer", 4, None, None, None), True),
        (False, ObservedGroup("another", "consumer", 4, None, None, None), False),
        (True, MemberSubscription(GroupType.CONSUMER, "g", "m1", None), False),
        (True, OffsetDeleted("g", "orders", 0), False),
        (True, UnknownRecord(99), False),
        (True, None, False),
    ],
)
def test_a_deletion_before_records_of_the_same_group_is_a_conversion_to_another_protocol(
    following: Decoded | None, *, is_classic: bool, expected: bool
) -> None:
    assert is_conversion(GroupDeleted("g", is_classic), following) is expected


# -- share and streams groups --------------------------------------------------------------------------------


def test_a_share_group_has_a_state() -> None:
    log = Log(group_type=GroupType.SHARE)

    [joined] = log.join(1, "m1")
    joined_ms = 1_002
    second = log.join(2, "m2")
    log.leave(3, "m1")
    [*_, empty] = log.leave(4, "m2")

    assert joined == ObservedOtherGroup("g", "share", "Stable", 1, 1, joined_ms)
    assert second[-1] == ObservedOtherGroup("g", "share", "Stable", 2, 2, joined_ms)
    assert isinstance(empty, ObservedOtherGroup)
    assert (empty.state, empty.epoch, empty.member_count) == ("Empty", 4, 0)
    assert log.groups.current("g") == [empty]


def test_a_streams_group_reconciles() -> None:
    log = Log(group_type=GroupType.STREAMS)

    results = log.join(1, "m1")

    assert [each.state for each in results if isinstance(each, ObservedOtherGroup)] == [
        "Assigning",
        "Reconciling",
        "Stable",
    ]


def assigned(member_id: str, partition: int) -> TargetAssignment:
    return TargetAssignment("g", member_id, (TopicIdPartitions(ORDERS, (partition,)),))


def epoch(number: int | None) -> GroupEpoch:
    return GroupEpoch(GroupType.CONSUMER, "g", number)


def target_epoch(number: int) -> TargetAssignmentEpoch:
    return TargetAssignmentEpoch(GroupType.CONSUMER, "g", number, None)
