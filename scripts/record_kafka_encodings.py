"""Recorder of `tests/data/offsets_topic/encodings.jsonl`: records as Kafka's own classes encode them, in each version.

    python -m scripts.record_kafka_encodings

A broker writes the newest versions only, and no tagged fields of later releases; these are all. The classes are those
of Kafka's module group-coordinator, called in a Java process that ends with this one.
"""

import base64
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import (  # type: ignore[import-untyped]  # comes without types
    GatewayParameters,
    JavaGateway,
    launch_gateway,
)

from tests.support.kafka_broker import KafkaUnavailable, fetch_jars, java_or_unavailable

VERSION: Final = "4.3.1"
ARTIFACT: Final = "kafka-group-coordinator"
FILE: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "offsets_topic" / "encodings.jsonl"

GROUP: Final = {"groupId": "g"}
MEMBER: Final = {"groupId": "g", "memberId": "m"}
PARTITION: Final = {"group": "g", "topic": "orders", "partition": 3}
TOPIC_ID: Final = "Xx9aPnCjTumaVUqODPWwoQ"
COMMIT: Final = {
    "offset": 42,
    "leaderEpoch": 7,
    "metadata": "host 1",
    "commitTimestamp": 1_763_900_000_000,
    "expireTimestamp": 1_763_900_060_000,
    "topicId": TOPIC_ID,
}
CLASSIC_MEMBER: Final = {
    "memberId": "m",
    "groupInstanceId": "i",
    "clientId": "client",
    "clientHost": "/10.0.0.1",
    "rebalanceTimeout": 60_000,
    "sessionTimeout": 10_000,
    "subscription": base64.b64encode(b"subscription").decode(),
    "assignment": base64.b64encode(b"assignment").decode(),
}
CLASSIC_GROUP: Final = {
    "protocolType": "consumer",
    "generation": 4,
    "protocol": "range",
    "leader": "m",
    "currentStateTimestamp": 1_763_900_000_000,
    "members": [CLASSIC_MEMBER, {**CLASSIC_MEMBER, "memberId": "n", "groupInstanceId": None}],
}
CONSUMER_MEMBER: Final = {
    "instanceId": "i",
    "rackId": "rack",
    "clientId": "client",
    "clientHost": "/10.0.0.1",
    "subscribedTopicNames": ["orders", "refunds"],
    "subscribedTopicRegex": "eu-.*",
    "rebalanceTimeoutMs": 60_000,
    "serverAssignor": "range",
    "classicMemberMetadata": {
        "sessionTimeoutMs": 10_000,
        "supportedProtocols": [{"name": "range", "metadata": base64.b64encode(b"subscription").decode()}],
    },
}
SHARE_MEMBER: Final = {
    "rackId": "rack",
    "clientId": "client",
    "clientHost": "/10.0.0.1",
    "subscribedTopicNames": ["orders"],
}
STREAMS_MEMBER: Final = {
    "instanceId": "i",
    "rackId": "rack",
    "clientId": "client",
    "clientHost": "/10.0.0.1",
    "rebalanceTimeoutMs": 60_000,
    "topologyEpoch": 1,
    "processId": "p",
    "userEndpoint": {"host": "h", "port": 9},
    "clientTags": [{"key": "k", "value": "v"}],
}
PARTITIONS: Final = [{"topicId": TOPIC_ID, "partitions": [0, 2], "assignmentEpochs": [6, 7]}]
RECONCILIATION: Final = {
    "memberEpoch": 7,
    "previousMemberEpoch": 6,
    "state": 1,
    "assignedPartitions": PARTITIONS,
    "partitionsPendingRevocation": PARTITIONS,
}
TASKS: Final = {
    f"{kind}Tasks{suffix}": [{"subtopologyId": "0", "partitions": [0], "assignmentEpochs": None}]
    for kind in ("active", "standby", "warmup")
    for suffix in ("", "PendingRevocation")
}
EPOCH: Final = {"epoch": 7, "metadataHash": 99, "validatedTopologyEpoch": 1, "lastAssignmentConfigs": None}
TARGET: Final = {"assignmentEpoch": 7, "assignmentTimestamp": 1_763_900_000_000}

