"""The groups whose rebalances have lasted longest, with the members that they wait for.

A rebalance counts from its start, however often its join phase restarted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from coordinator_core.protocol.states import GroupState
from coordinator_core.runtime.group_context import GroupContext
from coordinator_core.state_store.awaited import AwaitedMember, awaited_members

NAMED_GROUPS_MAX: Final = 20
NAMED_MEMBERS_MAX: Final = 5
"""Members of each of these groups; both limits bound the number of time series."""


@dataclass(frozen=True, slots=True)
class RebalancingGroup:
    """A group in the middle of a rebalance."""

    group_id: str
    state: GroupState
    rebalancing_s: float
    awaited_count: int
    awaited: tuple[AwaitedMember, ...]
    """The first of them, in the order of `Group.waiting_for`."""


def rebalancing_groups(groups: Iterable[GroupContext], wall_ms: int) -> tuple[RebalancingGroup, ...]:
    """Return the groups that have rebalanced for longest, longest first."""
    oldest = nlargest(NAMED_GROUPS_MAX, _in_progress(groups, wall_ms))
    return tuple(_rebalancing_group(group_context, rebalancing_ms) for rebalancing_ms, _, group_context in oldest)


def _in_progress(groups: Iterable[GroupContext], wall_ms: int) -> Iterator[tuple[int, str, GroupContext]]:
    for group_context in groups:
        if group_context.ledger.in_progress is not None:
            yield (
                wall_ms - group_context.ledger.in_progress.started_at_ms,
                group_context.group.group_id,
                group_context,
            )


def _rebalancing_group(group_context: GroupContext, rebalancing_ms: int) -> RebalancingGroup:
    group = group_context.group
    awaited = None if group_context.ledger.is_mirrored else awaited_members(group)
    count, named = (0, ()) if awaited is None else (awaited.count, awaited.members[:NAMED_MEMBERS_MAX])
    return RebalancingGroup(group.group_id, group.state, max(0, rebalancing_ms) / 1000, count, named)
