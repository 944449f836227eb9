"""A log that Kafka wrote about real clients says what the clients themselves reported."""

from collections import Counter

import pytest

from coordinator_core.protocol.consumer_protocol import topics_of
from mirror.consumer_groups import is_conversion
from mirror.observed import (
    GroupDeleted,
    ObservedCommit,
    ObservedOtherGroup,
    ObservedRebalanceStart,
    OffsetDeleted,
    UnknownTopicIds,
)
from mirror.offsets_topic import UnknownRecord
from tests.unit.mirror.recorded_log import (
    Event,
    assigned_to,
    decoded,
    entries,
    events,
    events_of,
    generations,
    observed,
    partitions_in,
)

CRASHES = [f"crash-{library}" for library in ("kafka-python", "aiokafka", "confluent-kafka")]
CONSUMER_GROUPS = ["consumer-protocol", "consumer-protocol-java"]
SLACK_MS = 100
"""Clocks of clients and broker are one; a client writes an event some milliseconds after it happened."""


def test_no_record_is_unknown() -> None:
    assert len(decoded()) > 200
    assert not [each for each in observed() if isinstance(each, UnknownRecord | UnknownTopicIds)]


def test_the_recording_has_every_library_and_every_kind_of_record() -> None:
    assert {event["library"] for event in events()} == {
        "kafka-python",
        "aiokafka",
        "confluent-kafka",
        "java",
        "operator",
    }
    types = {int.from_bytes(entry.key[:2]) for entry in entries()}
    assert types == {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16}
    versions = Counter(int.from_bytes(entry.value[:2]) for entry in entries() if entry.key[1] == 1 and entry.value)
    assert set(versions) == {4}


# -- generations ---------------------------------------------------------------------------------------------


def _with_generation() -> list[Event]:
    return [event for event in events_of("assigned") if "generation" in event]


@pytest.mark.parametrize("event", _with_generation(), ids=lambda event: f"{event['client_id']} {event['generation']}")
def test_a_generation_has_the_member_with_the_assignment_that_it_reported(event: Event) -> None:
    [group] = [each for each in generations(event["group_id"]) if each.generation == event["generation"]]

    [member] = [each for each in group.members if each.member_id == event["member_id"]]
    assert assigned_to(member) == partitions_in(event)
    assert member.client_id == event["client_id"]
    assert group.state_since_ms is not None
    assert group.state_since_ms <= event["at_ms"] + SLACK_MS


def _without_generation() -> list[Event]:
    return [event for event in events_of("assigned") if "generation" not in event]


@pytest.mark.parametrize("event", _without_generation(), ids=lambda event: f"{event['client_id']} {event['at_ms']}")
def test_what_a_member_owns_is_within_its_assignment_at_that_time(event: Event) -> None:
    """Java's events have no member id, but each of its members has a client id of its own."""
    name = "member_id" if "member_id" in event else "client_id"
    assigned = [
        assigned_to(member)
        for group in generations(event["group_id"])
        for member in group.members
        if getattr(member, name) == event[name] and (group.state_since_ms or 0) <= event["at_ms"] + SLACK_MS
    ]
    # A cooperative member is assigned partitions before it owns them.
    assert any(partitions_in(event) <= partitions for partitions in assigned)


@pytest.mark.parametrize("group_id", CRASHES)
def test_a_crash_is_a_generation_without_the_member(group_id: str) -> None:
    groups = generations(group_id)

    clients = [sorted(member.client_id for member in group.members) for group in groups]
    both = [f"{group_id}-1", f"{group_id}-2"]
    assert [group.generation for group in groups] == [0, 1, 2, 3, 4]
    assert clients == [[], both[:1], both, both[:1], []]
    [killed] = events_of("killed", group_id)
    assert groups[3].state_since_ms is not None
    # Its session of 2 s began with its last heartbeat. The other member rejoins when its next heartbeat is answered.
    assert 1_000 <= groups[3].state_since_ms - killed["at_ms"] <= 3_000


@pytest.mark.parametrize("group_id", [*CRASHES, "java-classic"])
def test_the_timeouts_of_members_are_those_of_their_clients(group_id: str) -> None:
    timeouts = {
        (member.session_timeout_ms, member.rebalance_timeout_ms)
        for group in generations(group_id)
        for member in group.members
    }
    expected = {"java-classic": (4_000, 300_000), "crash-aiokafka": (2_000, 2_000)}
    assert timeouts == {expected.get(group_id, (2_000, 300_000))}


def test_a_cooperative_assignor_needs_two_generations() -> None:
    of_second = [
        assigned_to(member)
        for group in generations("cooperative")
        for member in group.members
        if member.client_id == "cooperative-2"
    ]
    assert [len(partitions) for partitions in of_second] == [0, 2]


def test_a_static_member_comes_back_in_the_same_generation_under_a_new_id() -> None:
    first, second = [group for group in generations("static") if group.members]

    assert first.generation == second.generation == 1
    assert [member.group_instance_id for group in (first, second) for member in group.members] == ["host-1", "host-1"]
    reported = {event["member_id"] for event in events_of("assigned", "static")}
    assert {member.member_id for group in (first, second) for member in group.members} == reported
    assert len(reported) == 2


# -- commits -------------------------------------------------------------------------------------------------


