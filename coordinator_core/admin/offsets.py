"""Deletion of committed offsets by operators; they go to the archive.

Source: http-api.md "Operator requests".
"""

from functools import partial
from typing import Final

from coordinator_core.admin.change_payloads import deleted_json, offsets_json, recorded_deletion, removed
from coordinator_core.admin.changes import Change, ChangeRecorder, recorded_change
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import DeleteOffsets, StoredOffset
from coordinator_core.protocol.responses import Answer, DeleteOffsetsResponse
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.shard import no_extra_rows
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import Json

MAX_DELETED: Final = 10_000
"""How many offsets one operation deletes by default: more would keep the event loop and the writer busy for seconds."""


async def dry_run_delete_offsets(
    coordinator: Coordinator, group_id: str, topic: str, partition: int | None, *, max_deleted: int = MAX_DELETED
) -> DeleteOffsetsResponse:
    """Return what a deletion of offsets would do; nothing is stored.

    Raises:
        InvalidRequest: there are more than `max_deleted`.
        GroupIdNotFound: there is no such group.
        NonEmptyGroup: it has members, and their subscriptions are not known.
    """
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        request = await _deletion(coordinator, group_id, topic, partition, None, max_deleted)
        answer = await submit(request.token, request, no_extra_rows)
    assert isinstance(answer, DeleteOffsetsResponse)
    return answer


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
    arguments = {"topic": topic, "partition": partition}
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        earlier = await recorded_change(coordinator, change, ChangeAction.DELETE_OFFSETS, group_id, arguments)
        if earlier is not None:
            return recorded_deletion(earlier)
        request = await _deletion(coordinator, group_id, topic, partition, change, max_deleted)
        describe = partial(_describe_deletion, arguments, request.stored)
        recorder = ChangeRecorder(change, ChangeAction.DELETE_OFFSETS, group_id, request.token, describe)
        answer = await submit(request.token, request, recorder.extra_rows)
    assert isinstance(answer, DeleteOffsetsResponse)
    return answer


async def _deletion(
    coordinator: Coordinator, group_id: str, topic: str, partition: int | None, change: Change | None, max_deleted: int
) -> DeleteOffsets:
    """Return the deletion with the stored offsets; without a change it is a dry run."""
    wanted = [] if partition is None else [(topic, partition)]
    if partition is None:
        listed = partial(coordinator.store.fetch_offsets, group_id, [topic], limit=max_deleted + 1)
        wanted = [(one.topic, one.partition) for one in await coordinator.read(listed)]
        if len(wanted) > max_deleted:
            raise InvalidRequest(f"the group has more than {max_deleted} offsets in the topic: name a partition")
    stored = await coordinator.read(partial(coordinator.store.stored_offsets, group_id, wanted))
    return DeleteOffsets(
        token=coordinator.new_token(),
        partitions=tuple(wanted),
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
