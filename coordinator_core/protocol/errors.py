"""Errors of the protocol: Kafka's names and numbers, grouped by what the caller should do.

``fix``: the same request will never succeed. ``rejoin``: the membership changed, join again. ``retry``: the same
request may succeed in a moment. None of them changes the group, with one exception (protocol.md section 5 step 4): a
rejoin refused over the size limit removes the member, and the decision has a record of that.

Source: Kafka's ``Errors`` for names and numbers; http-api.md "Errors" for the actions.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

Action = Literal["fix", "rejoin", "retry"]

READ_ONLY_MIRROR: Final = "the groups here are those of a mirrored Kafka cluster, which are changed there and not here"
"""The detail of InvalidRequest for a request that would change a group of a mirror."""


class CoordinatorError(Exception):
    """An error that a caller may see; raise a subclass, never this."""

    code: ClassVar[str]
    kafka_code: ClassVar[int]
    action: ClassVar[Action]

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail


class RequestError(CoordinatorError):
    """The same request will never succeed."""

    action = "fix"


class RejoinError(CoordinatorError):
    """The membership changed; the member has to join again."""

    action = "rejoin"


class RetryError(CoordinatorError):
    """The same request may succeed in a moment, perhaps at another node."""

    action = "retry"


# -- fix ------------------------------------------------------------------------------------------


class UnknownTopicOrPartition(RequestError):
    code, kafka_code = "UNKNOWN_TOPIC_OR_PARTITION", 3


class OffsetMetadataTooLarge(RequestError):
    code, kafka_code = "OFFSET_METADATA_TOO_LARGE", 12


class InconsistentGroupProtocol(RequestError):
    code, kafka_code = "INCONSISTENT_GROUP_PROTOCOL", 23


class InvalidGroupId(RequestError):
    code, kafka_code = "INVALID_GROUP_ID", 24


class InvalidSessionTimeout(RequestError):
    code, kafka_code = "INVALID_SESSION_TIMEOUT", 26


class InvalidRequest(RequestError):
    code, kafka_code = "INVALID_REQUEST", 42


class PolicyViolation(RequestError):
    """A client or a group has as many groups or offsets as it may have."""

    code, kafka_code = "POLICY_VIOLATION", 44


class NonEmptyGroup(RequestError):
    code, kafka_code = "NON_EMPTY_GROUP", 68


class GroupIdNotFound(RequestError):
    code, kafka_code = "GROUP_ID_NOT_FOUND", 69


class GroupMaxSizeReached(RequestError):
    code, kafka_code = "GROUP_MAX_SIZE_REACHED", 81


class FencedInstanceId(RequestError):
    code, kafka_code = "FENCED_INSTANCE_ID", 82


class GroupSubscribedToTopic(RequestError):
    code, kafka_code = "GROUP_SUBSCRIBED_TO_TOPIC", 86


# -- rejoin ---------------------------------------------------------------------------------------


class IllegalGeneration(RejoinError):
    code, kafka_code = "ILLEGAL_GENERATION", 22


class UnknownMemberId(RejoinError):
    code, kafka_code = "UNKNOWN_MEMBER_ID", 25


class RebalanceInProgress(RejoinError):
    code, kafka_code = "REBALANCE_IN_PROGRESS", 27


class MemberIdRequired(RejoinError):
    """The join of a pending member: join again with `member_id`."""

    code, kafka_code = "MEMBER_ID_REQUIRED", 79

    def __init__(self, member_id: str) -> None:
        super().__init__("join again with the member id given")
        self.member_id = member_id


# -- retry ----------------------------------------------------------------------------------------


class CoordinatorLoadInProgress(RetryError):
    code, kafka_code = "COORDINATOR_LOAD_IN_PROGRESS", 14


class CoordinatorNotAvailable(RetryError):
    code, kafka_code = "COORDINATOR_NOT_AVAILABLE", 15


class NotCoordinator(RetryError):
    """This node does not own the group's shard; `listeners` has the owner's addresses by listener, if it is known."""

    code, kafka_code = "NOT_COORDINATOR", 16

    def __init__(self, detail: str = "", listeners: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.listeners = listeners or {}