RECORDS: Final[tuple[tuple[str, dict[str, Any], dict[str, Any], int], ...]] = (
    ("LegacyOffsetCommit", PARTITION, COMMIT, 0),
    ("OffsetCommit", PARTITION, COMMIT, 4),
    ("GroupMetadata", {"group": "g"}, CLASSIC_GROUP, 4),
    ("ConsumerGroupMetadata", GROUP, EPOCH, 0),
    ("ConsumerGroupMemberMetadata", MEMBER, CONSUMER_MEMBER, 0),
    ("ConsumerGroupTargetAssignmentMetadata", GROUP, TARGET, 0),
    ("ConsumerGroupTargetAssignmentMember", MEMBER, {"topicPartitions": PARTITIONS}, 0),
    ("ConsumerGroupCurrentMemberAssignment", MEMBER, RECONCILIATION, 0),
    (
        "ConsumerGroupRegularExpression",
        {**GROUP, "regularExpression": "eu-.*"},
        {"topics": ["eu-1"], "version": 3, "timestamp": 9},
        0,
    ),
    ("ShareGroupMemberMetadata", MEMBER, SHARE_MEMBER, 0),
    ("ShareGroupMetadata", GROUP, EPOCH, 0),
    ("ShareGroupTargetAssignmentMetadata", GROUP, TARGET, 0),
    ("ShareGroupCurrentMemberAssignment", MEMBER, RECONCILIATION, 0),
    ("StreamsGroupMetadata", GROUP, EPOCH, 0),
    ("StreamsGroupMemberMetadata", MEMBER, STREAMS_MEMBER, 0),
    ("StreamsGroupTargetAssignmentMetadata", GROUP, TARGET, 0),
    ("StreamsGroupCurrentMemberAssignment", MEMBER, {**RECONCILIATION, **TASKS}, 0),
)
"""Kafka's name of the record, the fields of the key and of the value, and the newest version of the value."""


def main() -> None:
    """Record all."""
    try:
        record()
    except KafkaUnavailable as missing:
        sys.exit(str(missing))


def record() -> None:
    """Write the records as a Java encodes them."""
    with tempfile.TemporaryDirectory() as name, _java(java_or_unavailable(Path(name))) as java:
        lines = [
            {"record": record, "version": version, **_encoded(java, record, key, value, version)}
            for record, key, value, newest in RECORDS
            for version in range(newest + 1)
        ]
    FILE.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _encoded(java: Any, record: str, key: object, value: object, version: int) -> dict[str, str]:  # noqa: ANN401 - comes without types
    to_json = java.com.fasterxml.jackson.databind.ObjectMapper()
    generated = java.org.apache.kafka.coordinator.group.generated
    message_util = java.org.apache.kafka.common.protocol.MessageUtil
    key_of = getattr(generated, f"{record}KeyJsonConverter").read(to_json.readTree(json.dumps(key)), 0)
    value_of = getattr(generated, f"{record}ValueJsonConverter").read(to_json.readTree(json.dumps(value)), version)
    return {
        "key": base64.b64encode(message_util.toCoordinatorTypePrefixedBytes(key_of)).decode(),
        "value": base64.b64encode(message_util.toVersionPrefixedBytes(version, value_of)).decode(),
    }


@contextmanager
def _java(java: str) -> Iterator[Any]:
    """Run a Java with Kafka's classes."""
    jars = fetch_jars(java, artifact=ARTIFACT, version=VERSION)
    spark = find_spec("pyspark")
    assert spark is not None, "Spark is installed with Muster's platform"
    assert spark.origin is not None, "a package has an origin"
    [py4j_jar] = (Path(spark.origin).parent / "jars").glob("py4j-*.jar")
    port, token = launch_gateway(
        classpath=f"{jars}/*", jarpath=str(py4j_jar), java_path=java, die_on_exit=True, enable_auth=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


if __name__ == "__main__":
    main()
