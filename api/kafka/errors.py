"""Kafka's error codes of the coordinator's errors, by API: where clients fail on a code, one that they handle.

Java's consumer gives up when a sync is answered COORDINATOR_LOAD_IN_PROGRESS, and sarama's when a join or a sync is
answered COORDINATOR_NOT_AVAILABLE; both look the coordinator up again, or join again, after the errors given here.
Older consumers of Java's, and aiokafka's, give up when a fetch of offsets is answered COORDINATOR_NOT_AVAILABLE.
Consumers do not know POLICY_VIOLATION, and report what is given in its place; nor GROUP_ID_NOT_FOUND of a commit, which
ends an application of Java's, where ILLEGAL_GENERATION lets it join again. Kafka answers that below version 9.

Source: Java's AbstractCoordinator, librdkafka's rdkafka_cgrp.c, sarama's consumer_group.go.
"""

from typing import Final

from api.kafka.apis import ApiKey
from api.shared.errors import ThrottlingQuotaExceeded, TopicAuthorizationFailed
from coordinator_core.protocol.errors import (
    CoordinatorError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    NotCoordinator,
    PolicyViolation,
    RebalanceInProgress,
    UnknownTopicOrPartition,
)

UNSUPPORTED_VERSION: Final = 35
UNSUPPORTED_SASL_MECHANISM: Final = 33
SASL_AUTHENTICATION_FAILED: Final = 58
TOPIC_AUTHORIZATION_FAILED: Final = TopicAuthorizationFailed.kafka_code
OFFSET_OUT_OF_RANGE: Final = 1
NOT_LEADER_OR_FOLLOWER: Final = 6
INVALID_TOPIC: Final = 17
INVALID_TIMESTAMP: Final = 32
INVALID_REQUEST: Final = 42
UNKNOWN_TOPIC_OR_PARTITION: Final = UnknownTopicOrPartition.kafka_code
UNKNOWN_TOPIC_ID: Final = 100
MISMATCHED_ENDPOINT_TYPE: Final = 114
UNSUPPORTED_ENDPOINT_TYPE: Final = 115
INVALID_COMMIT_OFFSET_SIZE: Final = 28

_INSTEAD: Final = {
    (ApiKey.JOIN_GROUP, CoordinatorNotAvailable.kafka_code): NotCoordinator.kafka_code,
    (ApiKey.SYNC_GROUP, CoordinatorNotAvailable.kafka_code): NotCoordinator.kafka_code,
    (ApiKey.SYNC_GROUP, CoordinatorLoadInProgress.kafka_code): RebalanceInProgress.kafka_code,
    (ApiKey.OFFSET_FETCH, CoordinatorNotAvailable.kafka_code): NotCoordinator.kafka_code,
    (ApiKey.OFFSET_COMMIT, GroupIdNotFound.kafka_code): IllegalGeneration.kafka_code,
    (ApiKey.JOIN_GROUP, PolicyViolation.kafka_code): GroupMaxSizeReached.kafka_code,
    (ApiKey.OFFSET_COMMIT, PolicyViolation.kafka_code): INVALID_COMMIT_OFFSET_SIZE,
    (ApiKey.JOIN_GROUP, ThrottlingQuotaExceeded.kafka_code): CoordinatorLoadInProgress.kafka_code,
    (ApiKey.SYNC_GROUP, ThrottlingQuotaExceeded.kafka_code): RebalanceInProgress.kafka_code,
}


def error_code(api_key: int, error: CoordinatorError) -> int:
    """Return the code with which an API answers an error."""
    return _INSTEAD.get((ApiKey(api_key), error.kafka_code), error.kafka_code)
