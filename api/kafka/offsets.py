"""OffsetCommit, OffsetFetch and OffsetDelete."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count, groupby
from typing import Any, Final

from api.kafka import hot_responses
from api.kafka.apis import ApiKey
from api.kafka.hot_responses import FetchedPartition, FetchedTopic, TopicErrors
from api.kafka.messages import Fields, encode, milliseconds
from api.kafka.request import NUL, KafkaRequest, check_text
from api.shared.access_control import Operation
from api.shared.errors import TopicAuthorizationFailed
from api.shared.limits import MEMBER_ID_MAX_CHARS, TOPIC_MAX_CHARS
from coordinator_core.admin import offsets as admin_offsets
from coordinator_core.admin.reset_by_commit import reset_by_commit
from coordinator_core.protocol.errors import CoordinatorError, InvalidRequest
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit, StoredOffset
from coordinator_core.protocol.responses import CommitOffsetsResponse
from coordinator_core.protocol.states import EMPTY
from coordinator_core.runtime.writer import commit_origin
from coordinator_core.state_store.rows import FetchedOffset

SEVERAL_GROUPS_FROM: Final = 8
"""The first version of OffsetFetch with several groups."""
LEADER_EPOCH_FROM: Final = 6
"""The first version of OffsetCommit with leader epochs."""
NO_OFFSET: Final = -1
ADMIN_CLIENT_PREFIX: Final = "adminclient-"
"""How the client id of Java's admin clients begins, and so of Kafka's tools, unless they are configured otherwise."""


# -- commit -----------------------------------------------------------------------------------------


async def offset_commit(request: KafkaRequest) -> bytes:
    """Commit offsets; every partition without an error is stored before the response is sent."""
    message, version = request.message, request.version
    denied: frozenset[str] = frozenset()
    try:
        request.authorize("OffsetCommit", message.group_id)
        denied = request.denied_topics((each.name for each in message.topics), Operation.COMMIT)
        errors = await _commit(request, [each for each in message.topics if each.name not in denied])
    except CoordinatorError as error:
        return hot_responses.offset_commit(version, _with_code(message.topics, request.failed(error)))
    if not denied and not errors:
        return hot_responses.offset_commit(version, _with_code(message.topics, 0))
    refused = TopicAuthorizationFailed("the token does not allow COMMIT on the topic")
    places = count()

    def code(topic: str) -> int:
        error = refused if topic in denied else errors.get(next(places))
        return 0 if error is None else request.failed(error)

    return hot_responses.offset_commit(
        version,
        [(each.name, [(one.partition_index, code(each.name)) for one in each.partitions]) for each in message.topics],
    )


def _with_code(topics: Sequence[Any], code: int) -> list[TopicErrors]:
    return [(each.name, [(one.partition_index, code) for one in each.partitions]) for each in topics]


async def _commit(request: KafkaRequest, topics: Sequence[Any]) -> Mapping[int, CoordinatorError]:
    """Commit the offsets of these topics, and return index → error; without topics nothing is asked."""
    if not topics and request.message.topics:
        return {}
    commit = _request(request, topics)
    answer = await _reset(request, commit) if _may_be_reset(request, commit) else None
    if answer is None:
        answer = await request.commit(request.message.group_id, commit)
    return answer.errors


def _may_be_reset(request: KafkaRequest, commit: CommitOffsets) -> bool:
    """Return whether a commit without a member may be a reset: an admin client's, or to a group that members have used.

    Consumers that are no members have groups of their own.
    """
    if commit.generation >= 0 or commit.member_id or commit.group_instance_id is not None or not commit.offsets:
        return False
    group = request.coordinator.describe(request.message.group_id)
    if group is None:
        return _is_admin_client(request)
    return group.state is EMPTY and (group.protocol_type is not None or _is_admin_client(request))


def _is_admin_client(request: KafkaRequest) -> bool:
    return request.client_id.startswith(ADMIN_CLIENT_PREFIX)


async def _reset(request: KafkaRequest, commit: CommitOffsets) -> CommitOffsetsResponse | None:
    """Reset offsets, and record the change; None: the commit moves no offset back, and is no admin client's."""
    group_id, only_back = request.message.group_id, not _is_admin_client(request)
    commit_origin.set(request.commit_origin)
    return await reset_by_commit(request.coordinator, group_id, commit, request.begin_change(), only_back=only_back)


def _request(request: KafkaRequest, topics: Sequence[Any]) -> CommitOffsets:
    message = request.message
    _check_partitions(request, topics)
    check_text("member_id", message.member_id, MEMBER_ID_MAX_CHARS)
    retention = getattr(message, "retention_time", None)
    return CommitOffsets(
        token=request.coordinator.new_token(),
        generation=message.generation_id_or_member_epoch,
        member_id=message.member_id,
        group_instance_id=getattr(message, "group_instance_id", None),
        offsets=tuple(chain.from_iterable(_offsets(each, request.version) for each in topics)),
        retention_time_ms=-1 if retention is None else milliseconds(retention),
        trusted_topic_prefixes=request.trusted_topic_prefixes,
    )


