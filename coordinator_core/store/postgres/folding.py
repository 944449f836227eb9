"""Folding of batches: the last write or deletion of each key is kept, and all rows of history.

Rules:

* Deleting a group drops all earlier writes of the batch to its row and its members; the same batch may create it again.
* A removal refers to the stored row. After a commit of the same batch it has no effect, because its row is replaced.
* `offset_history` gets the last committed offset of each minute when a later minute has a commit. So a commit that
  replaces one of an earlier minute in the same batch adds that one to history.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator_core.protocol.records import OffsetRemoved, OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.store.rows import (
    ChangeRow,
    GroupRow,
    GroupWrite,
    MemberRow,
    MemberSessionRow,
    PartitionOwnershipRow,
    RebalanceMemberRow,
    RebalanceRow,
    TransitionRow,
    UndoneChange,
)
from coordinator_core.store.runs import OutcomeRow

MINUTE_MS = 60_000

OffsetKey = tuple[str, str, int]
"""Group, topic and partition."""


class Commit(NamedTuple):
    """The common values of the offsets of a commit."""

    group_id: str
    shard_id: int
    first_minute_ms: int
    """The minute of the batch's first commit of the partition: an older stored offset belongs to history."""
    record: OffsetsCommitted


FoldedCommit = tuple[Commit, OffsetToCommit]
"""The last offset of a partition in a batch, with its commit. A plain tuple, because there are very many."""


class RemovalReason(NamedTuple):
    """A stored offset that moves to the archive."""

    group_id: str
    record: OffsetRemoved


@dataclass(slots=True)
class FoldedGroup:
    """The result of a batch for one group: its row, and members that changed (None: deleted)."""

    is_deleted: bool = False
    row: GroupRow | None = None
    members: dict[str, MemberRow | None] = field(default_factory=dict)


@dataclass(slots=True)
class Folded:
    """A folded batch, by table."""

    groups: dict[str, FoldedGroup] = field(default_factory=dict)
    commits: dict[OffsetKey, FoldedCommit] = field(default_factory=dict)
    minutes: set[int] = field(default_factory=set)
    """The minutes in which the batch's commits were made."""
    has_older_log_ends: bool = False
    """Whether commits have log ends that were reported before them."""
    superseded: list[FoldedCommit] = field(default_factory=list)
    """Offsets that are replaced within the batch, but were the last of their minutes."""
    removals: dict[tuple[OffsetKey, int], RemovalReason] = field(default_factory=dict)
    """By key and commit version; the first of equal ones counts."""
    outcomes: dict[tuple[str, OffsetKey], OutcomeRow] = field(default_factory=dict)
    transitions: list[TransitionRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    ownerships: list[PartitionOwnershipRow] = field(default_factory=list)
    rebalance_members: list[RebalanceMemberRow] = field(default_factory=list)
    sessions: list[MemberSessionRow] = field(default_factory=list)
    changes: list[ChangeRow] = field(default_factory=list)
    undone: list[UndoneChange] = field(default_factory=list)


def fold_commits(writes: Iterable[GroupWrite]) -> Folded:
    """Fold only the commits of writes, which are in the order of the decisions."""
    folded = Folded()
    for write in writes:
        _fold_commits(folded, write)
    return folded


def fold(writes: Iterable[GroupWrite]) -> Folded:
    """Fold writes, which are in the order of the decisions."""
    folded = Folded()
    for write in writes:
        _fold_group(folded, write)
        for removed in write.removed:
            _fold_removal(folded, write, removed)
        _fold_commits(folded, write)
        for outcome in write.outcomes:
            key = (outcome.run_id, (outcome.group_id, outcome.topic, outcome.partition))
            folded.outcomes.setdefault(key, outcome)
        folded.transitions += write.transitions
        folded.rebalances += write.rebalances
        folded.ownerships += write.ownerships
        folded.rebalance_members += write.rebalance_members
        folded.sessions += write.sessions
        folded.changes += write.changes
        folded.undone += write.undone
    return folded


def minute_ms(instant_ms: int) -> int:
    """Return the start of the minute of a time."""
    return instant_ms - instant_ms % MINUTE_MS


def _fold_group(folded: Folded, write: GroupWrite) -> None:
    if not (write.is_group_deleted or write.group or write.members):
        return
    group = folded.groups.setdefault(write.group_id, FoldedGroup())
    if write.is_group_deleted:
        group.is_deleted = True
        group.row = None
        group.members.clear()
    if write.group is not None:
        group.row = write.group
    group.members.update(write.members)


def _fold_removal(folded: Folded, write: GroupWrite, removed: OffsetRemoved) -> None:
    key = (write.group_id, removed.offset.topic, removed.offset.partition)
    if key not in folded.commits:
        removal = RemovalReason(write.group_id, removed)
        folded.removals.setdefault((key, removed.offset.commit_version), removal)


def _fold_commits(folded: Folded, write: GroupWrite) -> None:
    for record in write.committed:
        commit = Commit(write.group_id, write.shard_id, minute_ms(record.at_ms), record)
        entries = {(write.group_id, one.topic, one.partition): (commit, one) for one in record.offsets}
        if not folded.commits.keys().isdisjoint(entries):
            _supersede(folded, entries)
        folded.commits.update(entries)
        folded.minutes.add(commit.first_minute_ms)
        folded.has_older_log_ends |= record.log_end_at_ms is not None


def _supersede(folded: Folded, entries: dict[OffsetKey, FoldedCommit]) -> None:
    """Replace earlier offsets of the batch."""
    for key, (commit, offset) in entries.items():
        earlier = folded.commits.get(key)
        if earlier is None:
            continue
        before, _ = earlier
        if minute_ms(before.record.at_ms) < minute_ms(commit.record.at_ms):
            folded.superseded.append(earlier)
        if before.first_minute_ms != commit.first_minute_ms:
            entries[key] = (commit._replace(first_minute_ms=before.first_minute_ms), offset)
