"""Deletion of committed offsets by operators; they go to the archive.

Source: http-api.md "Operator requests".
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from coordinator_core.admin.change_payloads import deleted_json, offsets_json, recorded_deletion, removed
from coordinator_core.admin.changes import Change, ChangeRecorder, recorded_change
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import DeleteOffsets, StoredOffset
from coordinator_core.protocol.responses import Answer, DeleteOffsetsResponse
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import Json

MAX_DELETED: Final = 10_000
"""How many offsets one operation deletes by default: more would keep the event loop and the writer busy for seconds."""
Listed = Callable[[], Awaitable[Sequence[tuple[str, int]]]]
"""Returns the partitions whose offsets are to be deleted, while the group is locked."""


async def dry_run_delete_offsets(
    coordinator: Coordinator, group_id: str, topic: str, partition: int | None, *, max_deleted: int = MAX_DELETED
) -> DeleteOffsetsResponse:
    """Return what a deletion of offsets would do; nothing is stored.

    Raises:
        InvalidRequest: there are more than `max_deleted`.
        GroupIdNotFound: there is no such group.
        NonEmptyGroup: it has members, and their subscriptions are not known.
    """
    listed = partial(_partitions_of, coordinator, group_id, topic, partition, max_deleted)
    return await _dry_run(coordinator, group_id, listed)


async def delete_offsets(
    coordinator: Coordinator,
    group_id: str,
    topic: str,
    partition: int | None,
    change: Change,
    *,
    max_deleted: int = MAX_DELETED,
) -> DeleteOffsetsResponse:
    """Delete a topic's offsets, or that of one partition; they go to the archive under the change.

    Raises:
        InvalidRequest: there are more than `max_deleted`.
        GroupIdNotFound: there is no such group.
        NonEmptyGroup: it has members, and their subscriptions are not known.
    """
    listed = partial(_partitions_of, coordinator, group_id, topic, partition, max_deleted)
    return await _delete(coordinator, group_id, {"topic": topic, "partition": partition}, listed, change)


async def delete_partitions(
    coordinator: Coordinator, group_id: str, partitions: Sequence[tuple[str, int]], change: Change
) -> DeleteOffsetsResponse:
    """Delete the offsets of partitions of any topics, as one change; without partitions there is none.

    Raises:
        GroupIdNotFound: there is no such group.
        NonEmptyGroup: it has members, and their subscriptions are not known.
    """
    topics, numbers = {topic for topic, _ in partitions}, {partition for _, partition in partitions}
    topic = topics.pop() if len(topics) == 1 else None
    partition = numbers.pop() if topic is not None and len(numbers) == 1 else None

    async def listed() -> Sequence[tuple[str, int]]:
        return partitions

    if not partitions:
        return await _dry_run(coordinator, group_id, listed)
    return await _delete(coordinator, group_id, {"topic": topic, "partition": partition}, listed, change)


async def _dry_run(coordinator: Coordinator, group_id: str, listed: Listed) -> DeleteOffsetsResponse:
    """Return what a deletion of the listed offsets would do."""
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        request = await _deletion(coordinator, group_id, await listed(), None)
        answer = await submit(request.token, request, None)
    assert isinstance(answer, DeleteOffsetsResponse)
    return answer


async def _delete(
    coordinator: Coordinator, group_id: str, arguments: Json, listed: Listed, change: Change
) -> DeleteOffsetsResponse:
    """Delete the listed offsets, unless the change was made before."""
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        earlier = await recorded_change(coordinator, change, ChangeAction.DELETE_OFFSETS, group_id, arguments)
        if earlier is not None:
            return recorded_deletion(earlier)
        request = await _deletion(coordinator, group_id, await listed(), change)
        describe = partial(_describe_deletion, arguments, request.stored)
        recorder = ChangeRecorder(change, ChangeAction.DELETE_OFFSETS, group_id, request.token, describe)
        answer = await submit(request.token, request, recorder.extra_rows)
    assert isinstance(answer, DeleteOffsetsResponse)
    return answer


async def _partitions_of(
    coordinator: Coordinator, group_id: str, topic: str, partition: int | None, max_deleted: int
) -> list[tuple[str, int]]:
    """Return the partition, or those of the topic that have offsets."""
    if partition is not None:
        return [(topic, partition)]
    listed = partial(coordinator.store.fetch_offsets, group_id, [topic], limit=max_deleted + 1)
    found = [(one.topic, one.partition) for one in await coordinator.read(listed)]
    if len(found) > max_deleted:
        raise InvalidRequest(f"the group has more than {max_deleted} offsets in the topic: name a partition")
    return found


async def _deletion(
    coordinator: Coordinator, group_id: str, partitions: Sequence[tuple[str, int]], change: Change | None
) -> DeleteOffsets:
    """Return the deletion with the stored offsets; without a change it is a dry run."""
    stored = await coordinator.read(partial(coordinator.store.stored_offsets, group_id, partitions))
    return DeleteOffsets(
        token=coordinator.new_token(),
        partitions=tuple(partitions),
        stored=tuple(stored),
        change_id="" if change is None else change.change_id,
        is_dry_run=change is None,
    )


def _describe_deletion(
    arguments: Json, stored: tuple[StoredOffset, ...], _before: Group, _after: Group, answer: Answer
) -> tuple[Json, Json] | None:
    assert isinstance(answer, DeleteOffsetsResponse)
    if answer.is_refused:
        return None
    return offsets_json(removed(stored, answer)), {**arguments, **deleted_json(answer)}
