"""A group that rebalances again and again is named, with how often it did of late; of many, the most restless.

Join phases count as they are stored, those that began again included, and are forgotten after `OF_LATE_MS`. What groups
did here still counts here when another node has taken them, so a group's figure is the sum over all nodes.
"""

from collections import Counter, deque
from collections.abc import Iterable
from heapq import nlargest
from typing import Final, NamedTuple

from coordinator_core.protocol.states import PREPARING
from coordinator_core.runtime.unsettled import NAMED_GROUPS_MAX
from coordinator_core.store.rows import TransitionRow

OF_LATE_MS: Final = 600_000
RESTLESS_FROM: Final = 3
"""Join phases of late from which on a group is named."""


class RestlessGroup(NamedTuple):
    """A group that rebalances again and again."""

    group_id: str
    phase_count: int
    """Join phases that began of late."""


class Restlessness:
    """The join phases of one node's groups that began of late."""

    def __init__(self) -> None:
        self._began: deque[tuple[int, str]] = deque()
        """When on the node's clock, and whose, the oldest first."""
        self._counts: Counter[str] = Counter()

    def observe(self, transitions: Iterable[TransitionRow], node_ms: int) -> None:
        """Count the join phases that began by what was stored just now."""
        for transition in transitions:
            if transition.to_state == PREPARING:
                self._began.append((node_ms, transition.group_id))
                self._counts[transition.group_id] += 1
                self._forget_until(node_ms - OF_LATE_MS)

    def most(self, node_ms: int) -> tuple[RestlessGroup, ...]:
        """Return the groups with the most join phases, the most restless first."""
        self._forget_until(node_ms - OF_LATE_MS)
        often = (RestlessGroup(*found) for found in self._counts.items() if found[1] >= RESTLESS_FROM)
        return tuple(nlargest(NAMED_GROUPS_MAX, often, key=lambda group: (group.phase_count, group.group_id)))

    def _forget_until(self, node_ms: int) -> None:
        while self._began and self._began[0][0] <= node_ms:
            _, group_id = self._began.popleft()
            self._counts[group_id] -= 1
            if not self._counts[group_id]:
                del self._counts[group_id]
