"""Settings of the agent: names, defaults and bounds of its timeouts and limits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypedDict

from agent.partitions import whole_number

MAX_GROUP_ID_LENGTH = 255
MAX_CLIENT_ID_LENGTH = 200
MAX_INSTANCE_ID_LENGTH = 249
MAX_TOPIC_LENGTH = 249
MAX_ASSIGNOR_NAME_LENGTH = 249


class TimingOptions(TypedDict, total=False):
    """The fields of `Timing` as keyword arguments."""

    session_timeout_ms: int
    heartbeat_interval_ms: int | None
    max_poll_interval_ms: int
    auto_commit_interval_ms: int
    log_end_report_interval_ms: int
    metadata_max_age_ms: int
    connect_timeout_ms: int
    request_timeout_ms: int
    api_timeout_ms: int
    long_poll_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    coordinator_retry_ms: int
    max_partitions_per_request: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Timeouts and limits; Kafka's names and defaults where Kafka has them.

    Attributes:
        session_timeout_ms: time without a heartbeat after which the coordinator evicts the member.
        heartbeat_interval_ms: the longest pause between heartbeats; None leaves it to the coordinator.
        max_poll_interval_ms: time without a poll() after which the agent leaves the group; it is also the rebalance
            timeout, the time that members have to rejoin.
        auto_commit_interval_ms: how often positions are committed when auto-commit is on.
        log_end_report_interval_ms: how often the log end offset of a partition is reported when no commit does; needs
            end_offset_of, and calls of poll() or wait().
        metadata_max_age_ms: how often a leader checks for changed partition counts.
        connect_timeout_ms: timeout of one connection attempt.
        request_timeout_ms: timeout of one request.
        api_timeout_ms: timeout of commit() and committed(), retries included.
        long_poll_ms: how long a join or sync waits at the coordinator before it is repeated.
        retry_backoff_ms, retry_backoff_max_ms: the first and the longest pause between retries.
        coordinator_retry_ms: how long an unreachable coordinator is avoided before it is tried again.
        max_partitions_per_request: maximum number of partitions in one commit or fetch; larger ones are split.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int = 300_000
    auto_commit_interval_ms: int = 5_000
    log_end_report_interval_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    connect_timeout_ms: int = 5_000
    request_timeout_ms: int = 10_000
    api_timeout_ms: int = 60_000
    long_poll_ms: int = 20_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 5_000
    coordinator_retry_ms: int = 30_000
    max_partitions_per_request: int = 10_000

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            ValueError: a value is no whole number or out of bounds; the message names the setting and its bound.
        """
        for each in fields(self):
            given = getattr(self, each.name)
            if given is None and each.default is None:
                continue
            value = whole_number(each.name, given)
            object.__setattr__(self, each.name, value)
            if value < 1:
                raise ValueError(f"{each.name} must be at least 1, and is {value}")
        if self.heartbeat_interval_ms is not None and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be below "
                f"session_timeout_ms ({self.session_timeout_ms})"
            )


def check_name(what: str, name: object, max_length: int) -> str:
    """Return the name if it is valid in a request.

    Raises:
        ValueError: when it is not a string, empty, longer than max_length characters, or holds NUL or an unpaired
            surrogate.
    """
    if not isinstance(name, str):
        raise ValueError(f"a {what} must be a string, and is {name!r}")
    if not name or len(name) > max_length:
        raise ValueError(f"a {what} must have 1 to {max_length} characters, and has {len(name)}")
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise ValueError(f"a {what} must not contain NUL or an unpaired surrogate")
    return name


def check_token(token: object) -> str:
    """Return the token if it is valid in a header.

    Raises:
        ValueError: when it is empty, or has line breaks, control characters or letters beyond ASCII; it is not shown.
    """
    if not (isinstance(token, str) and token and token.isascii() and token.isprintable()):
        raise ValueError("a token is one line of printable ASCII; muster token new prints it on a line of its own")
    return token
