"""Dirty offsets: commits that are in the offset log and not yet in the table `offsets`.

Rules:

* The last commit of each partition is kept; consumers that commit often replace their own commits here.
* A group's commit with the partitions of its last one, in the same minute, replaces that as a whole, if each is one
  record, which has one time. Its offsets are merged with the others when they are read, once instead of with every
  commit.
* `offset_history` has the last committed offset of each minute when a later minute has a commit. So a commit that
  replaces one of an earlier minute here keeps that one for history.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct

from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.state_store.offset_log import EncodedCommits, LoggedCommits, Place, minute_ms

CHARS_PER_OFFSET: Final = 256
"""The length of metadata that takes as much memory as an offset without any."""

OffsetKey = tuple[str, str, int]
"""Group, topic and partition."""
_Commits = LoggedCommits | EncodedCommits


class CommitOrigin(Struct, frozen=True, gc=False):
    """Who sent a commit, as far as it is known: not after another node has read it from the offset log."""

    token_id: str | None = None
    client_address: str | None = None


UNKNOWN_ORIGIN: Final = CommitOrigin()


class Commit(NamedTuple):
    """The common values of the offsets of a commit."""

    group_id: str
    shard_id: int
    commit_version: int
    """The position in the offset log; a greater one is newer."""
    first_minute_ms: int
    """The minute of the first commit of the partition that is not in the table: an older stored one is history."""
    record: OffsetsCommitted
    origin: CommitOrigin = UNKNOWN_ORIGIN


DirtyOffset = tuple[Commit, OffsetToCommit]
"""The last offset of a partition, with its commit. A plain tuple, because there are very many."""


class DirtyOffsets:
    """The dirty offsets of some groups."""

    def __init__(self) -> None:
        self._merged: dict[OffsetKey, DirtyOffset] = {}
        self._places: dict[str, Place | None] = {}
        """Group → the minute and the partitions of its last commit, None of several records."""
        self._unmerged: dict[str, tuple[_Commits, int, CommitOrigin]] = {}
        """Group → its last commit, while it has the minute and the partitions of one that is merged."""
        self.superseded: list[DirtyOffset] = []
        """Offsets that were replaced here, but were the last of their minutes."""
        self.group_ids: set[str] = set()
        self.minutes: set[int] = set()
        """The minutes of all commits that were added."""
        self.size = 0
        """The number of offsets, where the metadata of one counts as another for each `CHARS_PER_OFFSET`."""

    def __len__(self) -> int:
        return len(self._merged) + len(self.superseded)

    @property
    def commits(self) -> dict[OffsetKey, DirtyOffset]:
        """Return the last offset of each partition."""
        self._merge_all()
        return self._merged

    def all(self) -> list[DirtyOffset]:
        """Return every offset, those for history first."""
        return [*self.superseded, *self.commits.values()]

    def halves(self) -> tuple["DirtyOffsets", "DirtyOffsets"]:
        """Return the offsets in two parts."""
        first, second = DirtyOffsets(), DirtyOffsets()
        middle = len(self) // 2
        of_first = max(0, middle - len(self.superseded))
        first.superseded, second.superseded = self.superseded[:middle], self.superseded[middle:]
        items = list(self.commits.items())
        first._merged, second._merged = dict(items[:of_first]), dict(items[of_first:])
        return first, second

    def add(self, commits: _Commits, commit_version: int, origin: CommitOrigin = UNKNOWN_ORIGIN) -> int:
        """Add commits, which are newer than all others of their group; return by how much the size grew."""
        before, group_id, place = self.size, commits.group_id, commits.place
        if place is not None and self._places.get(group_id) == place:
            self._unmerged[group_id] = commits, commit_version, origin
            return 0
        self._merge(group_id)
        self._places[group_id] = place
        self._add_commits(commits, commit_version, origin)
        return self.size - before

    def take(self, size: int) -> "DirtyOffsets":
        """Remove and return offsets of about this size, those for history first, then those committed first."""
        taken = DirtyOffsets()
        taken.group_ids, taken.minutes = set(self.group_ids), set(self.minutes)
        taken.superseded, self.superseded = self.superseded[:size], self.superseded[size:]
        taken.size = len(taken.superseded)
        self._merge_all()
        for key in list(islice(self._merged, size)):
            if taken.size >= size:
                break
            taken._merged[key] = self._merged.pop(key)
            taken.size += 1 + len(taken._merged[key][1].metadata) // CHARS_PER_OFFSET
        self.size = max(len(self), self.size - taken.size)
        return taken

    def add_newer(self, newer: "DirtyOffsets") -> None:
        """Add the offsets of `newer`, all of which were committed after these."""
        self._merge_all()
        self.minutes |= newer.minutes
        self._add(newer.commits)
        self.superseded += newer.superseded
        self.group_ids |= newer.group_ids
        self.size += len(newer.superseded)

    def _merge_all(self) -> None:
        for group_id in list(self._unmerged):
            self._merge(group_id)
        self._places.clear()

    def _merge(self, group_id: str) -> None:
        last = self._unmerged.pop(group_id, None)
        if last is not None:
            self._add_commits(*last)

    def _add_commits(self, commits: _Commits, commit_version: int, origin: CommitOrigin) -> None:
        logged = commits.commits if isinstance(commits, EncodedCommits) else commits
        group_id = logged.group_id
        self.group_ids.add(group_id)
        for record in logged.records:
            minute = minute_ms(record.at_ms)
            self.minutes.add(minute)
            self._add(_entries(Commit(group_id, logged.shard_id, commit_version, minute, record, origin)))

    def _add(self, entries: dict[OffsetKey, DirtyOffset]) -> None:
        before = len(self)
        if len(self.minutes) > 1 and not self._merged.keys().isdisjoint(entries):
            entries = dict(self._replacing(entries))
        self._merged.update(entries)
        growth = len(self) - before
        if growth:
            chars = sum([len(one.metadata) for _, one in entries.values()])
            self.size += growth + chars // CHARS_PER_OFFSET

    def _replacing(self, entries: dict[OffsetKey, DirtyOffset]) -> Iterator[tuple[OffsetKey, DirtyOffset]]:
        """Yield the entries with the first minutes of those that they replace; keep replaced ones for history."""
        for key, (commit, offset) in entries.items():
            earlier = self._merged.get(key)
            if earlier is None:
                yield key, (commit, offset)
                continue
            before, _ = earlier
            if minute_ms(before.record.at_ms) < commit.first_minute_ms:
                self.superseded.append(earlier)
            yield key, (commit._replace(first_minute_ms=before.first_minute_ms), offset)


def _entries(commit: Commit) -> dict[OffsetKey, DirtyOffset]:
    return {(commit.group_id, one.topic, one.partition): (commit, one) for one in commit.record.offsets}


def logged_of_topic(logged: Iterable[tuple[int, LoggedCommits]], topic: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (group, partition) → (shard, commit version) of a topic's commits, which are in the order of the log."""
    return {
        (commits.group_id, one.partition): (commits.shard_id, commit_version)
        for commit_version, commits in logged
        for record in commits.records
        for one in record.offsets
        if one.topic == topic
    }
