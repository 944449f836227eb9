"""Records of `__consumer_offsets` are decoded in every version; bytes that no schema fits are one kind of error."""

import struct
from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.group_records import (
    CurrentAssignment,
    GroupEpoch,
    GroupType,
    MemberSubscription,
    Reconciliation,
    ResolvedRegex,
    Subscription,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicIdPartitions,
)
from mirror.observed import GroupDeleted, ObservedCommit, ObservedGroup, ObservedMember, OffsetDeleted
from mirror.offsets_topic import LATEST_TIME_MS, Decoded, UnknownRecord, decode
from mirror.record_reader import NAME_MAX_BYTES, UndecodableRecord
from tests.support.offsets_topic_bytes import (
    array,
    compact,
    flexible_value,
    group_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
    tags,
    varint,
)

unhurried = settings(derandomize=True, database=None, max_examples=150)

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
numbers = st.integers(0, 2**31 - 1)
times = st.integers(0, LATEST_TIME_MS)
commits = st.builds(
    ObservedCommit,
    names,
    names,
    numbers,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    names | st.text("a", min_size=127, max_size=300),
    times,
    st.none() | times,
)
members = st.builds(
    ObservedMember,
    names,
    st.none() | names,
    names,
    names,
    st.integers(1, 2**31 - 1),
    numbers,
    st.binary(max_size=200),
    st.binary(max_size=200),
)
groups = st.builds(
    ObservedGroup,
    names,
    names,
    numbers,
    st.none() | names,
    st.none() | names,
    st.none() | times,
    st.lists(members, max_size=3).map(tuple),
)
TOPIC = UUID("5f1f5a3e-70a3-4ee9-9a55-4a8e0cf5b0a1")
PARTITIONS = array([TOPIC.bytes + array([struct.pack(">i", partition) for partition in (0, 2)]) + tags()])
A_COMMIT = ObservedCommit("payments", "orders", 3, 42, 7, "", 1_763_900_000_000, None)


def test_an_offset_commit_is_decoded_in_each_version() -> None:
    commit = A_COMMIT._replace(metadata="host 1", expires_at_ms=1_763_900_060_000)

    decoded = [_decode_commit(commit, version) for version in range(5)]

    without_epoch = commit._replace(leader_epoch=-1)
    without_expiry = commit._replace(expires_at_ms=None)
    neither = without_epoch._replace(expires_at_ms=None)
    assert decoded == [neither, without_epoch, neither, without_expiry, without_expiry]


@unhurried
@given(commits, st.integers(3, 4))
def test_any_offset_commit_is_decoded_as_it_was_encoded(commit: ObservedCommit, version: int) -> None:
    assert _decode_commit(commit, version) == commit._replace(expires_at_ms=None)


def test_both_types_of_keys_are_offset_commits() -> None:
    decoded = {decode(offset_commit_key("g", "t", 1, record_type), None) for record_type in (0, 1)}

    assert decoded == {OffsetDeleted("g", "t", 1)}


def test_the_tagged_fields_of_an_offset_commit_are_skipped() -> None:
    key = offset_commit_key(A_COMMIT.group_id, A_COMMIT.topic, A_COMMIT.partition)
    with_topic_id = offset_commit_value(A_COMMIT, 4, tags([(0, TOPIC.bytes), (9, b"of a later release")]))

    assert decode(key, with_topic_id) == A_COMMIT


@unhurried
@given(groups, st.integers(3, 4))
def test_any_classic_group_is_decoded_as_it_was_encoded(group: ObservedGroup, version: int) -> None:
    assert decode(group_key(2, group.group_id), group_metadata_value(group, version)) == group


def test_older_versions_of_a_classic_group_have_fewer_fields() -> None:
    member = ObservedMember("m", "i", "client", "/10.0.0.1", 10_000, 60_000, b"s", b"a")
    group = ObservedGroup("g", "consumer", 4, "range", "m", 1_763_900_000_000, (member,))

    found = [decode(group_key(2, "g"), group_metadata_value(group, version)) for version in range(3)]

    dynamic = member._replace(group_instance_id=None)
    oldest = dynamic._replace(rebalance_timeout_ms=10_000)
    assert found == [
        ObservedGroup("g", "consumer", 4, "range", "m", None, (oldest,)),
        ObservedGroup("g", "consumer", 4, "range", "m", None, (dynamic,)),
        ObservedGroup("g", "consumer", 4, "range", "m", 1_763_900_000_000, (dynamic,)),
    ]