def _offsets(topic: Any, version: int) -> list[OffsetToCommit]:  # noqa: ANN401  # in any version
    """Return the offsets to commit of a topic; it may have thousands of partitions, so what they share is done once.

    Raises:
        InvalidRequest: a partition cannot be stored.
    """
    name = topic.name
    if version >= LEADER_EPOCH_FROM:
        offsets = [
            OffsetToCommit(
                name, it.partition_index, it.committed_offset, it.committed_leader_epoch, it.committed_metadata or ""
            )
            for it in topic.partitions
        ]
    else:
        offsets = [
            OffsetToCommit(name, it.partition_index, it.committed_offset, metadata=it.committed_metadata or "")
            for it in topic.partitions
        ]
    unusual = [it for it in offsets if it.partition < 0 or it.offset < 0 or NUL in it.metadata]
    return list(map(_checked, offsets)) if unusual else offsets


def _checked(offset: OffsetToCommit) -> OffsetToCommit:
    where = f"{offset.topic}:{offset.partition}"
    if offset.partition < 0 or offset.offset < 0:
        raise InvalidRequest(f"{where}: partition and offset are at least 0")
    metadata = offset.metadata.removesuffix(NUL)  # librdkafka sends the end of a C string
    if NUL in metadata:
        raise InvalidRequest(f"{where}: the metadata has a NUL, which is not stored")
    return offset._replace(metadata=metadata)


def _check_partitions(request: KafkaRequest, topics: Sequence[Any]) -> None:
    _check_topics(each.name for each in topics)
    limit = request.node.limits.max_partitions_per_request
    if sum(len(each.partitions) for each in topics) > limit:
        raise InvalidRequest(f"one request may have {limit} partitions")


def _check_topics(names: Iterable[str]) -> None:
    for each in names:
        check_text("a topic", each, TOPIC_MAX_CHARS)
        if not each:
            raise InvalidRequest("a topic has no name")


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
    """Fetch offsets of partitions, or all; of topics that the token may not read there are errors, or nothing."""
    if wanted is None:
        limit = 2 * request.node.limits.max_partitions_per_request
        every = await request.with_deadline(request.coordinator.fetch_offsets(group_id, None, limit=limit + 1))
        if len(every) > limit:
            raise InvalidRequest(f"the group has more than {limit} offsets: name the partitions")
        denied = request.denied_topics({row.topic for row in every}, Operation.READ)
        shown = [row for row in every if row.topic not in denied]
        return [(topic, [_committed(row) for row in same]) for topic, same in groupby(shown, lambda row: row.topic)]
    _check_topics(topic for topic, _ in wanted)
    denied = request.denied_topics((topic for topic, _ in wanted), Operation.READ)
    allowed = [(topic, number) for topic, numbers in wanted if topic not in denied for number in numbers]
    rows = await request.with_deadline(request.coordinator.fetch_partitions(group_id, allowed)) if allowed else []
    refusal = request.failed(TopicAuthorizationFailed("the token does not allow READ on the topic")) if denied else 0
    found = {(row.topic, row.partition): _committed(row) for row in rows}
    return [
        (
            topic,
            [
                found.get((topic, partition)) or _no_offset(partition, refusal if topic in denied else 0)
                for partition in partitions
            ],
        )
        for topic, partitions in wanted
    ]


def _committed(row: FetchedOffset | StoredOffset) -> FetchedPartition:
    return row.partition, row.offset, row.leader_epoch, row.metadata, 0


def _no_offset(partition: int, code: int) -> FetchedPartition:
    return partition, NO_OFFSET, -1, "", code


def _without_offsets(wanted: Partitions, version: int, code: int) -> list[FetchedTopic]:
    """Return the topics of a group that failed: version 1 has an error for each partition, later ones for the group."""
    if version > 1:
        return []
    return [(topic, [_no_offset(partition, code) for partition in partitions]) for topic, partitions in wanted]


# -- delete -----------------------------------------------------------------------------------------


async def offset_delete(request: KafkaRequest) -> bytes:
    """Delete committed offsets, and archive them; refused for topics that members read."""
    message = request.message
    try:
        request.authorize("OffsetDelete", message.group_id)
        _check_topics(each.name for each in message.topics)
        denied = request.denied_topics((each.name for each in message.topics), Operation.DELETE_OFFSETS)
        results = [
            {"name": each.name, "partitions": [await _delete(request, each.name, it, denied) for it in each.partitions]}
            for each in message.topics
        ]
    except CoordinatorError as error:
        return encode(ApiKey.OFFSET_DELETE, 0, {"error_code": request.failed(error), "topics": ()})
    return encode(ApiKey.OFFSET_DELETE, 0, {"topics": results})


async def _delete(request: KafkaRequest, topic: str, wanted: Any, denied: frozenset[str]) -> Fields:  # noqa: ANN401  # a partition of kio's
    """Delete the offset of a partition, and return its result."""
    partition = wanted.partition_index
    if topic in denied:
        error: CoordinatorError | None = TopicAuthorizationFailed("the token does not allow this on the topic")
    else:
        change, group_id = request.begin_change(), request.message.group_id
        answer = await admin_offsets.delete_offsets(request.coordinator, group_id, topic, partition, change)
        error = answer.offsets[0].error
    return {"partition_index": partition, "error_code": 0 if error is None else request.failed(error)}
