"""Rebalance rate: the groups with the most join phases within `RATE_WINDOW_MS`.

Join phases are counted when they are stored, restarts included. The count of a group remains on this node when another
node acquires its shard, so a group's rate is the sum over all nodes.
"""

from collections import Counter, deque
from collections.abc import Iterable
from heapq import nlargest
from typing import Final, NamedTuple

from coordinator_core.protocol.states import PREPARING
from coordinator_core.runtime.stuck_groups import NAMED_GROUPS_MAX
from coordinator_core.state_store.rows import TransitionRow

RATE_WINDOW_MS: Final = 600_000
REBALANCE_COUNT_MIN: Final = 3
"""Join phases within the window from which a group is reported."""


class GroupRebalanceRate(NamedTuple):
    """A group that rebalances often."""

    group_id: str
    phase_count: int
    """Join phases that started within the window."""


class RebalanceRate:
    """The recent join phases of one node's groups."""

    def __init__(self) -> None:
        self._began: deque[tuple[int, str]] = deque()
        """(node time, group) of each join phase, oldest first."""
        self._counts: Counter[str] = Counter()

    def observe(self, transitions: Iterable[TransitionRow], node_ms: int) -> None:
        """Count the join phases that stored transitions have started."""
        for transition in transitions:
            if transition.to_state == PREPARING:
                self._began.append((node_ms, transition.group_id))
                self._counts[transition.group_id] += 1
                self._forget_until(node_ms - RATE_WINDOW_MS)

    def most(self, node_ms: int) -> tuple[GroupRebalanceRate, ...]:
        """Return the groups with the most join phases, highest count first."""
        self._forget_until(node_ms - RATE_WINDOW_MS)
        often = (GroupRebalanceRate(*found) for found in self._counts.items() if found[1] >= REBALANCE_COUNT_MIN)
        return tuple(nlargest(NAMED_GROUPS_MAX, often, key=lambda group: (group.phase_count, group.group_id)))

    def _forget_until(self, node_ms: int) -> None:
        while self._began and self._began[0][0] <= node_ms:
            _, group_id = self._began.popleft()
            self._counts[group_id] -= 1
            if not self._counts[group_id]:
                del self._counts[group_id]
