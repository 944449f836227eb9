"""Groups in memory, with their offsets and history, written one after the other.

A group's writes of a batch change a draft of the group, which replaces the group if all of them are valid. So a refused
group does not change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from coordinator_core.protocol.group import GENERATION_MAX
from coordinator_core.protocol.records import CommittedOffset, OffsetRemoved, Trigger
from coordinator_core.protocol.requests import OffsetToCommit, StoredOffset
from coordinator_core.protocol.states import EMPTY
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.dirty_offsets import UNKNOWN_ORIGIN, Commit, CommitOrigin, DirtyOffsets
from coordinator_core.state_store.incarnations import Jump
from coordinator_core.state_store.offset_log import LoggedCommits, minute_ms
from coordinator_core.state_store.rows import (
    WITHOUT_GROUP,
    ArchivedOffset,
    ChangeRow,
    FetchedOffset,
    GroupRow,
    GroupWrite,
    Json,
    MemberRow,
    MemberSessionRow,
    PartitionOwnershipRow,
    RebalanceMemberRow,
    RebalanceRow,
    RecordedChange,
    StoredGroup,
    TransitionRow,
    UndoneChange,
    UnreadableGroup,
)
from coordinator_core.state_store.runs import OutcomeRow
from tests.support.memory_store.constraints import refusal


class Refused(Exception):
    """The group's writes cannot be stored."""


class OffsetHistoryRow(NamedTuple):
    """A row of `offset_history`."""

    group_id: str
    shard_id: int
    topic: str
    partition: int
    at_ms: int
    offset: int
    log_end_offset: int | None
    member_id: str
    token_id: str | None = None
    client_address: str | None = None


@dataclass(slots=True)
class StoredOffsetRow:
    """A row of `offsets`."""

    record: CommittedOffset
    shard_id: int
    commit_version: int
    origin: CommitOrigin = UNKNOWN_ORIGIN

    @property
    def minute_ms(self) -> int:
        """Return the minute of the commit."""
        return minute_ms(self.record.at_ms)


@dataclass(slots=True)
class Group:
    """The current rows of one group."""

    row: GroupRow | None = None
    members: dict[str, MemberRow] = field(default_factory=dict)
    offsets: dict[tuple[str, int], StoredOffsetRow] = field(default_factory=dict)

    def draft(self) -> "Group":
        """Return a copy, which may be changed."""
        return Group(self.row, dict(self.members), dict(self.offsets))


