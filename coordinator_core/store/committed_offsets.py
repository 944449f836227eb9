"""Committed offsets and log ends of a group, now and over time: the values that the runtime computes lag from."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.retention import GroupFacts
from coordinator_core.protocol.states import STABLE, GroupState

COARSE_FACTOR: Final = 4
"""How much longer steps are before `coarse_until_ms`, where offsets only serve to compute lag in seconds."""


class PartitionOffset(NamedTuple):
    """A partition that a group has committed, or that a member owns, or both."""

    topic: str
    partition: int
    member_id: str | None
    client_id: str | None
    offset: int | None
    """None: no offset is committed, and the fields below are empty."""
    committed_at_ms: int | None
    expires_at_ms: int | None
    """The offset's own expiry, if any."""
    ends: tuple[LogEnd, ...]
    """The known log ends that `lag_at` needs, by time and never decreasing; the last is the highest."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """All partitions of a group, by topic and partition, and the facts that the retention of offsets depends on."""

    facts: GroupFacts
    partitions: list[PartitionOffset]


def retention_facts_of(
    state: str, protocol_type: str | None, state_since_ms: int | None, topics: Iterable[str] | None
) -> GroupFacts:
    """Return the facts that the retention of a group's offsets depends on.

    A group with an invalid state is quarantined. It counts as Stable, so its offsets do not expire.
    """
    known = GroupState(state) if state in set(GroupState) else STABLE
    return GroupFacts(known, protocol_type, state_since_ms, None if topics is None else frozenset(topics))


class LaggingOffset(NamedTuple):
    """A committed offset that lags behind the known end of its log."""

    group_id: str
    topic: str
    partition: int
    offset: int
    ends: tuple[LogEnd, ...]
    """As in `PartitionOffset`."""


class PastOffset(NamedTuple):
    """A partition's committed offset from a time on; `offset` None: it was removed."""

    topic: str
    partition: int
    at_ms: int
    offset: int | None
    log_end_offset: int | None


class PastLogEnd(NamedTuple):
    """The log end offset of a partition at a time, from a trusted reporter."""

    topic: str
    partition: int
    at_ms: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Selects a time range of a group's committed offsets, and its resolution."""

    group_id: str
    from_ms: int
    until_ms: int
    """The end of the range, exclusive."""
    step_ms: int
    """Of a partition's offsets within one step, counted from the epoch, only the last is returned."""
    coarse_until_ms: int = 0
    """Before this time steps are longer, by COARSE_FACTOR."""


Past = TypeVar("Past", PastOffset, PastLogEnd)


def last_of_each_step(in_order: Iterable[Past], time_range: TimeRange) -> list[Past]:
    """Return the last value of each partition and step; `in_order` is sorted by topic, partition and time."""

    def step_of(one: Past) -> tuple[str, int, bool, int]:
        is_coarse = one.at_ms < time_range.coarse_until_ms
        step_ms = time_range.step_ms * (COARSE_FACTOR if is_coarse else 1)
        return one.topic, one.partition, is_coarse, one.at_ms // step_ms

    return [list(same)[-1] for _, same in groupby(in_order, step_of)]


def by_time(one: PastOffset) -> tuple[str, int, int, bool]:
    """Order by topic, partition and time; a removal comes before a commit of the same time."""
    return one.topic, one.partition, one.at_ms, one.offset is not None
