"""A group as its node keeps it: the group itself, its ledger, and what of it is still on the way to the database."""

import asyncio
from dataclasses import dataclass, field

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import Record
from coordinator_core.protocol.replies import Reply
from coordinator_core.protocol.requests import Deadline
from coordinator_core.store.ledger import Ledger


@dataclass(slots=True)
class Pending:
    """What a decision still owes when its records are stored: timers to start, replies to send, records to count.

    `followers` are decisions that stored nothing but may have seen this one's records; they wait behind it. A decision
    that waits for nothing is settled as it is.
    """

    deadlines: tuple[tuple[Deadline, int | None], ...]
    replies: tuple[Reply, ...]
    records: tuple[Record, ...] = ()
    is_of_group: bool = False
    """Whether it is about the group itself, and not only about its offsets."""
    followers: list[Decision] = field(default_factory=list)


class Hosted:
    """One group on its node."""

    __slots__ = ("group", "hold", "ledger", "newest", "quiet", "unsettled")

    def __init__(self, group: Group, ledger: Ledger) -> None:
        self.group = group
        self.ledger = ledger
        self.newest: Pending | None = None
        """The newest decision about the group itself (not only its offsets) that is not stored yet."""
        self.unsettled = 0
        """Writes of this group that are not stored yet."""
        self.hold: asyncio.Lock | None = None
        """Held while somebody reads offsets in order to decide; requests wait for it."""
        self.quiet: asyncio.Event | None = None
        """Set when the last write under way is stored; there only while somebody waits for that."""

    @property
    def is_forgettable(self) -> bool:
        """Tell whether nothing is known of the group and nothing is under way."""
        return not self.group.exists and not self.unsettled and self.hold is None

    async def wait_until_quiet(self) -> None:
        """Wait until everything decided so far is stored."""
        while self.unsettled:
            if self.quiet is None:
                self.quiet = asyncio.Event()
            await self.quiet.wait()

    def settle_one(self, pending: Pending) -> None:
        """Take note that a write is stored."""
        self.unsettled -= 1
        if self.newest is pending:
            self.newest = None
        if not self.unsettled and self.quiet is not None:
            self.quiet.set()
            self.quiet = None
