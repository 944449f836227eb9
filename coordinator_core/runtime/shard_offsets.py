"""The dirty offsets of one shard: commits that are in the offset log, and not in the table `offsets` yet."""

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from coordinator_core.state_store.dirty_offsets import UNKNOWN_ORIGIN, CommitOrigin, DirtyOffsets
from coordinator_core.state_store.offset_log import EncodedCommits, LoggedCommits
from coordinator_core.state_store.rows import ShardCheckpoint, ShardLog

if TYPE_CHECKING:
    from coordinator_core.runtime.shard import Shard


class Checkpoints(Protocol):
    """The part of `OffsetCheckpoints` that a shard needs."""

    def note_growth(self, size: int, client: str) -> None:
        """Count new dirty offsets of a client."""
        ...

    async def store_group(self, shard: "Shard", group_id: str | None) -> None:
        """Wait until the table has every commit of a group, or (None) of a shard, that was answered before."""
        ...


class ShardOffsets:
    """What the next checkpoint of a shard stores, and what the one under way is storing."""

    def __init__(self) -> None:
        self._dirty = DirtyOffsets()
        self._sizes: Counter[str] = Counter()
        self._position = 0
        self._under_way: DirtyOffsets | None = None
        self._under_way_sizes: Counter[str] = Counter()
        self._since_ms: int | None = None
        self._under_way_since_ms: int | None = None
        self.is_partly_stored = False
        """Whether the last checkpoint that began left dirty offsets for the next one."""

    @property
    def size(self) -> int:
        """Return how many offsets are dirty; a long one counts more."""
        return self._dirty.size + (0 if self._under_way is None else self._under_way.size)

    @property
    def sizes(self) -> Counter[str]:
        """Return the size by the client whose commits made the offsets dirty."""
        return self._sizes + self._under_way_sizes

    @property
    def since_ms(self) -> int | None:
        """Return the node time of the oldest commit that is not in the table; None if there is none."""
        return self._since_ms if self._under_way_since_ms is None else self._under_way_since_ms

    def load(self, shard_log: ShardLog, node_ms: int) -> int:
        """Add the commits that the former owner did not checkpoint; return by how much the size grew."""
        self._position = shard_log.position
        return sum([self.add(logged, position, node_ms) for position, logged in shard_log.commits])

    def add(
        self,
        commits: LoggedCommits | EncodedCommits,
        position: int,
        node_ms: int,
        client: str = "",
        origin: CommitOrigin = UNKNOWN_ORIGIN,
    ) -> int:
        """Add commits of a client (empty: none is known) that are in the log; return by how much the size grew."""
        if self._since_ms is None:
            self._since_ms = node_ms
        self._position = position
        growth = self._dirty.add(commits, position, origin)
        if growth:
            self._sizes[client] += growth
        return growth

    def has(self, group_id: str | None) -> bool:
        """Return whether the table lacks a commit of the group, or (None) of any group."""
        if group_id is None:
            return self.size > 0
        return group_id in self._dirty.group_ids or (
            self._under_way is not None and group_id in self._under_way.group_ids
        )

    def take(self, epoch: int, max_size: int) -> ShardCheckpoint:
        """Begin a checkpoint; `complete` or `put_back` ends it.

        Args:
            epoch: the shard's.
            max_size: how many offsets it stores. If more are dirty, it stores some, and raises no position: a node that
                loads the shard meanwhile reads all of them in the log. Their clients have them until all are stored.
        """
        assert self._under_way is None, "one checkpoint is under way at a time"
        is_whole = self._dirty.size <= max_size
        self._under_way = self._dirty if is_whole else self._dirty.take(max_size)
        self._under_way_since_ms = self._since_ms
        self.is_partly_stored = not is_whole and len(self._dirty) > 0
        if self.is_partly_stored:
            return ShardCheckpoint(epoch, 0, self._under_way)
        self._dirty, self._since_ms = DirtyOffsets(), None
        self._under_way_sizes, self._sizes = self._sizes, Counter()
        return ShardCheckpoint(epoch, self._position, self._under_way)

    def complete(self) -> int:
        """End the checkpoint under way, which is stored; return its number of offsets."""
        assert self._under_way is not None, "a checkpoint is under way"
        taken, self._under_way, self._under_way_since_ms = self._under_way, None, None
        self._under_way_sizes = Counter()
        return len(taken)

    def put_back(self) -> None:
        """End the checkpoint under way, of which nothing was stored."""
        assert self._under_way is not None, "a checkpoint is under way"
        self._under_way.add_newer(self._dirty)
        self._dirty, self._under_way = self._under_way, None
        self._sizes, self._under_way_sizes = self.sizes, Counter()
        self._since_ms, self._under_way_since_ms = self.since_ms, None
