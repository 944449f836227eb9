"""OffsetCommit, OffsetFetch and OffsetDelete."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from api.kafka import hot_responses
from api.kafka.apis import ApiKey
from api.kafka.hot_responses import FetchedPartition, FetchedTopic
from api.kafka.messages import encode, milliseconds
from api.kafka.request import KafkaRequest, check_text
from api.shared.limits import MEMBER_ID_MAX_CHARS, TOPIC_MAX_CHARS
from coordinator_core.admin import offsets as admin_offsets
from coordinator_core.protocol.errors import CoordinatorError, InvalidRequest
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit
from coordinator_core.protocol.responses import CommitOffsetsResponse
from coordinator_core.state_store.rows import FetchedOffset

SEVERAL_GROUPS_FROM: Final = 8
"""The first version of OffsetFetch with several groups."""
NO_OFFSET: Final = -1


# -- commit -----------------------------------------------------------------------------------------


async def offset_commit(request: KafkaRequest) -> bytes:
    """Commit offsets; every partition without an error is stored before the response is sent."""
    message, version = request.message, request.version
    try:
        request.authorize("OffsetCommit", message.group_id)
        answer = await request.coordinate(message.group_id, _commit(request), CommitOffsetsResponse)
    except CoordinatorError as error:
        code = request.failed(error)
        return hot_responses.offset_commit(
            version, [(each.name, [(one.partition_index, code) for one in each.partitions]) for each in message.topics]
        )
    results = iter(answer.offsets)
    return hot_responses.offset_commit(
        version,
        [
            (each.name, [(one.partition_index, _code(request, next(results).error)) for one in each.partitions])
            for each in message.topics
        ],
    )


def _code(request: KafkaRequest, error: CoordinatorError | None) -> int:
    return 0 if error is None else request.failed(error)


def _commit(request: KafkaRequest) -> CommitOffsets:
    message = request.message
    _check_partitions(request, message.topics)
    check_text("member_id", message.member_id, MEMBER_ID_MAX_CHARS)
    retention = getattr(message, "retention_time", None)
    return CommitOffsets(
        token=request.coordinator.new_token(),
        generation=message.generation_id_or_member_epoch,
        member_id=message.member_id,
        group_instance_id=getattr(message, "group_instance_id", None),
        offsets=tuple(_offset(each.name, one) for each in message.topics for one in each.partitions),
        retention_time_ms=-1 if retention is None else milliseconds(retention),
        trusted_topic_prefixes=request.trusted_topic_prefixes,
    )


def _offset(topic: str, partition: Any) -> OffsetToCommit:  # noqa: ANN401  # in any version
    if partition.partition_index < 0 or partition.committed_offset < 0:
        raise InvalidRequest(f"{topic}:{partition.partition_index}: partition and offset are at least 0")
    metadata = partition.committed_metadata or ""
    if "\x00" in metadata:
        raise InvalidRequest(f"{topic}:{partition.partition_index}: the metadata has a NUL, which is not stored")
    return OffsetToCommit(
        topic,
        partition.partition_index,
        partition.committed_offset,
        getattr(partition, "committed_leader_epoch", -1),
        metadata,
    )


def _check_partitions(request: KafkaRequest, topics: Sequence[Any]) -> None:
    for each in topics:
        check_text("a topic", each.name, TOPIC_MAX_CHARS)
        if not each.name:
            raise InvalidRequest("a topic has no name")
    limit = request.node.limits.max_partitions_per_request
    if sum(len(each.partitions) for each in topics) > limit:
        raise InvalidRequest(f"one request may have {limit} partitions")


# -- fetch ------------------------------------------------------------------------------------------


async def offset_fetch(request: KafkaRequest) -> bytes:
    """Fetch committed offsets of groups: of partitions, or all."""
    message, version = request.message, request.version
    if version < SEVERAL_GROUPS_FROM:
        wanted = [(message.group_id, None if message.topics is None else _partitions_of(message.topics))]
    else:
        wanted = [
            (each.group_id, None if each.topics is None else _partitions_of(each.topics)) for each in message.groups
        ]
    found = []
    for group_id, partitions in wanted:
        try:
            request.authorize("OffsetFetch", group_id)
            found.append((group_id, await _fetched(request, group_id, partitions), 0))
        except CoordinatorError as error:
            code = request.failed(error)
            found.append((group_id, _without_offsets(partitions or [], version, code), code))
    return hot_responses.offset_fetch(version, found)


Partitions = list[tuple[str, Sequence[int]]]
"""Topics with their partitions, as requested."""


def _partitions_of(topics: Sequence[Any]) -> Partitions:
    return [(each.name, each.partition_indexes) for each in topics]


async def _fetched(request: KafkaRequest, group_id: str, wanted: Partitions | None) -> list[FetchedTopic]:
    topics = None if wanted is None else sorted({topic for topic, _ in wanted})
    if topics == []:
        return []
    rows = await request.with_deadline(request.coordinator.fetch_offsets(group_id, topics))
    if wanted is None:
        return [(topic, [_committed(row) for row in same]) for topic, same in groupby(rows, lambda row: row.topic)]
    found = {(row.topic, row.partition): _committed(row) for row in rows}
    return [
        (topic, [found.get((topic, partition), (partition, NO_OFFSET, -1, "")) for partition in partitions])
        for topic, partitions in wanted
    ]


def _committed(row: FetchedOffset) -> FetchedPartition:
    return row.partition, row.offset, row.leader_epoch, row.metadata


def _without_offsets(wanted: Partitions, version: int, code: int) -> list[FetchedTopic]:
    """Return the partitions of a group that failed: version 1 has an error for each, later ones one for the group."""
    if version > 1 or not code:
        return []
    return [(topic, [(partition, NO_OFFSET, -1, "") for partition in partitions]) for topic, partitions in wanted]


# -- delete -----------------------------------------------------------------------------------------


async def offset_delete(request: KafkaRequest) -> bytes:
    """Delete committed offsets, and archive them; refused for topics that members read."""
    message = request.message
    try:
        request.authorize("OffsetDelete", message.group_id)
        results = [
            {
                "name": each.name,
                "partitions": [
                    {"partition_index": one.partition_index, "error_code": await _delete(request, each.name, one)}
                    for one in each.partitions
                ],
            }
            for each in message.topics
        ]
    except CoordinatorError as error:
        return encode(ApiKey.OFFSET_DELETE, 0, {"error_code": request.failed(error), "topics": ()})
    return encode(ApiKey.OFFSET_DELETE, 0, {"topics": results})


async def _delete(request: KafkaRequest, topic: str, partition: Any) -> int:  # noqa: ANN401  # a partition of kio's
    answer = await admin_offsets.delete_offsets(
        request.coordinator, request.message.group_id, topic, partition.partition_index, request.begin_change()
    )
    return _code(request, answer.offsets[0].error)
