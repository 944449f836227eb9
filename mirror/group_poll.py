"""Poll of group states: shows rebalances of the classic protocol from their start, of which the log has the end."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.states import GroupState
from coordinator_core.runtime.counters import MirrorCounts
from mirror.polling import poll_at_intervals

KnownGroups = Mapping[str, Group]
"""Group id → group as known."""


class Groups(Protocol):
    """The groups of a cluster, as `KafkaGroups` reads them."""

    async def rebalancing(self) -> dict[str, GroupState]:
        """Return the groups in PreparingRebalance or CompletingRebalance."""
        ...


class GroupPoll:
    """Polls which groups of a cluster are in a rebalance."""

    def __init__(
        self,
        open_groups: Callable[[], AbstractAsyncContextManager[Groups]],
        known_groups: Callable[[], KnownGroups],
        states_polled: Callable[[Mapping[str, GroupState], KnownGroups], None],
        interval_s: float,
    ) -> None:
        """Prepare.

        Args:
            open_groups: connects to the cluster.
            known_groups: returns the groups of this node.
            states_polled: takes the groups in a rebalance, and what was known when they were asked for.
            interval_s: the time from the end of a poll to the next.
        """
        self._open_groups = open_groups
        self._known_groups = known_groups
        self._states_polled = states_polled
        self._interval_s = interval_s

    async def run(self, counts: MirrorCounts) -> None:
        """Poll, without end."""
        await poll_at_intervals("groups", counts, self._open_groups, self.poll, self._interval_s)

    async def poll(self, groups: Groups) -> None:
        """Read states once.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        known = self._known_groups()
        self._states_polled(await groups.rebalancing(), known)
