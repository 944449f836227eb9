"""Folding of batches: the last write or deletion of each key is kept, and all rows of history.

Rules:

* Deleting a group drops all earlier writes of the batch to its row and its members; the same batch may create it again.
* A removal refers to the stored row, which is the newest one: its group is locked.
* Commits that go to the offset log are not folded here (offset_log.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator_core.protocol.records import OffsetRemoved
from coordinator_core.state_store.dirty_offsets import DirtyOffsets, OffsetKey
from coordinator_core.state_store.offset_log import LoggedCommits
from coordinator_core.state_store.rows import (
    ChangeRow,
    GroupRow,
    GroupWrite,
    MemberRow,
    MemberSessionRow,
    MirrorPosition,
    PartitionOwnershipRow,
    RebalanceMemberRow,
    RebalanceRow,
    TransitionRow,
    UndoneChange,
)
from coordinator_core.state_store.runs import OutcomeRow


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
    commits: DirtyOffsets = field(default_factory=DirtyOffsets)
    """Commits that are stored without the offset log."""
    removals: dict[tuple[OffsetKey, int], OffsetRemoved] = field(default_factory=dict)
    """By key and commit version; the first of equal ones counts."""
    outcomes: dict[tuple[str, OffsetKey], OutcomeRow] = field(default_factory=dict)
    transitions: list[TransitionRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    ownerships: list[PartitionOwnershipRow] = field(default_factory=list)
    rebalance_members: list[RebalanceMemberRow] = field(default_factory=list)
    sessions: list[MemberSessionRow] = field(default_factory=list)
    changes: list[ChangeRow] = field(default_factory=list)
    undone: list[UndoneChange] = field(default_factory=list)
    mirror_positions: dict[int, MirrorPosition] = field(default_factory=dict)
    """By shard."""


def fold(writes: Iterable[GroupWrite], commit_version: int = 0) -> Folded:
    """Fold writes, which are in the order of the decisions.

    Args:
        writes: the writes.
        commit_version: the version of commits that are stored without the offset log.
    """
    folded = Folded()
    for write in writes:
        _fold_group(folded, write)
        for removed in write.removed:
            key = (write.group_id, removed.offset.topic, removed.offset.partition)
            folded.removals.setdefault((key, removed.offset.commit_version), removed)
        if write.committed:
            folded.commits.add(LoggedCommits(write.shard_id, write.group_id, write.committed), commit_version)
        for outcome in write.outcomes:
            candidate = (outcome.run_id, (outcome.group_id, outcome.topic, outcome.partition))
            folded.outcomes.setdefault(candidate, outcome)
        folded.transitions += write.transitions
        folded.rebalances += write.rebalances
        folded.ownerships += write.ownerships
        folded.rebalance_members += write.rebalance_members
        folded.sessions += write.sessions
        folded.changes += write.changes
        folded.undone += write.undone
        if write.mirror_position is not None:
            folded.mirror_positions[write.shard_id] = write.mirror_position
    return folded


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
