"""Conditions that sensors wait for: each reads a group once, and returns whether it is met.

Plain values, so that a trigger can be stored and started again by another triggerer.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from muster_airflow.client import (
    InvalidConnection,
    Json,
    MusterClient,
    NodesUnavailable,
    NodesUnusable,
    RequestRefused,
    group_path,
)

DEAD = "Dead"
STATES = frozenset({"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"})
GROUP_NOT_FOUND = "GROUP_ID_NOT_FOUND"
NAMED_PARTITIONS = 5
"""How many partitions a log line names."""


class GroupNotFound(Exception):
    """The group does not exist, or was deleted."""


FINAL_FAILURES = (GroupNotFound, InvalidConnection, NodesUnusable, RequestRefused)
"""What ends a wait: a later look fails likewise."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a look at a group found."""

    is_met: bool
    text: str
    """The present state and the target, in one sentence."""
    result: Json
    """What the sensor returns when the condition is met; empty if the group could not be read."""
    is_answered: bool = True
    """Whether a node answered."""


class Log(Protocol):
    """A logger of Python or structlog."""

    def info(self, text: str, /) -> object:
        """Log progress."""
        ...

    def warning(self, text: str, /) -> object:
        """Log what is wrong."""
        ...


class Condition(Protocol):
    """A condition on one group."""

    async def look(self, client: MusterClient) -> Progress:
        """Read the group.

        Raises:
            GroupNotFound: the group does not exist.
            RequestRefused: the request would be refused again.
            NodesUnavailable: no node could answer; look again later.
            NodesUnusable: no node ever will, unless the connection is corrected.
        """
        ...


@dataclass(frozen=True, slots=True)
class StateCondition:
    """The group is in one of these states."""

    group_id: str
    states: Collection[str]

    def __post_init__(self) -> None:
        """Check the states, whose names are Kafka's."""
        if unknown := set(self.states) - STATES:
            raise ValueError(f"states: {', '.join(sorted(unknown))} is not among {', '.join(sorted(STATES))}")
        if not self.states:
            raise ValueError("states: name at least one")

    async def look(self, client: MusterClient) -> Progress:
        """Read the group's state."""
        state = await _state_of(self.group_id, client)
        text = f"Group {self.group_id} is {state} (target: {' or '.join(sorted(self.states))})."
        return Progress(state in self.states, text, {"group_id": self.group_id, "state": state})


@dataclass(frozen=True, slots=True)
class LagCondition:
    """The group's lag is known, and within the limits. A lower bound counts as unknown."""

    group_id: str
    topics: Collection[str] = ()
    """Only these, each of which must have a partition; empty: all."""
    max_lag: int | None = 0
    """Limit of the sum over the partitions, in records; None: no limit."""
    max_lag_seconds: float | None = None
    """Limit for each partition; None: no limit."""

    def __post_init__(self) -> None:
        """Check that there is a limit."""
        if self.max_lag is None and self.max_lag_seconds is None:
            raise ValueError("max_lag and max_lag_seconds are both None: set one of them")

    async def look(self, client: MusterClient) -> Progress:
        """Read the group's state and lag."""
        state = await _state_of(self.group_id, client)
        lag = await client.get_pages(group_path(self.group_id, "/lag"), "partitions")
        return self.judge(state, lag["partitions"])

    def judge(self, state: str, partitions: Collection[Mapping[str, Any]]) -> Progress:
        """Return whether partitions, as in the response of `GET …/lag`, meet the condition."""
        chosen = [each for each in partitions if not self.topics or each["topic"] in self.topics]
        unknown = [f"{each['topic']}-{each['partition']}" for each in chosen if not self._is_known(each)]
        unknown += sorted(set(self.topics) - {each["topic"] for each in chosen})
        lag = sum(each["lag"] or 0 for each in chosen)
        lag_seconds = max((each["lag_seconds"] or 0.0 for each in chosen), default=0.0)
        is_within = (self.max_lag is None or lag <= self.max_lag) and (
            self.max_lag_seconds is None or lag_seconds <= self.max_lag_seconds
        )
        return Progress(
            is_met=bool(chosen) and not unknown and is_within,
            text=f"Group {self.group_id} is {state}. Known lag: {self._describe(lag, lag_seconds)}."
            + ("" if chosen else " It has no committed offset to compare.")
            + (f" Unknown, or a lower bound: {_named(unknown)}." if unknown else ""),
            result={"group_id": self.group_id, "state": state, "lag": lag, "lag_seconds": lag_seconds},
        )

    def _is_known(self, partition: Mapping[str, Any]) -> bool:
        # Source: http-api.md "Lag": a stale log end makes both lags lower bounds, the other flag only the seconds.
        has_records = partition["lag"] is not None and not partition["is_log_end_stale"]
        has_seconds = partition["lag_seconds"] is not None and not partition["is_lag_lower_bound"]
        return (self.max_lag is None or has_records) and (self.max_lag_seconds is None or has_seconds)

    def _describe(self, lag: int, lag_seconds: float) -> str:
        records = "" if self.max_lag is None else f" (target: {self.max_lag})"
        seconds = "" if self.max_lag_seconds is None else f" (target: {self.max_lag_seconds:g})"
        return f"{lag} records{records}, {lag_seconds:.1f} seconds{seconds}"


async def look_once(
    condition: Condition, client: MusterClient, *, wait_for_group: bool, was_answered: bool = False
) -> Progress:
    """Look at a group; that no node answers, or with `wait_for_group` that there is no such group, is no error.

    Args:
        condition: what is waited for.
        client: the nodes.
        wait_for_group: whether the group may be missing.
        was_answered: whether a node has answered before. Then nodes that cannot be used are no error either: a proxy
            has no node at the moment, or a certificate is being replaced.

    Raises:
        GroupNotFound: the group does not exist.
        RequestRefused: the request would be refused again.
        NodesUnusable: no node ever will answer, unless the connection is corrected.
    """
    try:
        async with client.connected() as connected:
            return await condition.look(connected)
    except (NodesUnavailable, NodesUnusable) as failure:
        if isinstance(failure, NodesUnusable) and not was_answered:
            raise
        return Progress(is_met=False, text=str(failure), result={}, is_answered=False)
    except GroupNotFound as failure:
        if not wait_for_group:
            raise
        return Progress(is_met=False, text=f"{failure} Waiting for it.", result={})


def log_progress(log: Log, progress: Progress, previous: str) -> None:
    """Log what a look found; that no node answers as a warning, unless `previous`, the text before, is the same."""
    if progress.is_answered:
        log.info(progress.text)
    elif progress.text != previous:
        log.warning(progress.text)


async def _state_of(group_id: str, client: MusterClient) -> str:
    """Return the state of a group that exists."""
    try:
        state = str((await client.get(group_path(group_id)))["state"])
    except RequestRefused as refusal:
        if refusal.code == GROUP_NOT_FOUND:
            raise GroupNotFound(f"Group {group_id} does not exist.") from refusal
        raise
    if state == DEAD:
        raise GroupNotFound(f"Group {group_id} was deleted.")
    return state


def _named(partitions: list[str]) -> str:
    more = len(partitions) - NAMED_PARTITIONS
    return ", ".join(partitions[:NAMED_PARTITIONS]) + (f" and {more} more" if more > 0 else "")
