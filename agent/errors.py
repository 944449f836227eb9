"""Errors of the agent; the class says what the caller can do.

    AgentError                 base class
    ├── RequestError           the same call will never succeed: change something first
    ├── RejoinError            the membership is out of date; the next poll() rejoins
    │   └── CommitFailed       another member may own the partitions: do not repeat the commit
    ├── RetryError             a temporary failure: repeat the call later
    ├── NoOffsetForPartition   nothing is committed, and auto_offset_reset has no position
    ├── OffsetsRefused         some partitions of a commit were rejected
    ├── AgentClosed            the agent is closed
    └── ConcurrentUse          a second thread or a forked process called the agent

Errors of the coordinator carry Kafka's name of the error in `code`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.partitions import TopicPartition


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem details of an error response; empty for errors without a response.

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
    """Base class of the agent's errors; the subclass says what to do."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem or Problem()

    @property
    def code(self) -> str:
        """Kafka's name of the error, or "" if it did not come from a coordinator."""
        return self.problem.code

    @property
    def action(self) -> str:
        """The action that the coordinator advises: fix, rejoin, retry, or ""."""
        return self.problem.action

    @property
    def retry_after_s(self) -> float:
        """The Retry-After of the response in seconds; 0 if it has none."""
        return self.problem.retry_after_s


class RequestError(AgentError):
    """The same call will never succeed; change something first."""


class InvalidRequest(RequestError):
    """The request is malformed."""


class InvalidGroupId(RequestError):
    """The group id is empty or too long."""


class InvalidSessionTimeout(RequestError):
    """The session timeout is outside the coordinator's bounds."""


class InconsistentGroupProtocol(RequestError):
    """This member shares no assignor, or no protocol type, with the other members."""


class GroupMaxSizeReached(RequestError):
    """The group has its maximum number of members; call poll() again later."""


class FencedInstanceId(RequestError):
    """Another process uses this group_instance_id now; this agent cannot rejoin."""


class GroupIdNotFound(RequestError):
    """The group does not exist."""


class NotAuthorized(RequestError):
    """The token is missing, unknown, or has no permission for this group."""


class RejoinError(AgentError):
    """The membership is out of date; the next poll() joins again."""


class UnknownMemberId(RejoinError):
    """The member id is unknown to the coordinator."""


class IllegalGeneration(RejoinError):
    """The generation is not the group's current one."""


class RebalanceInProgress(RejoinError):
    """The group is rebalancing; call poll(), then commit the partitions that are still assigned."""


class MemberIdRequired(RejoinError):
    """The coordinator issued a member id; the join must be repeated with it."""


class CommitFailed(RejoinError):
    """The commit was rejected after a rebalance; another member may own the partitions."""


class RetryError(AgentError):
    """A temporary failure; repeat the call after a pause."""


class CoordinatorNotAvailable(RetryError):
    """No node coordinates the group now."""


class CoordinatorLoadInProgress(RetryError):
    """The coordinator is still loading the group."""


class NotCoordinator(RetryError):
    """Another node coordinates the group."""


class Unreachable(RetryError):
    """No readable response; the request may or may not have been processed."""

    def __init__(self, message: str, *, was_connected: bool) -> None:
        super().__init__(message)
        self.was_connected = was_connected


class NoOffsetForPartition(AgentError):
    """Nothing is committed for these partitions, and auto_offset_reset is "none", or "latest" and the end not known."""

    def __init__(self, partitions: tuple[TopicPartition, ...], reason: str = "auto_offset_reset is 'none'") -> None:
        names = ", ".join(str(partition) for partition in partitions)
        super().__init__(f"no committed offset for {names}, and {reason}; call seek() to set a position")
        self.partitions = partitions


class OffsetsRefused(AgentError):
    """Some partitions of a commit were rejected; the others are stored."""

    def __init__(self, codes: Mapping[TopicPartition, str]) -> None:
        named = ", ".join(f"{partition}: {code}" for partition, code in sorted(codes.items()))
        super().__init__(f"not committed: {named}")
        self.codes = dict(codes)

    def of(self, partitions: Iterable[TopicPartition]) -> OffsetsRefused | None:
        """Return the error of some of the partitions; None if they are stored."""
        codes = {each: self.codes[each] for each in partitions if each in self.codes}
        return OffsetsRefused(codes) if codes else None


class AgentClosed(AgentError):
    """The agent is closed; create another one."""


class ConcurrentUse(AgentError):
    """A second thread or a forked process called the agent; only wakeup() may be called from any thread."""


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
}


def from_problem(problem: Problem) -> AgentError:
    """Return the typed error of an error response.

    An unknown code is classified by `action`, and without one by the HTTP status.
    """
    message = f"{problem.code or problem.status}: {problem.detail or 'no detail'}"
    return _class_of(problem)(message, problem)


def _class_of(problem: Problem) -> type[AgentError]:
    if problem.code in CLASSES:
        return CLASSES[problem.code]
    if problem.status in (401, 403):
        return NotAuthorized
    if problem.action == "rejoin":
        return RejoinError
    if problem.action == "retry" or (not problem.action and _is_transient(problem.status)):
        return RetryError
    return RequestError


def _is_transient(status: int) -> bool:
    return status >= 500 or status in (408, 421, 425, 429)
