"""A batch is folded by key before it is written: the last write or deletion of a row wins, history keeps all.

Rules:

* A group that is gone takes its row and all its members with it, whatever the batch said of them before; a new life
  of it may follow in the same batch.
* A removal counts against the row that is stored. One that follows a commit of the same batch therefore finds
  nothing: the row it had seen is no more.
* `offset_history` gets the last position of each minute, once that minute is over. So a commit that replaces one
  of an earlier minute in the same batch sends that one to history.
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
    OwnershipRow,
    RebalanceMemberRow,
    RebalanceRow,
    TransitionRow,
    Undone,
)
from coordinator_core.store.runs import OutcomeRow

MINUTE_MS = 60_000

OffsetKey = tuple[str, str, int]
"""Group, topic and partition."""


class Commit(NamedTuple):
    """What the positions of a commit have in common."""

    group_id: str
    shard_id: int
    first_minute_ms: int
    """The minute of the batch's first commit of them: a stored position that is older belongs to history."""
    record: OffsetsCommitted


Position = tuple[Commit, OffsetToCommit]
"""The position that a batch leaves a partition at, with the commit that brought it. There are very many of them."""


class Removal(NamedTuple):
    """A stored offset that goes to the archive."""

    group_id: str
    record: OffsetRemoved


@dataclass(slots=True)
class FoldedGroup:
    """What a batch leaves of one group: its row, and members that changed (None: gone)."""

    is_wiped: bool = False
    row: GroupRow | None = None
    members: dict[str, MemberRow | None] = field(default_factory=dict)


@dataclass(slots=True)
class Folded:
    """What there is to write, a statement a table."""

    groups: dict[str, FoldedGroup] = field(default_factory=dict)
    commits: dict[OffsetKey, Position] = field(default_factory=dict)
    minutes: set[int] = field(default_factory=set)
    """The minutes in which the batch's commits were made."""
    has_older_log_ends: bool = False
    """Whether log ends of its commits were reported before them."""
    superseded: list[Position] = field(default_factory=list)
    """Positions that never reach `offsets`, but were the last ones of their minutes."""
    removals: dict[tuple[OffsetKey, int], Removal] = field(default_factory=dict)
    """By key and by the version that was seen; of two alike the first counts."""
    outcomes: dict[tuple[str, OffsetKey], OutcomeRow] = field(default_factory=dict)
    transitions: list[TransitionRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    ownerships: list[OwnershipRow] = field(default_factory=list)
    rebalance_members: list[RebalanceMemberRow] = field(default_factory=list)
    sessions: list[MemberSessionRow] = field(default_factory=list)
    changes: list[ChangeRow] = field(default_factory=list)
    undone: list[Undone] = field(default_factory=list)


def fold_commits(writes: Iterable[GroupWrite]) -> Folded:
    """Fold the commits of writes in the order in which they were decided, and nothing else of them."""
    folded = Folded()
    for write in writes:
        _fold_commits(folded, write)
    return folded


def fold(writes: Iterable[GroupWrite]) -> Folded:
    """Fold writes in the order in which they were decided."""
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
    """Return the beginning of an instant's minute."""
    return instant_ms - instant_ms % MINUTE_MS


def _fold_group(folded: Folded, write: GroupWrite) -> None:
    if not (write.is_group_gone or write.group or write.members):
        return
    group = folded.groups.setdefault(write.group_id, FoldedGroup())
    if write.is_group_gone:
        group.is_wiped = True
        group.row = None
        group.members.clear()
    if write.group is not None:
        group.row = write.group
    group.members.update(write.members)


def _fold_removal(folded: Folded, write: GroupWrite, removed: OffsetRemoved) -> None:
    key = (write.group_id, removed.offset.topic, removed.offset.partition)
    if key not in folded.commits:
        removal = Removal(write.group_id, removed)
        folded.removals.setdefault((key, removed.offset.commit_version), removal)


def _fold_commits(folded: Folded, write: GroupWrite) -> None:
    for record in write.committed:
        commit = Commit(write.group_id, write.shard_id, minute_ms(record.at_ms), record)
        positions = {(write.group_id, one.topic, one.partition): (commit, one) for one in record.offsets}
        if not folded.commits.keys().isdisjoint(positions):
            _supersede(folded, positions)
        folded.commits.update(positions)
        folded.minutes.add(commit.first_minute_ms)
        folded.has_older_log_ends |= record.log_end_at_ms is not None


def _supersede(folded: Folded, positions: dict[OffsetKey, Position]) -> None:
    """Let positions take the places of earlier ones of the batch."""
    for key, (commit, offset) in positions.items():
        earlier = folded.commits.get(key)
        if earlier is None:
            continue
        before, _ = earlier
        if minute_ms(before.record.at_ms) < minute_ms(commit.record.at_ms):
            folded.superseded.append(earlier)
        if before.first_minute_ms != commit.first_minute_ms:
            positions[key] = (commit._replace(first_minute_ms=before.first_minute_ms), offset)
