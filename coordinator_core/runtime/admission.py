"""Admission: requests that a limit of the node, of a client or of a group refuses before they are decided.

No client may fill for all others what a node has once: the write queue, and the memory for dirty offsets and groups.
The last two limits are not exact. Groups count for the client that created them while this node serves them, and the
offsets of a group are counted in the background (`offset_counts.py`).
"""

from typing import Final

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, PolicyViolation
from coordinator_core.protocol.requests import CommitOffsets, JoinGroup, LeaveGroup, SyncGroup
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.current_request import current_client
from coordinator_core.runtime.group_context import GroupContext
from coordinator_core.runtime.groups_of_clients import GroupsOfClients
from coordinator_core.runtime.offset_checkpoints import OffsetCheckpoints
from coordinator_core.runtime.writer import Writer

WRITE_QUEUE: Final = "max_queued_rows"
WRITE_QUEUE_BYTES: Final = "max_queued_bytes"
DIRTY_OFFSETS: Final = "max_dirty_offsets"
WAITING_REQUESTS: Final = "max_waiting_requests"
GROUPS: Final = "max_groups_per_client"
GROUP_OFFSETS: Final = "group_max_offsets"
LIMITS: Final = (WRITE_QUEUE, DIRTY_OFFSETS, WAITING_REQUESTS, GROUPS, GROUP_OFFSETS)
"""The limits, each by the name of its setting; that of the write queue in bytes counts with that in rows."""


class Admission:
    """The checks of one node."""

    def __init__(
        self,
        writer: Writer,
        checkpoints: OffsetCheckpoints,
        groups_of_clients: GroupsOfClients,
        counters: Counters,
        config: NodeConfig,
    ) -> None:
        self._writer = writer
        self._checkpoints = checkpoints
        self._groups_of_clients = groups_of_clients
        self._counters = counters
        self._config = config
        counters.requests_refused.update(dict.fromkeys(LIMITS, 0))

    def check(
        self,
        request: JoinGroup | SyncGroup | LeaveGroup | CommitOffsets,
        group_context: GroupContext | None,
        settings: GroupSettings,
    ) -> None:
        """Check a request that may write.

        Args:
            request: the request.
            group_context: its group; None: the node has none of this name.
            settings: the effective settings of the group.

        Raises:
            CoordinatorNotAvailable: a limit is reached that frees itself.
            PolicyViolation: a limit is reached until groups or offsets are deleted.
        """
        if self._writer.is_full():
            waiting = "too many writes are waiting for the database (max_queued_rows, max_queued_bytes)"
            raise self._counted(WRITE_QUEUE, CoordinatorNotAvailable(waiting))
        if isinstance(request, CommitOffsets):
            if self._checkpoints.is_full():
                dirty = "too many committed offsets are waiting for a checkpoint (max_dirty_offsets)"
                raise self._counted(DIRTY_OFFSETS, CoordinatorNotAvailable(dirty))
            if group_context is not None and group_context.offset_count > settings.group_max_offsets:
                over = f"the group has committed offsets of {group_context.offset_count} partitions"
                refusal = PolicyViolation(f"{over}, and may have {settings.group_max_offsets}")
                raise self._counted(GROUP_OFFSETS, refusal)
        elif self._counters.waiting_requests >= self._config.max_waiting_requests and not isinstance(
            request, LeaveGroup
        ):
            parked = "too many requests are waiting for an answer (max_waiting_requests)"
            raise self._counted(WAITING_REQUESTS, CoordinatorNotAvailable(parked))
        is_new = group_context is None or not group_context.group.exists
        if is_new and isinstance(request, JoinGroup | CommitOffsets):
            self._check_new_group()

    def largest_shares(self) -> dict[str, float]:
        """Return, for each limit that clients share, the part of it that the client with the most has, from 0 to 1."""
        rows, size_bytes = self._writer.largest_queue()
        dirty = max(self._checkpoints.client_sizes.values(), default=0)
        groups = max(self._groups_of_clients.counts.values(), default=0)
        return {
            WRITE_QUEUE: rows / self._config.max_queued_rows,
            WRITE_QUEUE_BYTES: size_bytes / self._config.max_queued_bytes,
            DIRTY_OFFSETS: dirty / self._checkpoints.max_size,
            GROUPS: groups / self._config.max_groups_per_client,
        }

    def _check_new_group(self) -> None:
        limit = self._config.max_groups_per_client
        if self._groups_of_clients.counts[current_client.get()] >= limit:
            refusal = PolicyViolation(f"the client has created as many groups here as it may ({limit})")
            raise self._counted(GROUPS, refusal)

    def _counted(self, limit: str, refusal: CoordinatorError) -> CoordinatorError:
        self._counters.requests_refused[limit] += 1
        return refusal
