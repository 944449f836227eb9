"""What a store tells of a group's positions, now and over time: values from which the runtime works out lag."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.retention import GroupFacts
from coordinator_core.protocol.states import STABLE, GroupState

EARLY_FACTOR: Final = 4
"""How much longer steps are where positions are only wanted to tell since when logs are ahead of them."""


class HeldPosition(NamedTuple):
    """A partition that a group has committed, or that a member holds, or both."""

    topic: str
    partition: int
    member_id: str | None
    client_id: str | None
    offset: int | None
    """None: nothing is committed, and nothing below is known."""
    committed_at_ms: int | None
    expires_at_ms: int | None
    """Its own expiry, where it has one."""
    ends: tuple[LogEnd, ...]
    """By time, never falling: of the known ends of the log those that `behind` needs; the last is the furthest."""


@dataclass(frozen=True, slots=True)
class GroupPositions:
    """All partitions of a group, by topic and partition, and what decides how long their offsets are kept."""

    facts: GroupFacts
    partitions: list[HeldPosition]


def facts_of(
    state: str, protocol_type: str | None, state_since_ms: int | None, topics: Iterable[str] | None
) -> GroupFacts:
    """Return what decides how long a group's offsets are kept.

    A group whose stored state is none is quarantined. It counts as Stable: nothing of it expires.
    """
    known = GroupState(state) if state in set(GroupState) else STABLE
    return GroupFacts(known, protocol_type, state_since_ms, None if topics is None else frozenset(topics))


class LaggingPosition(NamedTuple):
    """A committed offset before the end of its log, as far as that is known."""

    group_id: str
    topic: str
    partition: int
    offset: int
    ends: tuple[LogEnd, ...]
    """As of `HeldPosition`."""


class PastPosition(NamedTuple):
    """A partition's position from an instant on; `offset` None: from then on there was none."""

    topic: str
    partition: int
    at_ms: int
    offset: int | None
    log_end_offset: int | None


class PastLogEnd(NamedTuple):
    """Where a partition's log ended at an instant, as a trusted reporter named it."""

    topic: str
    partition: int
    at_ms: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Which past of a group's positions is asked for, and how finely."""

    group_id: str
    from_ms: int
    until_ms: int
    """The first instant that is not part of it."""
    step_ms: int
    """Of a partition's positions within one step, counted from the epoch, only the last is told."""
    early_until_ms: int = 0
    """Before this instant steps are longer, by EARLY_FACTOR."""


Past = TypeVar("Past", PastPosition, PastLogEnd)


def last_of_each_step(in_order: Iterable[Past], stretch: Stretch) -> list[Past]:
    """Return of each partition and step the last one, of those that come by topic, partition and time."""

    def step_of(one: Past) -> tuple[str, int, bool, int]:
        is_early = one.at_ms < stretch.early_until_ms
        step_ms = stretch.step_ms * (EARLY_FACTOR if is_early else 1)
        return one.topic, one.partition, is_early, one.at_ms // step_ms

    return [list(same)[-1] for _, same in groupby(in_order, step_of)]


def in_time(one: PastPosition) -> tuple[str, int, int, bool]:
    """Order by topic, partition and time; what ends a position comes before what begins one at that instant."""
    return one.topic, one.partition, one.at_ms, one.offset is not None
