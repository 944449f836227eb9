"""What a change keeps of an act on offsets: enough to tell a reader, to answer a repeat, and to take it back.

A list of offsets in `changes` has at most `NOTED_OFFSETS_MAX` entries, and its true length beside it; whatever was
taken away is in `archived_offsets`, all of it. A reset is never cut: it names no more partitions than one request may.
"""

from collections.abc import Iterable

from coordinator_core.protocol.errors import GroupSubscribedToTopic
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.replies import (
    OffsetsDeleted,
    OffsetsReset,
    OffsetsRestored,
    PartitionResult,
    ResetResult,
)
from coordinator_core.protocol.requests import OffsetToRestore, StoredOffset
from coordinator_core.store.rows import ArchivedOffset, ChangeRow, Json

NOTED_OFFSETS_MAX = 10_000
NO_ERROR = "NONE"


def group_json(group: Group) -> Json:
    """Return how a group stands, in a few words."""
    return {"state": str(group.state), "generation": group.generation, "member_count": len(group.members)}


def offsets_json(stored: Iterable[StoredOffset]) -> Json:
    """Return offsets as they stood."""
    return _cut([{"topic": one.topic, "partition": one.partition, "offset": one.offset} for one in stored])


def _cut(entries: list[Json]) -> Json:
    """Return the first entries of a list, and how many it has."""
    return {"offsets": entries[:NOTED_OFFSETS_MAX], "offset_count": len(entries)}


# -- deletions --------------------------------------------------------------------------------------------


def removed(stored: Iterable[StoredOffset], answer: OffsetsDeleted) -> list[StoredOffset]:
    """Return the offsets that a deletion took."""
    gone = {(topic, partition) for topic, partition, error in answer.offsets if error is None}
    return [one for one in stored if (one.topic, one.partition) in gone]


def deleted_json(answer: OffsetsDeleted) -> Json:
    """Return what became of every partition of a deletion."""
    results = [
        {"topic": topic, "partition": partition, "code": NO_ERROR if error is None else error.code}
        for topic, partition, error in answer.offsets
    ]
    return _cut(results)


def deletion_noted(change: ChangeRow) -> OffsetsDeleted:
    """Return what a deletion was answered."""
    results = [(one["topic"], one["partition"], one["code"] == NO_ERROR) for one in change.after["offsets"]]
    return OffsetsDeleted(
        tuple(
            PartitionResult(topic, partition, None if is_gone else GroupSubscribedToTopic())
            for topic, partition, is_gone in results
        )
    )


# -- resets -----------------------------------------------------------------------------------------------


def reset_before(answer: OffsetsReset) -> Json:
    """Return where the partitions stood that had a position."""
    old = [one for one in answer.offsets if one.old_offset is not None]
    return {"offsets": [{"topic": one.topic, "partition": one.partition, "offset": one.old_offset} for one in old]}


def reset_after(answer: OffsetsReset) -> Json:
    """Return where every partition stands now."""
    new = [
        {"topic": one.topic, "partition": one.partition, "offset": one.new_offset, "note": one.note}
        for one in answer.offsets
    ]
    return {"offsets": new}


def reset_noted(change: ChangeRow) -> OffsetsReset:
    """Return what a reset was answered."""
    old = {(one["topic"], one["partition"]): one["offset"] for one in change.before["offsets"]}
    results = [
        ResetResult(
            one["topic"], one["partition"], old.get((one["topic"], one["partition"])), one["offset"], one["note"]
        )
        for one in change.after["offsets"]
    ]
    return OffsetsReset(tuple(results))


# -- undo -------------------------------------------------------------------------------------------------


def to_restore(taken: ArchivedOffset) -> OffsetToRestore:
    """Return what a change took, as a decision needs it; the change left nothing there."""
    reported_at_ms = None if taken.log_end_offset is None else taken.log_end_at_ms or taken.committed_at_ms
    kept = (taken.offset, taken.leader_epoch, taken.metadata, taken.log_end_offset, reported_at_ms)
    return OffsetToRestore(taken.topic, taken.partition, *kept)


def reset_to_restore(change: ChangeRow, taken: Iterable[ArchivedOffset]) -> tuple[OffsetToRestore, ...]:
    """Return every partition of a reset: what stood there, if anything did, and what the reset put there."""
    old = {(one.topic, one.partition): to_restore(one) for one in taken}
    each = [
        old.get((one["topic"], one["partition"]), OffsetToRestore(one["topic"], one["partition"], None))._replace(
            left_offset=one["offset"], left_at_ms=change.at_ms
        )
        for one in change.after["offsets"]
    ]
    return tuple(each)


def restored_json(answer: OffsetsRestored) -> Json:
    """Return what became of every partition of an undo."""
    results = [
        {"topic": topic, "partition": partition, "outcome": outcome, "offset": offset}
        for topic, partition, outcome, offset in answer.offsets
    ]
    return _cut(results)
