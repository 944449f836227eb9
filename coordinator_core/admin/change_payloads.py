"""The `before` and `after` of changes of offsets, as JSON: enough to show, repeat and undo a change.

A list of offsets in `changes` has at most `RECORDED_OFFSETS_MAX` entries, and its full length beside it; all removed
offsets are in `archived_offsets`. The list of a reset is never cut: a request limits its partitions.
"""

from collections.abc import Iterable

from coordinator_core.protocol.errors import GroupSubscribedToTopic
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import OffsetToRestore, StoredOffset
from coordinator_core.protocol.responses import (
    DeleteOffsetsResponse,
    PartitionResult,
    ResetOffsetsResponse,
    ResetResult,
    RestoreOffsetsResponse,
)
from coordinator_core.state_store.rows import ArchivedOffset, ChangeRow, Json

RECORDED_OFFSETS_MAX = 10_000
NO_ERROR = "NONE"


def group_json(group: Group) -> Json:
    """Return the state, generation and member count of a group."""
    return {"state": str(group.state), "generation": group.generation, "member_count": len(group.members)}


def offsets_json(stored: Iterable[StoredOffset]) -> Json:
    """Return offsets as they were stored."""
    return _cut([{"topic": one.topic, "partition": one.partition, "offset": one.offset} for one in stored])


def _cut(entries: list[Json]) -> Json:
    """Return the first entries of a list, and how many it has."""
    return {"offsets": entries[:RECORDED_OFFSETS_MAX], "offset_count": len(entries)}


# -- deletions --------------------------------------------------------------------------------------------


def removed(stored: Iterable[StoredOffset], answer: DeleteOffsetsResponse) -> list[StoredOffset]:
    """Return the offsets that a deletion removed."""
    deleted = {(topic, partition) for topic, partition, error in answer.offsets if error is None}
    return [one for one in stored if (one.topic, one.partition) in deleted]


def deleted_json(answer: DeleteOffsetsResponse) -> Json:
    """Return the outcome of every partition of a deletion."""
    results = [
        {"topic": topic, "partition": partition, "code": NO_ERROR if error is None else error.code}
        for topic, partition, error in answer.offsets
    ]
    return _cut(results)


def recorded_deletion(change: ChangeRow) -> DeleteOffsetsResponse:
    """Return the response that a recorded deletion had."""
    results = [(one["topic"], one["partition"], one["code"] == NO_ERROR) for one in change.after["offsets"]]
    return DeleteOffsetsResponse(
        tuple(
            PartitionResult(topic, partition, None if is_deleted else GroupSubscribedToTopic())
            for topic, partition, is_deleted in results
        )
    )


# -- resets -----------------------------------------------------------------------------------------------


def reset_before(answer: ResetOffsetsResponse) -> Json:
    """Return the offsets of the partitions that had one."""
    old = [one for one in answer.offsets if one.old_offset is not None]
    return {"offsets": [{"topic": one.topic, "partition": one.partition, "offset": one.old_offset} for one in old]}


def reset_after(answer: ResetOffsetsResponse) -> Json:
    """Return the new offset of every partition."""
    new = [
        {"topic": one.topic, "partition": one.partition, "offset": one.new_offset, "note": one.note}
        for one in answer.offsets
    ]
    return {"offsets": new}


def recorded_reset(change: ChangeRow) -> ResetOffsetsResponse:
    """Return the response that a recorded reset had."""
    old = {(one["topic"], one["partition"]): one["offset"] for one in change.before["offsets"]}
    results = [
        ResetResult(
            one["topic"], one["partition"], old.get((one["topic"], one["partition"])), one["offset"], one["note"]
        )
        for one in change.after["offsets"]
    ]
    return ResetOffsetsResponse(tuple(results))


# -- undo -------------------------------------------------------------------------------------------------


def reset_to_restore(change: ChangeRow, taken: Iterable[ArchivedOffset]) -> tuple[OffsetToRestore, ...]:
    """Return every partition of a reset: its offset before, if there was one, and the one that the reset stored."""
    old = {(one.topic, one.partition): one.to_restore() for one in taken}
    each = [
        old.get((one["topic"], one["partition"]), OffsetToRestore(one["topic"], one["partition"], None))._replace(
            offset_after_change=one["offset"], changed_at_ms=change.at_ms
        )
        for one in change.after["offsets"]
    ]
    return tuple(each)


RestoredOffsets = dict[tuple[str, int, int, int], int]
"""(topic, partition, offset, the time at which an undo committed it) → the time of the commit that it restored."""


def left_or_restored(
    offsets: Iterable[OffsetToRestore], stored: Iterable[StoredOffset], restored: RestoredOffsets
) -> tuple[OffsetToRestore, ...]:
    """Return what a reset left, with the time of the stored commit where undos have restored the reset's own."""
    times: dict[tuple[str, int, int | None], int] = {}
    restored = restored.copy()
    for one in stored:
        at_ms = one.committed_at_ms
        while (found := (one.topic, one.partition, one.offset, at_ms)) in restored:
            at_ms = restored.pop(found)  # Clocks of nodes differ: two times may lead to each other.
        times[one.topic, one.partition, at_ms] = one.committed_at_ms
    return tuple(
        one._replace(changed_at_ms=times.get((one.topic, one.partition, one.changed_at_ms), one.changed_at_ms))
        for one in offsets
    )


def restored_json(answer: RestoreOffsetsResponse) -> Json:
    """Return the outcome of every partition of an undo."""
    results = [
        {"topic": topic, "partition": partition, "outcome": outcome, "offset": offset}
        for topic, partition, outcome, offset in answer.offsets
    ]
    return _cut(results)
