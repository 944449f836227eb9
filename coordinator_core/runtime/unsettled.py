"""A group that does not settle is named, with whom it waits for; of many, those that have rebalanced for longest.

A rebalance counts from when it began, however often it fell back to joining, so a group that goes round in circles is
named as one that stands.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.states import GroupState
from coordinator_core.runtime.hosting import Hosted
from coordinator_core.store.awaited import AwaitedMember, awaited_members

NAMED_GROUPS_MAX: Final = 20
NAMED_MEMBERS_MAX: Final = 5
"""Of each of these groups; both bound what a scrape adds to a time series database."""


@dataclass(frozen=True, slots=True)
class UnsettledGroup:
    """A group in the middle of a rebalance."""

    group_id: str
    state: GroupState
    rebalancing_s: float
    awaited_count: int
    awaited: tuple[AwaitedMember, ...]
    """The first of them, as `Group.waiting_for` orders them."""


def unsettled_groups(groups: Iterable[Hosted], wall_ms: int) -> tuple[UnsettledGroup, ...]:
    """Return the groups that have rebalanced for longest, the first of them first."""
    oldest = nlargest(NAMED_GROUPS_MAX, _under_way(groups, wall_ms))
    return tuple(_unsettled(group, rebalancing_ms) for rebalancing_ms, _, group in oldest)


def _under_way(groups: Iterable[Hosted], wall_ms: int) -> Iterator[tuple[int, str, Group]]:
    for hosted in groups:
        if hosted.ledger.under_way is not None:
            yield wall_ms - hosted.ledger.under_way.started_at_ms, hosted.group.group_id, hosted.group


def _unsettled(group: Group, rebalancing_ms: int) -> UnsettledGroup:
    awaited = awaited_members(group)
    count, named = (0, ()) if awaited is None else (awaited.count, awaited.members[:NAMED_MEMBERS_MAX])
    return UnsettledGroup(group.group_id, group.state, max(0, rebalancing_ms) / 1000, count, named)
