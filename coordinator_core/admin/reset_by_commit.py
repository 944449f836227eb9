"""Resets by Kafka's admin clients, which are commits without a member, stored with a change as other resets are.

Source: Kafka's ``AlterConsumerGroupOffsetsHandler``; decision 98.
"""

from collections.abc import Iterable
from functools import partial

from msgspec.structs import replace

from coordinator_core.admin.change_payloads import reset_after, reset_before
from coordinator_core.admin.changes import Change, ChangeRecorder
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit, ResetTo, StoredOffset
from coordinator_core.protocol.responses import Answer, CommitOffsetsResponse, ResetOffsetsResponse, ResetResult
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import Json


async def reset_by_commit(
    coordinator: Coordinator, group_id: str, commit: CommitOffsets, change: Change, *, only_back: bool
) -> CommitOffsetsResponse | None:
    """Commit offsets without a member, and archive the old ones under the change.

    Args:
        coordinator: the node's coordinator.
        group_id: the group.
        commit: the commit, of at least one partition.
        change: the change, which is recorded unless every partition is refused.
        only_back: whether the commit is a reset only if it moves an offset back.

    Returns:
        The response to the commit; None: it is no reset, and nothing was stored.

    Raises:
        UnknownMemberId: the group has members.
        CoordinatorError: a limit of the node, of the client or of the group refuses commits.
    """
    shard = coordinator.serving_shard(group_id)
    coordinator.admission.check(commit, shard.groups.get(group_id), coordinator.settings_of(group_id))
    partitions = [(one.topic, one.partition) for one in commit.offsets]
    async with shard.locked(group_id) as submit:
        stored = await coordinator.read(partial(coordinator.store.stored_offsets, group_id, partitions))
        if only_back and not _moves_back(commit.offsets, stored):
            return None
        request = replace(commit, change_id=change.change_id, replaced=tuple(stored))
        describe = partial(_describe, request)
        recorder = ChangeRecorder(change, ChangeAction.RESET_OFFSETS, group_id, request.token, describe)
        answer = await submit(request.token, request, recorder.extra_rows)
    assert isinstance(answer, CommitOffsetsResponse)
    return answer


def _moves_back(offsets: Iterable[OffsetToCommit], stored: Iterable[StoredOffset]) -> bool:
    old = {(one.topic, one.partition): one.offset for one in stored}
    return any(one.offset < old.get((one.topic, one.partition), 0) for one in offsets)


def _describe(request: CommitOffsets, _before: Group, _after: Group, answer: Answer) -> tuple[Json, Json] | None:
    assert isinstance(answer, CommitOffsetsResponse)
    old = {(one.topic, one.partition): one.offset for one in request.replaced}
    new = {
        (one.topic, one.partition): one.offset
        for place, one in enumerate(request.offsets)
        if place not in answer.errors
    }
    if not new:
        return None
    results = [ResetResult(*partition, old.get(partition), offset, None) for partition, offset in new.items()]
    reset = ResetOffsetsResponse(tuple(results))
    return reset_before(reset), {"to": str(ResetTo.GIVEN), **reset_after(reset)}
