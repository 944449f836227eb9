"""Follower: applies one partition of `__consumer_offsets` to the shard of the same number.

Rules:

* The log is always read from its beginning, as groups of the consumer protocol are put together from all their records.
  What it says takes effect from the stored position on.
* A group's values are stored with the position in the log, in one transaction. A value before the stored position is
  not applied again.
* The log is the offset log of a mirror: commits are dirty until a checkpoint stores them in the table `offsets` with
  its position. After a failure those after the checkpoint are read again; commits that the table has stay as they are.
* Before what the log says of a group is applied, its commits are checkpointed. So none is read again after it, which
  would bring a deleted offset back, or give a commit to the owner of a later generation.
* When the end is reached that the log had when reading began, groups of the consumer protocol are taken as they are
  then: compaction may have moved records of theirs there.
* The first read takes only what the log says last of each key: history begins when the mirror does. So does a read
  after the log was truncated, created again, or not read for so long that tombstones may have been compacted away.
  Groups and offsets that are no longer in the log are then removed.
* The tombstone of a group waits for the next record, which says whether the group goes on with another protocol.

Source: docs/mirror.md "Exactly once".
"""

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple, assert_never
from uuid import UUID

from coordinator_core.protocol.consumer_protocol import partitions_of
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.shard import Shard
from coordinator_core.state_store.offset_log import LoggedCommits
from coordinator_core.state_store.rows import ExtraRows, MirrorPosition, OtherGroup
from mirror.consumer_groups import ConsumerGroups, Result, is_conversion
from mirror.decide import GroupDeletedObserved, GroupObserved, Observation, OffsetsDeletedObserved, SimpleGroupObserved
from mirror.group_records import GroupRecord
from mirror.inference import is_known, moved_members
from mirror.observed import (
    GroupDeleted,
    Observed,
    ObservedCommit,
    ObservedGroup,
    ObservedOtherGroup,
    ObservedRebalanceStart,
    OffsetDeleted,
    UnknownTopicIds,
)

DELETIONS_KEPT_MS: Final = 86_400_000
"""How long Kafka keeps a tombstone in a compacted log, by default (`delete.retention.ms`)."""

POSITION_INTERVAL_MS: Final = 3_600_000
"""How often the position is stored where no group changes, so that a mirror which starts again knows how old it is."""

ENTRIES_PER_TURN: Final = 1_000
"""Entries that are applied before other tasks run, where a whole log is: it may have millions of commits."""

Owners = dict[tuple[str, int], str]
"""(topic, partition) → the member that owns it."""


class LogEntry(NamedTuple):
    """What one record of the log says."""

    offset: int
    appended_ms: int
    """Wall time of the broker when it was appended."""
    seen: Observed | GroupRecord | Result


