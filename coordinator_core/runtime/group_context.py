"""A group in memory: its state, its ledger, and its writes that are not stored yet."""

import asyncio
from typing import TYPE_CHECKING, Final

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.runtime.current_request import commit_origin, current_client
from coordinator_core.state_store.ledger import Ledger
from coordinator_core.state_store.rows import GroupWrite

if TYPE_CHECKING:
    from coordinator_core.runtime.shard import Shard
    from coordinator_core.runtime.writer import ClientQueue


LOCK_GRACE_MS: Final = 30_000
"""How long deadlines of a group wait at most for the operations that have it locked, one after the other."""
LOCKED_RETRY_MS: Final = 100
"""How often it is checked whether the group is still locked."""


class PendingDecision:
    """A decision whose rows are queued: it completes when they are stored.

    Then timers start, replies are sent, and records are counted; so it is with the decisions that depend on it.
    """

    __slots__ = (
        "changes_group",
        "client",
        "decision",
        "dependents",
        "group_context",
        "lease",
        "origin",
        "queue",
        "rows",
        "size_bytes",
        "write",
    )

    queue: "ClientQueue"
    """Where it waits; set by the writer."""

    def __init__(self, shard: "Shard", group_context: "GroupContext", write: GroupWrite, decision: Decision) -> None:
        self.lease = shard
        self.group_context = group_context
        self.write = write
        self.rows, self.size_bytes = write.size
        self.changes_group = write.group is not None or write.is_group_deleted
        """Whether it changes the group itself, and not only its offsets."""
        if not self.changes_group:  # The write has what is needed of the records, which end here.
            decision = Decision(decision.group, (), decision.replies, decision.deadlines)
        self.decision = decision
        self.client = current_client.get()
        self.origin = commit_origin.get()
        self.dependents: list[Decision] = []
        """Decisions that store nothing but may be based on this one's records; they complete after it."""

    def on_stored(self, log_position: int, node_ms: int) -> None:
        """Complete the decision."""
        self.lease.complete(self, log_position, node_ms)

    def on_failed(self, error: CoordinatorError) -> None:
        """Unload the shard: memory is ahead of the database."""
        self.lease.write_failed(self, error)


class GroupContext:
    """One group on the node that owns it."""

    __slots__ = (
        "creator",
        "deferred_until_ms",
        "drained",
        "group",
        "last_pending",
        "ledger",
        "lock",
        "offset_count",
        "uncounted_offsets",
        "unstored_writes",
    )

    def __init__(self, group: Group, ledger: Ledger) -> None:
        self.group = group
        self.ledger = ledger
        self.last_pending: PendingDecision | None = None
        """The newest unstored decision that changes the group itself, and not only its offsets."""
        self.unstored_writes = 0
        """Writes of this group that are not stored yet, or not even decided."""
        self.lock: asyncio.Lock | None = None
        """Held while an operation reads offsets in order to decide; requests wait for it."""
        self.deferred_until_ms = 0
        """Node time until which no deadline fires while it is held."""
        self.drained: asyncio.Event | None = None
        """Set when the last write is stored; None unless a task waits for that."""
        self.creator: str | None = None
        """The client that created the group since this node serves it; None: it was loaded."""
        self.offset_count = 0
        """The committed offsets of the group when they were last counted; 0 before."""
        self.uncounted_offsets = 0
        """By how many offsets the group has grown since then at most."""

    @property
    def is_removable(self) -> bool:
        """Whether the group does not exist and no write or operation of it is under way."""
        return not self.group.exists and not self.unstored_writes and self.lock is None

    def defers_deadlines(self, node_ms: int) -> bool:
        """Return whether a deadline waits: requests that wait for the lock have come in time."""
        return self.lock is not None and node_ms < self.deferred_until_ms

    async def wait_until_drained(self) -> None:
        """Wait until all decisions made so far are stored."""
        while self.unstored_writes:
            if self.drained is None:
                self.drained = asyncio.Event()
            await self.drained.wait()

    def mark_stored(self, pending: PendingDecision) -> None:
        """Record that a write is stored."""
        if self.last_pending is pending:
            self.last_pending = None
        self.end_write()

    def end_write(self) -> None:
        """Record that there is a write less."""
        self.unstored_writes -= 1
        if not self.unstored_writes and self.drained is not None:
            self.drained.set()
            self.drained = None
