"""What Kafka's own classes have encoded, in each version, is decoded (`scripts/record_kafka_encodings.py`)."""

import base64
import json
from uuid import UUID

import pytest

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
from mirror.observed import ObservedCommit, ObservedGroup, ObservedMember
from mirror.offsets_topic import Decoded, decode
from tests.unit.mirror.recorded_log import DATA

TIME_MS = 1_763_900_000_000
PARTITIONS = (TopicIdPartitions(UUID("5f1f5a3e-70a3-4ee9-9a55-4a8e0cf5b0a1"), (0, 2)),)
COMMIT = ObservedCommit("g", "orders", 3, 42, 7, "host 1", TIME_MS, None)
MEMBER = ObservedMember("m", "i", "client", "/10.0.0.1", 10_000, 60_000, b"subscription", b"assignment")
CONSUMER_MEMBER = Subscription("i", "client", "/10.0.0.1", 60_000, ("orders", "refunds"), "eu-.*", "range", 10_000)
SHARE_MEMBER = Subscription(None, "client", "/10.0.0.1", None, ("orders",), None, None, None)
STREAMS_MEMBER = Subscription("i", "client", "/10.0.0.1", 60_000, (), None, None, None)


def _group(version: int) -> ObservedGroup:
    """Return the group as far as a version has it."""
    members: tuple[ObservedMember, ...] = (MEMBER, MEMBER._replace(member_id="n", group_instance_id=None))
    if version < 3:
        members = tuple(member._replace(group_instance_id=None) for member in members)
    if version < 1:
        members = tuple(member._replace(rebalance_timeout_ms=10_000) for member in members)
    return ObservedGroup("g", "consumer", 4, "range", "m", TIME_MS if version >= 2 else None, members)


def _commit(version: int) -> ObservedCommit:
    """Return the commit as far as a version has it."""
    expires_at_ms = TIME_MS + 60_000 if version == 1 else None
    return COMMIT._replace(leader_epoch=7 if version >= 3 else -1, expires_at_ms=expires_at_ms)


def _others() -> dict[str, Decoded]:
    reconciliation = Reconciliation(7, is_stable=False, assigned=(), pending_revocation=())
    records: dict[str, Decoded] = {
        "LegacyOffsetCommit": _commit(0),
        "ConsumerGroupMemberMetadata": MemberSubscription(GroupType.CONSUMER, "g", "m", CONSUMER_MEMBER),
        "ShareGroupMemberMetadata": MemberSubscription(GroupType.SHARE, "g", "m", SHARE_MEMBER),
        "StreamsGroupMemberMetadata": MemberSubscription(GroupType.STREAMS, "g", "m", STREAMS_MEMBER),
        "ConsumerGroupTargetAssignmentMember": TargetAssignment("g", "m", PARTITIONS),
        "ConsumerGroupRegularExpression": ResolvedRegex("g", "eu-.*", ("eu-1",)),
    }
    for group_type in GroupType:
        name = group_type.value.capitalize()
        of_consumer = reconciliation._replace(assigned=PARTITIONS, pending_revocation=PARTITIONS)
        of_others = reconciliation._replace(is_stable=group_type is GroupType.STREAMS)  # 1 is "stable" in these only
        reached = of_consumer if group_type is GroupType.CONSUMER else of_others
        records[f"{name}GroupMetadata"] = GroupEpoch(group_type, "g", 7)
        records[f"{name}GroupTargetAssignmentMetadata"] = TargetAssignmentEpoch(group_type, "g", 7, TIME_MS)
        records[f"{name}GroupCurrentMemberAssignment"] = CurrentAssignment(group_type, "g", "m", reached)
    return records


EXPECTED = {
    **{("OffsetCommit", version): _commit(version) for version in range(5)},
    **{("GroupMetadata", version): _group(version) for version in range(5)},
    **{(name, 0): record for name, record in _others().items()},
}
ENCODED = {
    (line["record"], line["version"]): (base64.b64decode(line["key"]), base64.b64decode(line["value"]))
    for line in map(json.loads, (DATA / "encodings.jsonl").read_text().splitlines())
}


def test_every_record_was_recorded() -> None:
    assert ENCODED.keys() == EXPECTED.keys()


@pytest.mark.parametrize(("record", "version"), EXPECTED)
def test_a_record_is_decoded_as_kafka_has_encoded_it(record: str, version: int) -> None:
    assert decode(*ENCODED[record, version]) == EXPECTED[record, version]