class Follower:
    """One shard, and how far it has read its partition."""

    def __init__(
        self,
        shard: Shard,
        coordinator: Coordinator,
        stored: MirrorPosition | None,
        topic_name: Callable[[UUID], str | None],
    ) -> None:
        """Continue from the stored position.

        Args:
            shard: the shard, loaded and owned.
            coordinator: its node.
            stored: its position; None: it has not read its log yet.
            topic_name: returns the name of a topic, None if it is not known.
        """
        self.shard = shard
        self._coordinator = coordinator
        self._topic_name = topic_name
        now_ms = coordinator.wall_ms()
        self._position = stored or MirrorPosition(shard.shard_id, 0, 0, 0, now_ms)
        is_current = stored is not None and now_ms - stored.read_at_ms < DELETIONS_KEPT_MS
        self._latest_seq = max(self._position.groups_seq, self._position.offsets_seq)
        """The greatest position that was used; those of a log that was created again are greater."""
        self._is_first_read = stored is None
        self._snapshot: dict[object, LogEntry] | None = None if is_current else {}
        self._consumer_groups = ConsumerGroups(topic_name)
        self._deleted: LogEntry | None = None
        """The deletion of a group that was the last record."""
        self.next_offset: int | None = None
        """The offset of the log that is read next; None: the beginning of the log."""
        self.end: int | None = None
        """The end that the log had when reading began; None: it was reached."""
        self.other_groups: dict[str, ObservedOtherGroup] = {}
        """Share and streams groups, which are not mirrored."""
        self._stored_other_groups: dict[str, ObservedOtherGroup] | None = None
        """Those in the table `other_groups`; None: not known."""
        self.unknown_topics: dict[str, frozenset[UUID]] = {}
        """Group → topics of its assignment whose names are not known."""
        self.committed_topics: set[str] = set()
        """The topics in which groups of the shard have committed offsets."""
        self._owners: dict[str, tuple[Group, Owners]] = {}

    @property
    def is_reading_whole_log(self) -> bool:
        """Whether the log is read from its beginning to its end before anything is applied."""
        return self._snapshot is not None

    @property
    def commits_from(self) -> int:
        """The offset of the first record whose commit has an effect."""
        return 0 if self.is_reading_whole_log else self._position.offsets_seq - self._position.base

    def begin(self, start: int, end: int) -> None:
        """Read from the beginning of the log; read it as a whole if it does not have the stored position.

        Args:
            start: the offset of its first record.
            end: the offset after its last record.
        """
        if self._latest_seq and not start <= self._latest_seq - self._position.base <= end:
            self.read_whole_log()
        self.next_offset, self.end = start, end

    def read_whole_log(self) -> None:
        """Start again from the beginning of the log, which was truncated or created again."""
        self._snapshot, self._deleted, self.next_offset = {}, None, None
        self._consumer_groups = ConsumerGroups(self._topic_name)
        self.other_groups.clear()
        self.unknown_topics.clear()
        self._position = self._position._replace(base=self._latest_seq, offsets_seq=self._latest_seq)

    # -- application ---------------------------------------------------------------------------------------

    async def apply(self, entries: Sequence[LogEntry], next_offset: int) -> None:
        """Apply entries in the order of the log; return when those about groups are stored.

        Args:
            entries: the entries.
            next_offset: the offset of the log that is read next.

        Raises:
            CoordinatorError: the shard was lost, or the database cannot be reached.
        """
        if self.end is not None and next_offset > self.end:
            end = self.end
            await self._apply_all([entry for entry in entries if entry.offset < end])
            await self.reach_end(end)
            entries = [entry for entry in entries if entry.offset >= end]
        await self._apply_all(entries)
        self.next_offset = next_offset

    async def reach_end(self, end_offset: int) -> None:
        """Take groups as they are at the end of the log, or what the log says last of each key if it was read whole."""
        self.end, self.next_offset = None, end_offset
        if self._snapshot is not None:
            await self._apply_snapshot(self._snapshot.values(), end_offset)
            self._snapshot, self._is_first_read = None, False
        else:
            await self._apply_held_deletion()
            await self._observe_current(self._consumer_groups.consumer_group_ids())

    async def wait_for_records(self) -> None:
        """Apply what could not be decided before the next record, as the log has none now."""
        await self._apply_held_deletion()
        await self._store_other_groups()
        named = [
            group_id
            for group_id, topic_ids in self.unknown_topics.items()
            if any(self._topic_name(topic_id) is not None for topic_id in topic_ids)
        ]
        await self._observe_current(named)
        if self._coordinator.wall_ms() - self._position.read_at_ms >= POSITION_INTERVAL_MS:
            assert self.next_offset is not None, "the log is read"
            await self.store_position(self.next_offset)

    async def _apply_all(self, entries: Sequence[LogEntry]) -> None:
        results = list(self._results(entries))
        if self._snapshot is not None:
            self._snapshot.update((_key_of(entry), entry) for entry in entries)
            return
        self._latest_seq = max([self._latest_seq, *map(self._seq, entries[-1:])])
        for (is_deletion, group_id), some in groupby(results, _kind):
            if is_deletion:
                await self._delete_offsets(group_id, list(some))
            else:
                for entry in some:
                    await self._apply(entry)
        await self._stored(entry.seen.group_id for entry in results)

    async def _apply_snapshot(self, last: Iterable[LogEntry], end_offset: int) -> None:
        """Apply what the log says last of each key, and store the position."""
        await self.shard.store_offsets()  # The log may have lost commits that the table does not have yet.
        entries = [each for entry in sorted(last, key=lambda entry: entry.offset) for each in self._current(entry)]
        await self._remove_unlisted(entries, end_offset)
        for entry in entries:
            if isinstance(entry.seen, ObservedGroup):
                self._observe(entry, GroupObserved(entry.seen, entry.appended_ms, is_first_read=self._is_first_read))
        await self._stored(self.shard.groups)
        for place, entry in enumerate(entries):
            if isinstance(entry.seen, ObservedCommit):
                await self._commit(entry, entry.seen)
            if place % ENTRIES_PER_TURN == 0:
                await asyncio.sleep(0)
        await self.store_position(end_offset)

    async def _apply_held_deletion(self) -> None:
        held, self._deleted = self._deleted, None
        if held is not None:
            await self._apply(held)
            await self._stored([held.seen.group_id])

    async def store_position(self, next_offset: int) -> None:
        """Store that everything before an offset of the log is applied, and its commits are in the table."""
        await self.shard.store_offsets()
        seq = self._latest_seq = self._position.base + next_offset
        self._position = self._position._replace(
            groups_seq=seq, offsets_seq=seq, read_at_ms=self._coordinator.wall_ms()
        )
        await self.shard.store_mirror_position(self._position)

    async def _store_other_groups(self) -> None:
        """Store the share and streams groups, if they have changed."""
        found = dict(self.other_groups)
        if found != self._stored_other_groups:
            rows = [
                OtherGroup(
                    each.group_id,
                    self.shard.shard_id,
                    str(each.protocol_type),
                    each.state,
                    each.state_since_ms,
                    each.epoch,
                    each.member_count,
                )
                for each in found.values()
            ]
            store = self._coordinator.store
            await self._coordinator.read(partial(store.store_other_groups, self.shard.shard_id, self.shard.epoch, rows))
            self._stored_other_groups = found

    async def _apply(self, entry: LogEntry) -> None:
        seen = entry.seen
        if isinstance(seen, ObservedCommit):
            await self._commit(entry, seen)
        elif self._seq(entry) > self._position.groups_seq:
            await self.shard.store_offsets(seen.group_id)
            if isinstance(seen, GroupDeleted):
                self._observe(entry, GroupDeletedObserved(entry.appended_ms))
            elif isinstance(seen, ObservedGroup):
                self._observe(entry, GroupObserved(seen, entry.appended_ms))

    async def _observe_current(self, group_ids: Iterable[str]) -> None:
        """Take groups of the consumer protocol as they are after the last record."""
        assert self.next_offset is not None, "the log is read"
        changed: list[str] = []
        for group_id in group_ids:
            for seen in self._mirrored(group_id, self._consumer_groups.current(group_id)):
                context = self.shard.groups.get(group_id)
                group = Group(group_id) if context is None else context.group
                if isinstance(seen, ObservedGroup) and (not is_known(group, seen) or moved_members(group, seen)):
                    assert seen.state_since_ms is not None, "a group of the consumer protocol has this time"
                    changed.append(group_id)
                    await self.shard.store_offsets(group_id)
                    entry = LogEntry(self.next_offset - 1, seen.state_since_ms, seen)
                    self._observe(entry, GroupObserved(seen, entry.appended_ms))
        await self._stored(changed)

    def _observe(self, entry: LogEntry, observation: Observation) -> None:
        """Let the shard decide, and store the position with the decision.

        While the whole log is applied there is none: it is not applied in order, and if it fails, it is read again.
        """
        group_id = entry.seen.group_id
        if self.is_reading_whole_log:
            self.shard.perform(group_id, observation)
        else:
            extra_rows = ExtraRows(mirror_position=self._advance(entry))
            self.shard.perform(group_id, observation, lambda *_: extra_rows)
        if not self._exists(group_id):
            self._owners.pop(group_id, None)

    def _advance(self, entry: LogEntry) -> MirrorPosition:
        """Return the position of an entry about a group, which becomes that of the shard."""
        seq = max(self._seq(entry), self._position.groups_seq)
        offsets_seq = self._position.offsets_seq if self.shard.offsets.size else seq
        read_at_ms = max(self._position.read_at_ms, min(entry.appended_ms, self._coordinator.wall_ms()))
        self._position = self._position._replace(groups_seq=seq, offsets_seq=offsets_seq, read_at_ms=read_at_ms)
        return self._position

    async def _commit(self, entry: LogEntry, seen: ObservedCommit) -> None:
        """Take a commit once its group is stored: the table has no offsets of a group that it does not have."""
        if not self._exists(seen.group_id):
            self.shard.perform(seen.group_id, SimpleGroupObserved(seen.committed_at_ms))
        await self._stored([seen.group_id])
        self.committed_topics.add(seen.topic)
        offset = OffsetToCommit(seen.topic, seen.partition, seen.offset, seen.leader_epoch, seen.metadata, None)
        record = OffsetsCommitted(seen.committed_at_ms, self._owner(seen), seen.expires_at_ms, (offset,))
        self.shard.commits_observed(LoggedCommits(self.shard.shard_id, seen.group_id, (record,)), self._seq(entry))

    def _owner(self, seen: ObservedCommit) -> str:
        """Return the member that owns a partition, which is the one that commits it; empty if there is none."""
        group = self.shard.groups[seen.group_id].group
        known, owners = self._owners.get(seen.group_id, (None, {}))
        if known is not group:
            owners = _owners_of(group)
            self._owners[seen.group_id] = (group, owners)
        return owners.get((seen.topic, seen.partition), "")

    # -- groups of the consumer protocol ---------------------------------------------------------------------

    def _results(self, entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
        """Put groups of the consumer protocol together; return what has an effect."""
        for entry in entries:
            held, self._deleted = self._deleted, None
            if held is not None and not _is_conversion(held, entry):
                yield held
            seen = entry.seen
            if not isinstance(seen, GroupRecord):
                results: Sequence[Observed | Result] = (seen,)
            else:
                results = self._mirrored(seen.group_id, self._consumer_groups.apply(seen, entry.appended_ms))
            for result in results:
                if isinstance(result, ObservedCommit):
                    yield entry
                elif self._seq(entry) <= self._position.groups_seq or self.is_reading_whole_log:
                    continue
                elif isinstance(result, GroupDeleted):
                    self._deleted = entry._replace(seen=result)
                else:
                    yield entry._replace(seen=result)

    def _current(self, entry: LogEntry) -> Iterator[LogEntry]:
        """Return the last entry of a key, or what all records of a group say if it is a record of one."""
        if not isinstance(entry.seen, GroupRecord):
            yield entry
            return
        results = self._consumer_groups.current(entry.seen.group_id)
        self._mirrored(entry.seen.group_id, results)
        yield from (entry._replace(seen=result) for result in results)

    def _mirrored(self, group_id: str, results: Sequence[Result]) -> list[ObservedGroup | GroupDeleted]:
        """Return those results that are mirrored; keep the others."""
        mirrored: list[ObservedGroup | GroupDeleted] = []
        if results:
            self.unknown_topics.pop(group_id, None)
        for result in results:
            match result:
                case ObservedGroup():
                    mirrored.append(result)
                case GroupDeleted():
                    self.other_groups.pop(group_id, None)
                    mirrored.append(result)
                case ObservedOtherGroup():
                    self.other_groups[group_id] = result
                case UnknownTopicIds():
                    self.unknown_topics[group_id] = frozenset(result.topic_ids)
                case ObservedRebalanceStart():
                    pass  # The generation that follows has it as `started_ms`.
                case _:
                    assert_never(result)
        return mirrored

    # -- removals ------------------------------------------------------------------------------------------

    async def _delete_offsets(self, group_id: str, entries: Sequence[LogEntry]) -> None:
        """Remove offsets that the log deletes one after another."""
        new = [entry for entry in entries if self._seq(entry) > self._position.groups_seq]
        deleted = {(entry.seen.topic, entry.seen.partition) for entry in new if isinstance(entry.seen, OffsetDeleted)}
        if new and self._exists(group_id):
            await self._remove(group_id, deleted, new[-1])

    async def _remove(self, group_id: str, deleted: Iterable[tuple[str, int]], entry: LogEntry) -> None:
        """Remove the offsets of these partitions, which the shard does not change meanwhile."""
        await self._stored([group_id])
        await self.shard.store_offsets(group_id)
        partitions = set(deleted)
        stored = await self._coordinator.read(partial(self._coordinator.store.stored_offsets, group_id))
        gone = tuple(offset for offset in stored if (offset.topic, offset.partition) in partitions)
        observation = OffsetsDeletedObserved(gone, str(uuid.uuid4()), entry.appended_ms, len(gone) < len(stored))
        self._observe(entry._replace(seen=GroupDeleted(group_id)), observation)

    async def _remove_unlisted(self, entries: Sequence[LogEntry], end_offset: int) -> None:
        """Remove the groups and offsets of the shard that the log does not have.

        A group of which the log has commits only was deleted, unless it is a simple one, and has them since.
        """
        listed: dict[str, set[tuple[str, int]]] = {}
        for entry in entries:
            partitions = listed.setdefault(entry.seen.group_id, set())
            if isinstance(entry.seen, ObservedCommit):
                partitions.add((entry.seen.topic, entry.seen.partition))
        kept = {entry.seen.group_id for entry in entries if not isinstance(entry.seen, GroupDeleted | OffsetDeleted)}
        described = {
            entry.seen.group_id
            for entry in entries
            if not isinstance(entry.seen, GroupDeleted | OffsetDeleted | ObservedCommit)
        }
        now_ms = self._coordinator.wall_ms()
        for group_id, context in list(self.shard.groups.items()):
            is_kept = group_id in (kept if context.group.protocol_type is None else described)
            end = LogEntry(end_offset - 1, now_ms, GroupDeleted(group_id))
            stored = await self._coordinator.read(partial(self._coordinator.store.stored_offsets, group_id))
            known = {(offset.topic, offset.partition) for offset in stored}
            if gone := known - listed.get(group_id, set()) if is_kept else known:
                await self._remove(group_id, gone, end)
            if not is_kept and self._exists(group_id):
                self._observe(end, GroupDeletedObserved(now_ms))

    # -- helpers -------------------------------------------------------------------------------------------

    def _seq(self, entry: LogEntry) -> int:
        return self._position.base + entry.offset + 1

    def _exists(self, group_id: str) -> bool:
        context = self.shard.groups.get(group_id)
        return context is not None and context.group.exists

    async def _stored(self, group_ids: Iterable[str]) -> None:
        """Wait until the decisions about groups are stored."""
        for group_id in set(group_ids):
            context = self.shard.groups.get(group_id)
            if context is not None:
                await context.wait_until_drained()
        self.shard.check_is_loaded()


def used_topics(followers: Collection[Follower]) -> set[str]:
    """Return the topics that the groups of followers subscribe to, or have committed offsets in."""
    groups = (group for follower in followers for group in follower.shard.live_groups())
    subscribed = {topic for group in groups for topic in group.subscribed_topics or ()}
    return subscribed.union(*(follower.committed_topics for follower in followers))


def forget_topics(followers: Iterable[Follower], deleted: Collection[str]) -> None:
    """Let followers forget that groups had committed offsets in topics that were deleted."""
    for follower in followers:
        follower.committed_topics.difference_update(deleted)


def _kind(entry: LogEntry) -> tuple[bool, str]:
    """Return whether an entry deletes an offset, and its group: such entries are applied together."""
    return isinstance(entry.seen, OffsetDeleted), entry.seen.group_id


def _is_conversion(held: LogEntry, entry: LogEntry) -> bool:
    """Return whether the deletion of a group and the next entry, written with it, are a change of its protocol."""
    deleted, following = held.seen, entry.seen
    assert isinstance(deleted, GroupDeleted), "only deletions are held"
    is_one_batch = held.appended_ms == entry.appended_ms
    return is_one_batch and isinstance(following, Observed | GroupRecord) and is_conversion(deleted, following)


def _key_of(entry: LogEntry) -> object:
    """Return the key of the log; of several entries with one key the last counts."""
    seen = entry.seen
    if isinstance(seen, ObservedCommit | OffsetDeleted):
        return seen.group_id, seen.topic, seen.partition
    return seen.group_id


def _owners_of(group: Group) -> Owners:
    return {
        (topic, partition): member.member_id
        for member in group.members.values()
        for topic, partitions in partitions_of(member.assignment) or ()
        for partition in partitions
    }
