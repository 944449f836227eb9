"""Deletion of committed offsets by operators; they go to the archive.

Source: http-api.md "Operator requests".
"""

from functools import partial

from coordinator_core.admin.change_payloads import deleted_json, offsets_json, recorded_deletion, removed
from coordinator_core.admin.changes import Change, ChangeRecorder, recorded_change
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import DeleteOffsets, StoredOffset
from coordinator_core.protocol.responses import Answer, DeleteOffsetsResponse
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.shard import no_extra_rows
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import Json


async def dry_run_delete_offsets(
    coordinator: Coordinator, group_id: str, topic: str, partition: int | None
) -> DeleteOffsetsResponse:
    """Return what a deletion of offsets would do; nothing is stored.

    Raises:
        GroupIdNotFound: there is no such group.
        NonEmptyGroup: it has members, and their subscriptions are not known.
    """
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        request = await _deletion(coordinator, group_id, topic, partition, None)
        answer = await submit(request.token, request, no_extra_rows)
    assert isinstance(answer, DeleteOffsetsResponse)
    return answer


async def delete_offsets(
    coordinator: Coordinator, group_id: str, topic: str, partition: int | None, change: Change
) -> DeleteOffsetsResponse:
    """Delete a topic's offsets, or that of one partition; they go to the archive under the change.

    Raises:
        GroupIdNotFound: there is no such group.
        NonEmptyGroup: it has members, and their subscriptions are not known.
    """
    arguments = {"topic": topic, "partition": partition}
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        earlier = await recorded_change(coordinator, change, ChangeAction.DELETE_OFFSETS, group_id, arguments)
        if earlier is not None:
            return recorded_deletion(earlier)
        request = await _deletion(coordinator, group_id, topic, partition, change)
        describe = partial(_describe_deletion, arguments, request.stored)
        recorder = ChangeRecorder(change, ChangeAction.DELETE_OFFSETS, group_id, request.token, describe)
        answer = await submit(request.token, request, recorder.extra_rows)
    assert isinstance(answer, DeleteOffsetsResponse)
    return answer


async def _deletion(
    coordinator: Coordinator, group_id: str, topic: str, partition: int | None, change: Change | None
) -> DeleteOffsets:
    """Return the deletion with the stored offsets; without a change it is a dry run."""
    wanted = None if partition is None else [(topic, partition)]
    stored = await coordinator.read(partial(coordinator.store.stored_offsets, group_id, wanted))
    of_topic = tuple(offset for offset in stored if offset.topic == topic)
    return DeleteOffsets(
        token=coordinator.new_token(),
        partitions=tuple(wanted or [(offset.topic, offset.partition) for offset in of_topic]),
        stored=of_topic,
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
