"""Every limit of an agent has a name, a default and a bound, and is checked before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypedDict

MAX_GROUP_ID_LENGTH = 255
MAX_CLIENT_ID_LENGTH = 200
MAX_TOPIC_LENGTH = 249


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
    """The times and limits an agent keeps to; Kafka's names and defaults where Kafka has them.

    Attributes:
        session_timeout_ms: silence after which the coordinator takes the member for dead.
        heartbeat_interval_ms: the longest pause between heartbeats; None leaves it to the coordinator.
        max_poll_interval_ms: time without a poll() after which the agent gives its partitions up; it is also the
            rebalance timeout, the time that members have for rejoining.
        auto_commit_interval_ms: how often positions are committed when auto-commit is on.
        log_end_report_interval_ms: how often the end of a partition is reported, with what was last committed, when no
            commit has; with end_offset_of, and while poll() or wait() is called.
        metadata_max_age_ms: how often a leader asks whether partition counts have changed.
        connect_timeout_ms: how long to wait for a connection.
        request_timeout_ms: how long to wait for one answer.
        api_timeout_ms: how long commit() and committed() keep trying.
        long_poll_ms: how long a join or a sync is left waiting at the coordinator before it is asked again.
        retry_backoff_ms, retry_backoff_max_ms: the first and the longest pause between attempts.
        coordinator_retry_ms: how long an owner that could not be reached is spared before it is tried again.
        max_partitions_per_request: the most partitions in one commit or fetch; larger ones are split.
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
            ValueError: naming the setting and its bound.
        """
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and value < 1:
                raise ValueError(f"{each.name} must be at least 1, and is {value}")
        if self.heartbeat_interval_ms is not None and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be below "
                f"session_timeout_ms ({self.session_timeout_ms})"
            )


def check_name(what: str, name: str, max_length: int) -> str:
    """Return the name if it can stand in a request.

    Raises:
        ValueError: when it is empty, longer than max_length characters, or holds NUL or an unpaired surrogate.
    """
    if not name or len(name) > max_length:
        raise ValueError(f"a {what} has 1 to {max_length} characters, and this one has {len(name)}")
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise ValueError(f"a {what} holds no NUL and no unpaired surrogate")
    return name


def check_token(token: str) -> str:
    """Return the token if it can stand in a request.

    Raises:
        ValueError: when it has line breaks, control characters or letters beyond ASCII; it is not shown.
    """
    if not (token.isascii() and token.isprintable()):
        raise ValueError("a token is one line of printable ASCII; muster token new prints it on a line of its own")
    return token