@dataclass(slots=True)
class History:
    """History rows."""

    transitions: list[TransitionRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    ownerships: list[PartitionOwnershipRow] = field(default_factory=list)
    rebalance_members: list[RebalanceMemberRow] = field(default_factory=list)
    sessions: list[MemberSessionRow] = field(default_factory=list)
    offset_history: list[OffsetHistoryRow] = field(default_factory=list)
    archived: list[ArchivedOffset] = field(default_factory=list)
    changes: list[ChangeRow] = field(default_factory=list)
    undone: list[UndoneChange] = field(default_factory=list)
    outcomes: list[OutcomeRow] = field(default_factory=list)

    def extend(self, other: "History") -> None:
        """Add the rows of another history."""
        self.transitions += other.transitions
        self.rebalances += other.rebalances
        self.ownerships += other.ownerships
        self.rebalance_members += other.rebalance_members
        self.sessions += other.sessions
        self.offset_history += other.offset_history
        self.archived += other.archived
        self.changes += other.changes
        self.undone += other.undone


class Groups:
    """All groups by id, and all history."""

    def __init__(self) -> None:
        self.history = History()
        self._groups: dict[str, Group] = {}
        self._commit_version = 0
        self._unique: set[tuple[object, ...]] = set()

    # -- writing ------------------------------------------------------------------------------------------

    def write(self, group_id: str, writes: Iterable[GroupWrite]) -> History:
        """Store all of a group's writes; return their history rows.

        Raises:
            Refused: they cannot be stored; the group did not change.
        """
        draft, news = self._groups.get(group_id, Group()).draft(), History()
        for group_write in writes:
            fault = refusal(group_write)
            if fault is not None:
                raise Refused(fault)
            self._write_group(draft, group_write)
            self._write_offsets(draft, news, group_write)
            news.transitions += group_write.transitions
            news.rebalances += group_write.rebalances
            news.ownerships += group_write.ownerships
            news.rebalance_members += group_write.rebalance_members
            news.sessions += group_write.sessions
            news.changes += group_write.changes
            news.undone += group_write.undone
            news.outcomes += group_write.outcomes
        self._keep_unique(news)
        self._groups[group_id] = draft
        self.history.extend(news)
        return news

    def draw_commit_version(self) -> int:
        """Return a version that is greater than all before."""
        self._commit_version += 1
        return self._commit_version

    def checkpoint(self, dirty: DirtyOffsets) -> History:
        """Store dirty offsets; return their history rows."""
        news = History()
        for group_id, of_group in _by_group(dirty).items():
            self._store_dirty(self._groups.setdefault(group_id, Group()), news, of_group)
        self.history.extend(news)
        return news

    def _store_dirty(self, draft: Group, news: History, dirty: DirtyOffsets) -> None:
        """Store a group's offsets that are newer than the stored ones."""
        for commit, offset in dirty.superseded:
            if not self._is_in_history(commit, offset):
                news.offset_history.append(_past(commit.group_id, _offset_row(commit, offset, is_named=False)))
        for commit, offset in dirty.commits.values():
            key = (offset.topic, offset.partition)
            before = draft.offsets.get(key)
            if before is not None and before.commit_version >= commit.commit_version:
                continue
            if before is not None and before.minute_ms < commit.first_minute_ms:
                news.offset_history.append(_past(commit.group_id, before))
            is_named = before is None or offset.offset < before.record.offset
            draft.offsets[key] = _offset_row(commit, offset, is_named=is_named)

    def _is_in_history(self, commit: Commit, offset: OffsetToCommit) -> bool:
        key = (commit.group_id, commit.shard_id, offset.topic, offset.partition, commit.record.at_ms)
        return any(row[:5] == key for row in self.history.offset_history)

    def record_change(self, change: ChangeRow) -> None:
        """Add a change that is not part of a group's write."""
        self._keep_unique(History(changes=[change]))
        self.history.changes.append(change)

    def change_exists(self, change_id: str) -> bool:
        """Return whether a change exists."""
        return ("changes", change_id) in self._unique

    def change(self, change_id: str) -> RecordedChange | None:
        """Return one change, or None if it does not exist."""
        return next((self._recorded(row) for row in self.history.changes if row.change_id == change_id), None)

    def undone_changes(self, group_id: str) -> list[RecordedChange]:
        """Return the changes of a group that were undone."""
        recorded = [self._recorded(one) for one in self.history.changes if one.group_id == group_id]
        return [found for found in recorded if found.undone_at_ms is not None]

    def newest_settings_ms(self, group_id: str | None) -> int:
        """Return the time of the newest change of these settings; 0 if there is none."""
        kind = (ChangeAction.PUT_SETTINGS, group_id)
        return max((one.at_ms for one in self.history.changes if (one.action, one.group_id) == kind), default=0)

    def settings_changed_since(self, change: ChangeRow) -> set[str]:
        """Return the keys that later changes of the same settings have set, without changes that were undone."""
        kind = (ChangeAction.PUT_SETTINGS, change.group_id)
        later = [one for one in self.history.changes if (one.action, one.group_id) == kind and one.at_ms > change.at_ms]
        return {key for one in later if self._recorded(one).undone_at_ms is None for key in one.after}

    def _recorded(self, change: ChangeRow) -> RecordedChange:
        undone = next((one for one in self.history.undone if one.change_id == change.change_id), None)
        return RecordedChange(change, undone and undone.at_ms, undone and undone.undone_by_change_id)

    def _write_group(self, draft: Group, group_write: GroupWrite) -> None:
        if group_write.is_group_deleted:
            draft.row = None
            draft.members.clear()
        if group_write.group is not None:
            draft.row = _copied_group(group_write.group)
        for member_id, member in group_write.members.items():
            if member is None:
                draft.members.pop(member_id, None)
            else:
                draft.members[member_id] = _copied_member(member)

    def _write_offsets(self, draft: Group, news: History, group_write: GroupWrite) -> None:
        for removed in group_write.removed:
            stored_offset = draft.offsets.get((removed.offset.topic, removed.offset.partition))
            if stored_offset is not None and stored_offset.commit_version == removed.offset.commit_version:
                del draft.offsets[removed.offset.topic, removed.offset.partition]
                news.archived.append(_archived(group_write.group_id, stored_offset, removed))
        if group_write.committed:
            commits = LoggedCommits(group_write.shard_id, group_write.group_id, group_write.committed)
            self._store_dirty(draft, news, dirty_offsets([(self.draw_commit_version(), commits)]))

    def _keep_unique(self, news: History) -> None:
        keys: list[tuple[object, ...]] = [("changes", change.change_id) for change in news.changes]
        keys += [("rebalances", row.rebalance_id, row.completed_at_ms) for row in news.rebalances]
        keys += [("parts", row.rebalance_id, row.completed_at_ms, row.member_id) for row in news.rebalance_members]
        keys += [("archive", row.change_id, row.group_id, row.topic, row.partition) for row in news.archived]
        if len(set(keys)) < len(keys) or not self._unique.isdisjoint(keys):
            raise Refused("duplicate key")
        self._unique.update(keys)

    def standing(self, group_id: str) -> Group:
        """Return a group's current rows, which tests may change as SQL by hand can."""
        return self._groups.get(group_id, Group())

    def jump(self, jump: Jump) -> None:
        """Raise every generation and the commit version; let every group with members rebalance."""
        self._commit_version += jump.commit_versions
        for group in self._groups.values():
            if group.row is not None:
                group.row = _raised(group.row, jump)

    def last_changed_at_ms(self) -> int:
        """Return when a group last changed its state; 0 without groups."""
        return max((group.row.state_since_ms for group in self._groups.values() if group.row), default=0)

    # -- reading ------------------------------------------------------------------------------------------

    def load(self, shard_ids: frozenset[int]) -> list[StoredGroup | UnreadableGroup]:
        """Return the groups of the shards by id, their members in join order."""
        found = [each for group_id in sorted(self._groups) if (each := self.load_one(group_id)) is not None]
        ours = [each for each in found if each.shard_id in shard_ids]
        return sorted(ours, key=lambda each: isinstance(each, UnreadableGroup))

    def load_one(self, group_id: str) -> StoredGroup | UnreadableGroup | None:
        """Return one group with its members in join order, or None if it has no row."""
        group = self._groups.get(group_id, Group())
        if group.row is not None:
            return StoredGroup(_copied_group(group.row), _in_order(group.members.values()))
        shards = [member.shard_id for member in group.members.values()]
        return UnreadableGroup(group_id, shards[0], WITHOUT_GROUP) if shards else None

    def edit(self, group_id: str, columns: Mapping[str, Any]) -> None:
        """Change columns of a group's row without checks."""
        group = self._groups[group_id]
        assert group.row is not None, "there is no row to edit"
        group.row = replace(group.row, **columns)

    def fetch(self, group_id: str, topics: frozenset[str] | None) -> list[FetchedOffset]:
        """Return committed offsets by topic and partition."""
        return [
            FetchedOffset(
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                leader_epoch=record.leader_epoch,
                metadata=record.metadata,
                committed_at_ms=record.at_ms,
                log_end_offset=record.log_end_offset,
                expires_at_ms=record.expires_at_ms,
            )
            for (topic, _), record in self.committed_offsets(group_id)
            if topics is None or topic in topics
        ]

    def stored(self, group_id: str, partitions: frozenset[tuple[str, int]] | None) -> list[StoredOffset]:
        """Return offsets by topic and partition, each with its commit version."""
        group = self._groups.get(group_id, Group())
        return [
            StoredOffset(
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                leader_epoch=record.leader_epoch,
                metadata=record.metadata,
                log_end_offset=record.log_end_offset,
                committed_at_ms=record.at_ms,
                expires_at_ms=record.expires_at_ms,
                commit_version=group.offsets[key].commit_version,
                log_end_at_ms=record.log_end_at_ms,
            )
            for key, record in self.committed_offsets(group_id)
            if partitions is None or key in partitions
        ]

    def archived(
        self, change_id: str, group_id: str, partitions: frozenset[tuple[str, int]] | None
    ) -> list[ArchivedOffset]:
        """Return a group's offsets that a change archived, by topic and partition."""
        taken = [row for row in self.history.archived if (row.change_id, row.group_id) == (change_id, group_id)]
        wanted = [row for row in taken if partitions is None or (row.topic, row.partition) in partitions]
        return sorted(wanted, key=lambda row: (row.topic, row.partition))

    def all_stored(self) -> list[tuple[str, int, StoredOffset]]:
        """Return every offset with its group and shard."""
        return [
            (group_id, group.offsets[one.topic, one.partition].shard_id, one)
            for group_id, group in sorted(self._groups.items(), key=lambda entry: entry[0])
            for one in self.stored(group_id, None)
        ]

    def committed_offsets(self, group_id: str) -> list[tuple[tuple[str, int], CommittedOffset]]:
        """Return a group's offsets with their keys, by topic and partition."""
        group = self._groups.get(group_id, Group())
        return [
            (key, stored_offset.record)
            for key, stored_offset in sorted(group.offsets.items(), key=lambda entry: entry[0])
        ]


def _raised(row: GroupRow, jump: Jump) -> GroupRow:
    has_members = row.state_before_join_phase != EMPTY
    return replace(
        row,
        generation=(row.generation + jump.generations) & GENERATION_MAX,
        protocol_type=row.protocol_type if row.generation > 0 else None,
        must_rebalance=has_members,
        rebalance_trigger=Trigger.DATABASE_RESTORED if has_members else row.rebalance_trigger,
    )


def _in_order(members: Iterable[MemberRow]) -> tuple[MemberRow, ...]:
    return tuple(_copied_member(row) for row in sorted(members, key=lambda row: (row.join_order, row.member_id)))


def _copied_group(row: GroupRow) -> GroupRow:
    """Copy the row's JSON, so that the caller's changes do not affect the stored row."""
    return replace(row, rebalance=_copied(row.rebalance)) if row.rebalance is not None else row


def _copied_member(row: MemberRow) -> MemberRow:
    return replace(
        row,
        subscription_json=_copied(row.subscription_json),
        assignment_json=_copied(row.assignment_json),
        ownership=_copied(row.ownership),
    )


def _copied(value: Json) -> Json:
    return msgspec.json.decode(msgspec.json.encode(value)) if value else value


def _offset_row(commit: Commit, offset: OffsetToCommit, *, is_named: bool) -> StoredOffsetRow:
    """Return the row of an offset; it keeps its origin if it `is_named`, or without a member."""
    origin = commit.origin if is_named or not commit.record.member_id else UNKNOWN_ORIGIN
    return StoredOffsetRow(commit.record.committed_offset(offset), commit.shard_id, commit.commit_version, origin)


def _past(group_id: str, stored_offset: StoredOffsetRow) -> OffsetHistoryRow:
    record = stored_offset.record
    return OffsetHistoryRow(
        group_id,
        stored_offset.shard_id,
        record.topic,
        record.partition,
        record.at_ms,
        record.offset,
        record.log_end_offset if record.log_end_at_ms is None else None,
        record.member_id,
        *astuple(stored_offset.origin),
    )


def _archived(group_id: str, stored_offset: StoredOffsetRow, removed: OffsetRemoved) -> ArchivedOffset:
    record = stored_offset.record
    return ArchivedOffset(
        change_id=removed.change_id,
        group_id=group_id,
        shard_id=stored_offset.shard_id,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        log_end_offset=record.log_end_offset,
        committed_at_ms=record.at_ms,
        archived_at_ms=removed.at_ms,
        cause=removed.cause,
        log_end_at_ms=record.log_end_at_ms,
    )


def _by_group(dirty: DirtyOffsets) -> dict[str, DirtyOffsets]:
    groups: dict[str, DirtyOffsets] = {}
    for commit, offset in dirty.superseded:
        groups.setdefault(commit.group_id, DirtyOffsets()).superseded.append((commit, offset))
    for key, (commit, offset) in dirty.commits.items():
        groups.setdefault(commit.group_id, DirtyOffsets()).commits[key] = (commit, offset)
    return groups


def dirty_offsets(logged: Iterable[tuple[int, LoggedCommits]]) -> DirtyOffsets:
    """Return the dirty offsets of commits with their positions in the log, the oldest first."""
    dirty = DirtyOffsets()
    for commit_version, commits in logged:
        dirty.add(commits, commit_version)
    return dirty