def test_a_null_value_is_a_deletion() -> None:
    consumer = GroupType.CONSUMER
    assert decode(offset_commit_key("g", "t", 1), None) == OffsetDeleted("g", "t", 1)
    assert [decode(group_key(record_type, "g"), None) for record_type in (2, 3, 6)] == [
        GroupDeleted("g"),
        GroupEpoch(consumer, "g", None),
        TargetAssignmentEpoch(consumer, "g", None, None),
    ]
    assert [decode(group_key(record_type, "g", "m"), None) for record_type in (5, 7, 8, 16)] == [
        MemberSubscription(consumer, "g", "m", None),
        TargetAssignment("g", "m", None),
        CurrentAssignment(consumer, "g", "m", None),
        ResolvedRegex("g", "m", None),
    ]


# -- groups of the other protocols --------------------------------------------------------------------------


def test_the_epochs_of_consumer_share_and_streams_groups_are_decoded() -> None:
    epoch = struct.pack(">i", 7)
    computed_at = [(0, struct.pack(">q", 1_763_900_000_000))]

    raised = [decode(group_key(record_type, "g"), flexible_value(epoch)) for record_type in (3, 11, 17)]
    computed = [
        decode(group_key(record_type, "g"), flexible_value(epoch, tagged_fields=computed_at))
        for record_type in (6, 12, 20)
    ]

    assert raised == [GroupEpoch(group_type, "g", 7) for group_type in GroupType]
    assert computed == [TargetAssignmentEpoch(group_type, "g", 7, 1_763_900_000_000) for group_type in GroupType]


def test_the_time_of_a_target_assignment_is_unknown_before_kafka_4_3() -> None:
    decoded = decode(group_key(6, "g"), flexible_value(struct.pack(">i", 7)))

    assert decoded == TargetAssignmentEpoch(GroupType.CONSUMER, "g", 7, None)


def test_the_members_of_a_consumer_group_are_decoded() -> None:
    fields = [compact("instance"), compact("rack"), compact("client"), compact("/10.0.0.1")]
    fields += [array([compact("orders"), compact("refunds")]), compact("eu-.*"), struct.pack(">i", 300_000)]
    fields += [compact("range")]
    classic = b"\1" + struct.pack(">i", 10_000) + array([compact("range") + b"\3ab" + tags()]) + tags()

    own, absent, of_classic = [
        decode(group_key(5, "g", "m"), flexible_value(*fields, tagged_fields=tagged))
        for tagged in ([(0, b"\0")], [], [(0, classic)])
    ]

    expected = Subscription("instance", "client", "/10.0.0.1", 300_000, ("orders", "refunds"), "eu-.*", "range", None)
    assert own == absent == MemberSubscription(GroupType.CONSUMER, "g", "m", expected)
    upgrading = expected._replace(classic_session_timeout_ms=10_000)
    assert of_classic == MemberSubscription(GroupType.CONSUMER, "g", "m", upgrading)


def test_the_members_of_share_and_streams_groups_are_decoded() -> None:
    share = [compact(None), compact("client"), compact("/10.0.0.1"), array([compact("orders")])]
    streams = [compact("instance"), compact(None), compact("client"), compact("/10.0.0.1"), struct.pack(">ii", 9, 1)]

    assert decode(group_key(10, "g", "m"), flexible_value(*share)) == MemberSubscription(
        GroupType.SHARE, "g", "m", Subscription(None, "client", "/10.0.0.1", None, ("orders",), None, None, None)
    )
    assert decode(group_key(19, "g", "m"), flexible_value(*streams)) == MemberSubscription(
        GroupType.STREAMS, "g", "m", Subscription("instance", "client", "/10.0.0.1", 9, (), None, None, None)
    )


def test_assignments_of_a_consumer_group_are_decoded() -> None:
    two = (TopicIdPartitions(TOPIC, (0, 2)),)
    current = [struct.pack(">iib", 7, 6, 1), PARTITIONS, PARTITIONS]

    assert decode(group_key(7, "g", "m"), flexible_value(PARTITIONS)) == TargetAssignment("g", "m", two)
    assert decode(group_key(8, "g", "m"), flexible_value(*current)) == CurrentAssignment(
        GroupType.CONSUMER, "g", "m", Reconciliation(7, is_stable=False, assigned=two, pending_revocation=two)
    )


@pytest.mark.parametrize(("key", "group_type", "stable"), [(14, GroupType.SHARE, 0), (22, GroupType.STREAMS, 1)])
def test_member_states_are_numbered_from_0_and_those_of_streams_groups_from_1(
    key: int, group_type: GroupType, stable: int
) -> None:
    def reached(state: int) -> Decoded | None:
        return decode(group_key(key, "g", "m"), flexible_value(struct.pack(">iib", 7, 6, state)))

    for state in (stable, stable + 1):
        expected = Reconciliation(7, is_stable=state == stable, assigned=(), pending_revocation=())
        assert reached(state) == CurrentAssignment(group_type, "g", "m", expected)


