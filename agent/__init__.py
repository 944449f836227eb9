"""The client that people put into their consumers; it needs an HTTP client and nothing else of Muster's."""

from agent.assignors import Assignor, Member
from agent.consumer import ConsumerAgent
from agent.errors import (
    AgentClosed,
    AgentError,
    CommitFailed,
    ConcurrentUse,
    FencedInstanceId,
    GroupMaxSizeReached,
    NoOffsetForPartition,
    OffsetsRefused,
    RebalanceInProgress,
    RejoinError,
    RequestError,
    RetryError,
)
from agent.partitions import OffsetAndMetadata, TopicPartition

__all__ = [
    "AgentClosed",
    "AgentError",
    "Assignor",
    "CommitFailed",
    "ConcurrentUse",
    "ConsumerAgent",
    "FencedInstanceId",
    "GroupMaxSizeReached",
    "Member",
    "NoOffsetForPartition",
    "OffsetAndMetadata",
    "OffsetsRefused",
    "RebalanceInProgress",
    "RejoinError",
    "RequestError",
    "RetryError",
    "TopicPartition",
]
