"""Every error that an agent raises tells by its class what the caller can do about it.

    AgentError                 whatever goes wrong in an agent
    ├── RequestError           the same call will never work: change something first
    ├── RejoinError            the membership is out of date; poll() puts it right by itself
    │   └── CommitFailed       the partitions may be another member's by now: do not repeat the commit
    ├── RetryError             nothing is wrong with the call: make it again later
    ├── NoOffsetForPartition   nothing is committed, and auto_offset_reset is "none"
    ├── OffsetsRefused         single partitions of a commit were refused
    ├── AgentClosed            the agent was closed before
    └── ConcurrentUse          a second thread called while one was inside

Errors that the coordinator answered carry Kafka's own name in `code`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent.partitions import TopicPartition


@dataclass(frozen=True, slots=True)
class Problem:
    """What the coordinator said when it refused a call; empty for errors that never reached it.

    Source: RFC 9457, with the members that Muster adds.
    """

    code: str = ""
    kafka_code: int = -1
    status: int = 0
    action: str = ""
    detail: str = ""
    retry_after_s: float = 0.0
    member_id: str = ""
    coordinator: str = ""
    request_id: str = ""


class AgentError(Exception):
    """Something went wrong in an agent; the subclass says what to do about it."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem or Problem()

    @property
    def code(self) -> str:
        """Return Kafka's name of the error, or "" when it did not come from a coordinator."""
        return self.problem.code

    @property
    def action(self) -> str:
        """Return the coordinator's own advice: fix, rejoin, retry, or ""."""
        return self.problem.action

    @property
    def retry_after_s(self) -> float:
        """Return the seconds that the coordinator asks to be left alone; 0 when it named none."""
        return self.problem.retry_after_s


class RequestError(AgentError):
    """The same call will never work; something must be changed first."""


class InvalidRequest(RequestError):
    """The coordinator could not accept the request's form."""


class InvalidGroupId(RequestError):
    """The group id is empty or too long."""


class InvalidSessionTimeout(RequestError):
    """The session timeout lies outside the bounds that the coordinator sets."""


class InconsistentGroupProtocol(RequestError):
    """The other members share no assignor, or no protocol type, with this one."""


class GroupMaxSizeReached(RequestError):
    """The group is full; poll() may be called again later."""


class FencedInstanceId(RequestError):
    """Another process has taken this group_instance_id over; this agent is out for good."""


class GroupIdNotFound(RequestError):
    """There is no such group (any more)."""


class NotAuthorized(RequestError):
    """The token is missing, unknown, or may not touch this group."""


class RejoinError(AgentError):
    """The membership is out of date; the next poll() joins again."""


class UnknownMemberId(RejoinError):
    """The coordinator does not know this member (any more)."""


class IllegalGeneration(RejoinError):
    """The group has moved on to another generation."""


class RebalanceInProgress(RejoinError):
    """The group is rebalancing; poll(), and then commit what is still assigned."""


class MemberIdRequired(RejoinError):
    """The coordinator gave an id, and wants the join again with it."""


class CommitFailed(RejoinError):
    """The commit was refused, since the group has moved on: another member may own the partitions by now."""


class RetryError(AgentError):
    """The call may simply be made again, after a pause."""


class CoordinatorNotAvailable(RetryError):
    """Nobody coordinates the group at this moment."""


class CoordinatorLoadInProgress(RetryError):
    """The coordinator is still loading the group."""


class NotCoordinator(RetryError):
    """Another node coordinates the group."""


class ThrottlingQuotaExceeded(RetryError):
    """The coordinator has more to do than it takes on."""


class Unreachable(RetryError):
    """No answer came that could be read; what was asked may have been done or not."""

    def __init__(self, message: str, *, was_connected: bool) -> None:
        super().__init__(message)
        self.was_connected = was_connected


class NoOffsetForPartition(AgentError):
    """Nothing is committed for a partition, and auto_offset_reset is "none": seek() it."""

    def __init__(self, partitions: tuple[TopicPartition, ...]) -> None:
        names = ", ".join(str(partition) for partition in partitions)
        super().__init__(f"nothing is committed for {names}, and auto_offset_reset is 'none'; seek() to begin there")
        self.partitions = partitions


class OffsetsRefused(AgentError):
    """Single partitions of a commit were refused; the others are stored."""

    def __init__(self, codes: Mapping[TopicPartition, str]) -> None:
        named = ", ".join(f"{partition}: {code}" for partition, code in sorted(codes.items()))
        super().__init__(f"not committed: {named}")
        self.codes = dict(codes)


class AgentClosed(AgentError):
    """The agent was closed before; make another one."""


class ConcurrentUse(AgentError):
    """A second thread called while one was inside; an agent is for one thread at a time, wakeup() aside."""


CLASSES: Final[Mapping[str, type[AgentError]]] = {
    "INVALID_REQUEST": InvalidRequest,
    "INVALID_GROUP_ID": InvalidGroupId,
    "INVALID_SESSION_TIMEOUT": InvalidSessionTimeout,
    "INCONSISTENT_GROUP_PROTOCOL": InconsistentGroupProtocol,
    "GROUP_MAX_SIZE_REACHED": GroupMaxSizeReached,
    "FENCED_INSTANCE_ID": FencedInstanceId,
    "GROUP_ID_NOT_FOUND": GroupIdNotFound,
    "GROUP_AUTHORIZATION_FAILED": NotAuthorized,
    "UNKNOWN_MEMBER_ID": UnknownMemberId,
    "ILLEGAL_GENERATION": IllegalGeneration,
    "REBALANCE_IN_PROGRESS": RebalanceInProgress,
    "MEMBER_ID_REQUIRED": MemberIdRequired,
    "COORDINATOR_NOT_AVAILABLE": CoordinatorNotAvailable,
    "COORDINATOR_LOAD_IN_PROGRESS": CoordinatorLoadInProgress,
    "NOT_COORDINATOR": NotCoordinator,
    "THROTTLING_QUOTA_EXCEEDED": ThrottlingQuotaExceeded,
}


def from_problem(problem: Problem) -> AgentError:
    """Return the typed error of a refusal.

    A code that this version does not know is judged by the coordinator's `action`, and without one by the status.
    """
    message = f"{problem.code or problem.status}: {problem.detail or 'no detail given'}"
    return _class_of(problem)(message, problem)


def _class_of(problem: Problem) -> type[AgentError]:
    if problem.code in CLASSES:
        return CLASSES[problem.code]
    if problem.status in (401, 403):
        return NotAuthorized
    if problem.action == "rejoin":
        return RejoinError
    if problem.action == "retry" or (not problem.action and _is_passing(problem.status)):
        return RetryError
    return RequestError


def _is_passing(status: int) -> bool:
    return status >= 500 or status in (408, 421, 425, 429)