def test_the_topics_of_a_regular_expression_are_decoded() -> None:
    value = flexible_value(array([compact("eu-1"), compact("eu-2")]), struct.pack(">qq", 3, 1_763_900_000_000))

    assert decode(group_key(16, "g", "eu-.*"), value) == ResolvedRegex("g", "eu-.*", ("eu-1", "eu-2"))


def test_records_that_a_mirror_does_not_need_are_nothing() -> None:
    found = {decode(group_key(record_type, "g", "m"), b"\0\0") for record_type in (4, 9, 13, 15, 18, 21, 23)}

    assert found == {None}


# -- what is refused -----------------------------------------------------------------------------------------


def test_a_record_of_an_unknown_type_says_so() -> None:
    assert decode(group_key(24, "g"), b"\0\0later") == UnknownRecord(24)
    assert decode(b"\xff\xff", None) == UnknownRecord(-1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (offset_commit_key("g", "t", 0), offset_commit_value(A_COMMIT, version=5)),
        (group_key(2, "g"), struct.pack(">h", 5)),
        (group_key(3, "g"), flexible_value(struct.pack(">i", 7), version=1)),
    ],
)
def test_an_unknown_version_of_a_value_is_undecodable(key: bytes, value: bytes) -> None:
    with pytest.raises(UndecodableRecord, match="of version"):
        decode(key, value)


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_negative_committed_offset_is_none(version: int) -> None:
    """Kafka stores what clients send, and its clients take what is negative for no committed offset."""
    assert _decode_commit(A_COMMIT._replace(offset=-1), version) == OffsetDeleted("payments", "orders", 3)


@pytest.mark.parametrize(
    "commit",
    [
        A_COMMIT._replace(partition=-1),
        A_COMMIT._replace(leader_epoch=-2),
        A_COMMIT._replace(committed_at_ms=LATEST_TIME_MS + 1),
    ],
)
def test_a_commit_that_no_table_can_hold_is_undecodable(commit: ObservedCommit) -> None:
    with pytest.raises(UndecodableRecord):
        _decode_commit(commit, version=3)


