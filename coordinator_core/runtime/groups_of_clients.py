"""The number of groups of each client, for the limit `max_groups_per_client`."""

from collections import Counter
from collections.abc import Iterable

from coordinator_core.runtime.current_request import current_client
from coordinator_core.runtime.group_context import GroupContext


class GroupsOfClients:
    """The groups of this node by the client that created them, since it serves them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Client → its groups."""

    def track(self, group_context: GroupContext) -> None:
        """Count a group that the current client has created, or a deleted one no longer."""
        if group_context.group.exists:
            group_context.creator = current_client.get()
            self.counts[group_context.creator] += 1
        else:
            self.forget((group_context,))

    def forget(self, group_contexts: Iterable[GroupContext]) -> None:
        """Count groups no longer: they are deleted, or this node does not serve them."""
        for group_context in group_contexts:
            creator, group_context.creator = group_context.creator, None
            if creator is not None:
                self.counts[creator] -= 1
                if not self.counts[creator]:
                    del self.counts[creator]
