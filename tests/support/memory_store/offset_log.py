"""The offset log in memory: batches of commits by position, and the position that each shard is checkpointed to."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinator_core.state_store.offset_log import LoggedCommits
from coordinator_core.state_store.rows import ShardLog


class _Row(NamedTuple):
    """A batch of commits."""

    seq: int
    commits: tuple[LoggedCommits, ...]


class OffsetLog:
    """The rows of the log, the oldest first, and the checkpoints."""

    def __init__(self, shards: int) -> None:
        self._rows: list[_Row] = []
        self._positions = dict.fromkeys(range(shards), 0)

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, seq: int, commits: Sequence[LoggedCommits]) -> None:
        """Add a batch behind all others."""
        self._rows.append(_Row(seq, tuple(commits)))

    def checkpoint(self, shard_id: int, position: int) -> None:
        """Note that the commits of a shard up to a position are stored; delete the rows that are not needed."""
        self._positions[shard_id] = max(position, self._positions[shard_id])
        self._rows = [row for row in self._rows if any(row.seq > self._positions[one.shard_id] for one in row.commits)]

    def load(self, shard_ids: Iterable[int]) -> dict[int, ShardLog]:
        """Return the commits of each shard that no checkpoint has passed."""
        return {shard: ShardLog(self._positions[shard], self._pending(shard)) for shard in shard_ids}

    def pending(self) -> list[tuple[int, LoggedCommits]]:
        """Return all commits that are in the log, each with its position, the oldest first."""
        return [(row.seq, one) for row in self._rows for one in row.commits]

    def _pending(self, shard_id: int) -> list[tuple[int, LoggedCommits]]:
        position = self._positions[shard_id]
        return [(seq, one) for seq, one in self.pending() if one.shard_id == shard_id and seq > position]