def test_names_that_no_key_of_postgres_can_hold_are_undecodable() -> None:
    long = "\u00e9" * (NAME_MAX_BYTES // 2 + 1)
    member = ObservedMember(long, None, "client", "/10.0.0.1", 10_000, 60_000, b"s", b"a")
    group = ObservedGroup("g", "consumer", 4, "range", long, 1_763_900_000_000, (member,))
    for key, value in (
        (offset_commit_key(long, "orders", 3), None),
        (group_key(2, long), None),
        (group_key(5, "g", long), None),
        (group_key(2, "g"), group_metadata_value(group)),
    ):
        with pytest.raises(UndecodableRecord):
            decode(key, value)


def test_text_that_postgres_cannot_store_is_replaced() -> None:
    key = struct.pack(">hh", 1, 4) + b"a\0\xffb" + struct.pack(">h", 3) + b"\xed\xa0\x80" + struct.pack(">i", 0)

    assert decode(key, None) == OffsetDeleted("a\ufffd\ufffdb", "\ufffd\ufffd\ufffd", 0)


@pytest.mark.parametrize(("sent", "stored"), [(2**62, LATEST_TIME_MS), (-5, 0)])
def test_expiry_that_postgres_cannot_store_is_the_nearest_that_it_can(sent: int, stored: int) -> None:
    """Clients before Kafka 2.1 may keep an offset as long as they like."""
    commit = A_COMMIT._replace(expires_at_ms=sent)

    assert _decode_commit(commit, 1) == commit._replace(expires_at_ms=stored, leader_epoch=-1)


def test_metadata_that_postgres_cannot_store_are_replaced() -> None:
    for version in (3, 4):
        decoded = _decode_commit(A_COMMIT._replace(metadata="a\0b"), version)
        assert decoded == A_COMMIT._replace(metadata="a\ufffdb")


def _whole_records() -> list[tuple[bytes, bytes]]:
    member = ObservedMember("m", "i", "client", "/10.0.0.1", 10_000, 60_000, b"s", b"a")
    group = ObservedGroup("g", "consumer", 4, "range", "m", 1_763_900_000_000, (member,))
    commit = A_COMMIT._replace(metadata="m", expires_at_ms=1_763_900_060_000)
    topic_id = tags([(0, TOPIC.bytes)])
    subscription = [compact(None), compact(None), compact("c"), compact("h"), array([compact("t")]), compact(None)]
    member_fields = [*subscription, struct.pack(">i", 1), compact(None)]
    classic = b"\1" + struct.pack(">i", 10_000) + array([]) + tags()
    epoch = struct.pack(">i", 7)
    return [
        *((offset_commit_key("g", "t", 1), offset_commit_value(commit, version, topic_id)) for version in range(5)),
        *((group_key(2, "g"), group_metadata_value(group, version)) for version in range(5)),
        *((group_key(record_type, "g"), flexible_value(epoch)) for record_type in (3, 11, 17)),
        (group_key(6, "g"), flexible_value(epoch, tagged_fields=[(0, struct.pack(">q", 1))])),
        (group_key(5, "g", "m"), flexible_value(*member_fields, tagged_fields=[(0, classic)])),
        (group_key(7, "g", "m"), flexible_value(PARTITIONS)),
        (group_key(8, "g", "m"), flexible_value(struct.pack(">iib", 7, 6, 1), PARTITIONS, PARTITIONS)),
    ]


@pytest.mark.parametrize(("key", "value"), _whole_records())
def test_a_key_that_ends_too_early_is_undecodable(key: bytes, value: bytes) -> None:
    decode(key, value)
    for length in range(len(key)):
        with pytest.raises(UndecodableRecord):
            decode(key[:length], value)
        with pytest.raises(UndecodableRecord):
            decode(key[:length], None)


@pytest.mark.parametrize(("key", "value"), _whole_records()[:10])
def test_a_commit_or_classic_group_that_ends_too_early_is_undecodable(key: bytes, value: bytes) -> None:
    for length in range(len(value)):
        with pytest.raises(UndecodableRecord):
            decode(key, value[:length])


@pytest.mark.parametrize(("key", "value"), _whole_records())
def test_any_byte_may_be_wrong(key: bytes, value: bytes) -> None:
    for at in range(len(value)):
        with suppress(UndecodableRecord):
            decode(key, value[:at])
        for wrong in (0, 1, 0x7F, 0x80, 0xFF):
            with suppress(UndecodableRecord):
                decode(key, value[:at] + bytes([wrong]) + value[at + 1 :])


@unhurried
@given(st.integers(-1, 24), st.binary(max_size=60), st.none() | st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_the_error(record_type: int, key: bytes, value: bytes | None) -> None:
    with suppress(UndecodableRecord):
        decode(struct.pack(">h", record_type) + key, value)


@unhurried
@given(st.integers(0, 23), st.integers(0, 5), st.binary(max_size=200))
def test_random_values_raise_nothing_but_the_error(record_type: int, version: int, value: bytes) -> None:
    key = offset_commit_key("g", "t", 1, record_type) if record_type < 2 else group_key(record_type, "g", "m")
    with suppress(UndecodableRecord):
        decode(key, struct.pack(">h", version) + value)


def test_what_must_not_be_null_is_undecodable_if_it_is() -> None:
    null, no_text = struct.pack(">i", -1), struct.pack(">h", -1)
    group = group_metadata_value(ObservedGroup("g", "consumer", 4, "range", "m", 1, ()))
    one_member = group[:-4] + struct.pack(">i", 1) + 4 * struct.pack(">h", 0) + struct.pack(">ii", 1, 1)
    for key, value in [
        (group_key(2, "g"), group[:-4] + null),
        (group_key(2, "g"), one_member + null + struct.pack(">i", 0)),
        (group_key(7, "g", "m"), flexible_value(b"\0")),
        (offset_commit_key("g", "t", 1), struct.pack(">hqi", 3, 1, 1) + no_text + struct.pack(">q", 1)),
        (struct.pack(">h", 2) + no_text, None),
    ]:
        with pytest.raises(UndecodableRecord):
            decode(key, value)
    assert isinstance(decode(group_key(2, "g"), one_member + struct.pack(">ii", 0, 0)), ObservedGroup)


def test_a_length_that_is_a_lie_reserves_no_memory() -> None:
    many = varint(2**31)
    with pytest.raises(UndecodableRecord):
        decode(group_key(7, "g", "m"), flexible_value(many))
    with pytest.raises(UndecodableRecord):
        decode(group_key(6, "g"), struct.pack(">hi", 0, 7) + many)


def test_a_record_without_a_key_is_undecodable() -> None:
    with pytest.raises(UndecodableRecord, match="no key"):
        decode(None, b"")


def _decode_commit(commit: ObservedCommit, version: int) -> Decoded | None:
    key = offset_commit_key(commit.group_id, commit.topic, commit.partition)
    return decode(key, offset_commit_value(commit, version))
