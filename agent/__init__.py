"""The consumer client library; it depends on urllib3 and on the built-in assignors of `coordinator_core`."""

from agent.assignors import Assignor, Member
from agent.errors import (
    AgentClosed,
    AgentError,
    CommitFailed,
    ConcurrentUse,
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    NoOffsetForPartition,
    NotAuthorized,
    OffsetsRefused,
    RebalanceInProgress,
    RejoinError,
    RequestError,
    RetryError,
    Unreachable,
)
from agent.partitions import OffsetAndMetadata, TopicPartition
from agent.threaded.consumer import ConsumerAgent

__all__ = [
    "AgentClosed",
    "AgentError",
    "Assignor",
    "CommitFailed",
    "ConcurrentUse",
    "ConsumerAgent",
    "FencedInstanceId",
    "GroupIdNotFound",
    "GroupMaxSizeReached",
    "InconsistentGroupProtocol",
    "InvalidGroupId",
    "InvalidRequest",
    "InvalidSessionTimeout",
    "Member",
    "NoOffsetForPartition",
    "NotAuthorized",
    "OffsetAndMetadata",
    "OffsetsRefused",
    "RebalanceInProgress",
    "RejoinError",
    "RequestError",
    "RetryError",
    "TopicPartition",
    "Unreachable",
]