def _commits() -> set[tuple[str, str, int, int, str]]:
    commits = [each for each in observed() if isinstance(each, ObservedCommit)]
    # A commit of confluent-kafka ends with NUL, which was replaced.
    return {(each.group_id, *each[1:4], each.metadata) for each in commits}


def test_every_commit_that_clients_reported_is_in_the_log_and_no_other() -> None:
    reported = set()
    for event in events_of("committed"):
        offsets = event.get("offsets") or [event["offset"]] * len(event["partitions"])
        for (topic, partition), offset in zip(event["partitions"], offsets, strict=True):
            reported.add((event["group_id"], topic, partition, offset, event.get("metadata", "")))

    assert _commits() == reported
    assert len(reported) > 30


def test_offsets_of_an_aborted_transaction_are_not_in_the_log() -> None:
    [aborted] = events_of("aborted", "transactional")

    assert aborted["offset"] == 2
    assert {offset for group_id, _, _, offset, _ in _commits() if group_id == "transactional"} == {1, 3}


def test_commits_have_the_time_of_the_broker() -> None:
    times = [
        entry.appended_ms - record.committed_at_ms
        for entry, record in zip(entries(), decoded(), strict=True)
        if isinstance(record, ObservedCommit)
    ]
    assert times
    assert all(0 <= each < SLACK_MS for each in times)


# -- consumer protocol ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("group_id", CONSUMER_GROUPS)
def test_epochs_of_a_consumer_group_start_and_end_rebalances(group_id: str) -> None:
    starts = [each for each in observed() if isinstance(each, ObservedRebalanceStart) and each.group_id == group_id]
    groups = generations(group_id)

    assert [each.generation for each in starts] == list(range(1, len(starts) + 1))
    ended = {group.generation: group.state_since_ms or 0 for group in reversed(groups) if group.members}
    assert set(ended) <= {each.generation for each in starts}
    assert all(ended.get(each.generation, each.at_ms) >= each.at_ms for each in starts)
    assert (groups[-1].members, groups[-1].generation) == ((), len(starts) + 1)
    assert {group.protocol_type for group in groups} == {"consumer"}


def test_a_consumer_group_assigns_every_partition_once() -> None:
    for group_id in CONSUMER_GROUPS:
        for group in generations(group_id):
            owners = Counter(partition for member in group.members for partition in assigned_to(member))
            topics = {topic for member in group.members for topic in topics_of(member.subscription) or ()}
            expected = 4 * ("orders" in topics) + 2 * ("refunds" in topics)
            assert (len(owners), set(owners.values()) - {1}) == (expected, set())


def test_a_regular_expression_is_resolved_by_the_broker() -> None:
    subscriptions = {
        topics_of(member.subscription)
        for group in generations("consumer-protocol")
        for member in group.members
        if member.client_id == "consumer-protocol-2"
    }
    assert subscriptions == {frozenset({"orders", "refunds"})}


def test_members_of_a_consumer_group_that_prefer_an_assignor_get_it() -> None:
    names = {
        group_id: {group.protocol_name for group in generations(group_id) if group.members}
        for group_id in CONSUMER_GROUPS
    }

    assert names["consumer-protocol-java"] == {"range"}
    assert "uniform" in names["consumer-protocol"]


def test_a_static_member_of_a_consumer_group_comes_back_in_the_same_epoch() -> None:
    members = [
        (group.generation, member.member_id)
        for group in generations("consumer-protocol-java")
        for member in group.members
        if member.group_instance_id == "host-2"
    ]
    (first_epoch, first_id), (second_epoch, second_id) = members
    assert first_epoch == second_epoch
    assert first_id != second_id


def test_a_share_group_is_stable_and_then_empty() -> None:
    states = [each.state for each in observed() if isinstance(each, ObservedOtherGroup)]

    assert list(dict.fromkeys(states)) == ["Stable", "Empty"]


# -- the end of groups ---------------------------------------------------------------------------------------


def test_groups_that_the_operator_deleted_are_deleted_and_others_are_converted() -> None:
    ends = [(each, index) for index, each in enumerate(observed()) if isinstance(each, GroupDeleted)]
    deleted = {each.group_id for each, _ in ends} - {"converted"}

    assert deleted == {event["group_id"] for event in events_of("group_deleted")}
    following = [*decoded()[1:], None]
    conversions = [
        (record.group_id, is_conversion(record, after))
        for record, after in zip(decoded(), following, strict=True)
        if isinstance(record, GroupDeleted)
    ]
    assert sorted(conversions) == [("converted", True), ("converted", True), ("cooperative", False), ("simple", False)]


def test_a_converted_group_goes_on_with_its_generation_unless_it_was_empty() -> None:
    found = [(group.generation, len(group.members)) for group in generations("converted")]

    assert found == [(0, 0), (1, 1), (1, 1), (2, 2), (2, 1), (3, 1), (4, 0), (1, 1), (2, 0)]


def test_offsets_that_the_operator_deleted_are_deleted() -> None:
    [event] = events_of("offsets_deleted")
    deleted = [each for each in observed() if isinstance(each, OffsetDeleted) and each.group_id == event["group_id"]]

    assert {(each.topic, each.partition) for each in deleted[:1]} == partitions_in(event)
    # The group is deleted with its offsets.
    assert [(each.topic, each.partition) for each in deleted] == [("orders", 1), ("orders", 0)]
