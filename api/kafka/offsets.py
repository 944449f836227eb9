"""OffsetCommit, OffsetFetch and OffsetDelete."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from itertools import count, groupby
from typing import Any, Final

from msgspec.structs import replace

from api.kafka import hot_responses
from api.kafka.apis import APIS, ApiKey
from api.kafka.commits import INSTANCE_ID_FROM, NO_EPOCH, RETENTION_UNTIL, read_offsets
from api.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from api.kafka.hot_responses import FetchedPartition, FetchedTopic
from api.kafka.messages import NUL, encode, milliseconds
from api.kafka.request import KafkaRequest, SentOffsets, check_text
from api.shared.access_control import Operation
from api.shared.errors import TopicAuthorizationFailed
from api.shared.limits import MEMBER_ID_MAX_CHARS, TOPIC_MAX_CHARS
from coordinator_core.admin import offsets as admin_offsets
from coordinator_core.admin.reset_by_commit import reset_by_commit
from coordinator_core.protocol.errors import (
    CoordinatorError,
    InvalidRequest,
    OffsetMetadataTooLarge,
    UnknownTopicOrPartition,
)
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit, StoredOffset
from coordinator_core.protocol.responses import Answer, CommitOffsetsResponse
from coordinator_core.protocol.states import EMPTY
from coordinator_core.runtime.current_request import commit_origin
from coordinator_core.runtime.waiting_requests import completed_future
from coordinator_core.state_store.rows import FetchedOffset

SEVERAL_GROUPS_FROM: Final = 8
"""The first version of OffsetFetch with several groups."""
TOPIC_NAME_RULE: Final = f"a topic has 1 to {TOPIC_MAX_CHARS} characters, none of them NUL"
STRING_MAX_BYTES: Final = 2**15 - 1
"""The longest string of versions that are not flexible; the limit of metadata may be higher."""
NO_OFFSET: Final = -1
NO_TOKEN: Final = 0
"""Of the model of a connection's commits, which is never submitted itself."""
C_STRINGS_SOFTWARE: Final = "confluent-kafka-python"
"""The library that reads metadata as C strings."""
ADMIN_CLIENT_PREFIX: Final = "adminclient-"
"""How the client id of Java's admin clients begins, and so of Kafka's tools, unless they are configured otherwise."""


# -- commit -----------------------------------------------------------------------------------------


async def offset_commit(request: KafkaRequest) -> bytes:
    """Commit offsets; every partition without an error is stored before the response is sent."""
    try:
        commit = _request(request)
        answer = await _reset(request, commit) if _may_be_reset(request, commit) else None
        if answer is None:
            answer = await request.with_deadline(_submit(request, commit))
    except CoordinatorError as error:
        return respond_to_commit(request, error)
    return respond_to_commit(request, answer)


def submit_commit(request: KafkaRequest) -> asyncio.Future[Answer] | None:
    """Submit a commit; None: it may be a reset, which reads offsets. Raises CoordinatorError if it is refused."""
    commit = _request(request)
    return None if _may_be_reset(request, commit) else _submit(request, commit)


def _submit(request: KafkaRequest, commit: CommitOffsets) -> asyncio.Future[Answer]:
    """Submit a commit; one without offsets that can be stored is not, as in Kafka."""
    if not commit.offsets:
        return completed_future(CommitOffsetsResponse({}))
    return request.submit_commit(request.sent.group_id, commit)


def respond_to_commit(request: KafkaRequest, answer: Answer | CoordinatorError) -> bytes:
    """Return the response to a commit, with a code for each partition."""
    sent = request.sent
    topics, refused = sent.topics, sent.refused
    if isinstance(answer, CoordinatorError):
        error_code = request.failed(answer)
        failed = [(topic, [(partition, error_code) for partition in partitions]) for topic, partitions in topics]
        return hot_responses.offset_commit(request.version, failed)
    assert isinstance(answer, CommitOffsetsResponse)
    if not answer.errors and not refused:
        response = sent.stored_response
        if not response:
            response = sent.stored_response = hot_responses.stored_offset_commit(request.version, topics)
        return response
    places, submitted = count(), count()

    def code() -> int:
        error = refused.get(next(places)) or answer.errors.get(next(submitted))
        return 0 if error is None else request.failed(error)

    errors = [(topic, [(partition, code()) for partition in partitions]) for topic, partitions in topics]
    return hot_responses.offset_commit(request.version, errors)


def _may_be_reset(request: KafkaRequest, commit: CommitOffsets) -> bool:
    """Return whether a commit without a member may be a reset: an admin client's, or to a group that members have used.

    Consumers that are no members have groups of their own.
    """
    if commit.generation >= 0 or commit.member_id or commit.group_instance_id is not None or not commit.offsets:
        return False
    group = request.coordinator.describe(request.sent.group_id)
    if group is None:
        return _is_admin_client(request)
    return group.state is EMPTY and (group.protocol_type is not None or _is_admin_client(request))


def _is_admin_client(request: KafkaRequest) -> bool:
    return request.client_id.startswith(ADMIN_CLIENT_PREFIX)


async def _reset(request: KafkaRequest, commit: CommitOffsets) -> Answer | None:
    """Reset offsets, and record the change; None: the commit moves no offset back, and is no admin client's."""
    group_id, only_back = request.sent.group_id, not _is_admin_client(request)
    commit_origin.set(request.commit_origin)
    return await reset_by_commit(request.coordinator, group_id, commit, request.begin_change(), only_back=only_back)


def _request(request: KafkaRequest) -> CommitOffsets:
    """Return the commit of the topics that the token allows, without what cannot be stored.

    Raises:
        CoordinatorError: the token does not allow it on the group, or it has too many partitions.
    """
    offsets: Sequence[OffsetToCommit] | None
    sent, offsets, is_usual = request.sent, request.newer_offsets, True
    model = sent.commit
    if model is not None and offsets is not None:  # The rest was checked with the last one.
        request.authorize("OffsetCommit", sent.group_id)
    else:
        message, version = request.message, request.version
        topics, offsets, is_usual = read_offsets(message, version)
        sent = request.sent = SentOffsets(message.group_id, topics)
        request.authorize("OffsetCommit", sent.group_id)
        _check_count(request, len(offsets))
        check_text("member_id", message.member_id, MEMBER_ID_MAX_CHARS)
        model = sent.commit = CommitOffsets(
            token=NO_TOKEN,
            generation=message.generation_id_or_member_epoch,
            member_id=message.member_id,
            group_instance_id=message.group_instance_id if version >= INSTANCE_ID_FROM else None,
            offsets=(),
            retention_time_ms=milliseconds(message.retention_time) if version <= RETENTION_UNTIL else -1,
        )
    denied = None if request.identity is None else request.denied_topics(dict(sent.topics), Operation.COMMIT)
    if denied or not is_usual or sent.refused:
        sent.refused = {}
        offsets = list(_storable(offsets, denied or (), sent.refused))
    return CommitOffsets(
        request.node.coordinator.new_token(),
        model.generation,
        model.member_id,
        model.group_instance_id,
        tuple(offsets),
        model.retention_time_ms,
        request.trusted_topic_prefixes,
    )


def _storable(
    offsets: Sequence[OffsetToCommit], denied: Collection[str], refused: dict[int, CoordinatorError]
) -> Iterator[OffsetToCommit]:
    """Yield the offsets that can be stored, of topics that are not denied, and refuse the others, by their index."""
    denial = TopicAuthorizationFailed("the token does not allow COMMIT on the topic")
    errors: dict[str, CoordinatorError] = {}  # Those with the same code share one: there may be thousands.
    for place, one in enumerate(offsets):
        error = denial if one.topic in denied else _refusal(one)
        if error is not None:
            refused[place] = errors.setdefault(error.code, error)
        elif one.metadata.endswith(NUL):
            yield replace(one, metadata=one.metadata.removesuffix(NUL))
        else:
            yield one


def _refusal(offset: OffsetToCommit) -> CoordinatorError | None:
    """Return why an offset cannot be stored; the others of the request are, as in Kafka."""
    where = f"{offset.topic[:TOPIC_MAX_CHARS]}:{offset.partition}"
    if offset.partition < 0:
        return UnknownTopicOrPartition(f"{where}: a partition is at least 0")
    if offset.offset < 0:
        return InvalidRequest(f"{where}: an offset is at least 0")
    if offset.leader_epoch < NO_EPOCH:
        return InvalidRequest(f"{where}: a leader epoch is at least {NO_EPOCH}")
    if NUL in offset.metadata.removesuffix(NUL):  # `_end_of_metadata`
        return InvalidRequest(f"{where}: the metadata has a NUL, which is not stored")
    return None if _is_topic_name(offset.topic) else InvalidRequest(TOPIC_NAME_RULE)


def _check_count(request: KafkaRequest, partitions: int) -> None:
    limit = request.node.limits.max_partitions_per_request
    if partitions > limit:
        raise InvalidRequest(f"one request may have {limit} partitions")


def _is_topic_name(name: str) -> bool:
    return 0 < len(name) <= TOPIC_MAX_CHARS and NUL not in name


# -- fetch ------------------------------------------------------------------------------------------


async def offset_fetch(request: KafkaRequest) -> bytes:
    """Fetch committed offsets of groups: of partitions, or all, of which one response has a limited number."""
    message, version = request.message, request.version
    left = 2 * request.node.limits.max_partitions_per_request
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
            topics = await _fetched(request, group_id, partitions, left)
            if version < APIS[ApiKey.OFFSET_FETCH].flexible_from:
                topics = [(topic, [_sendable(request, each) for each in fetched]) for topic, fetched in topics]
            found.append((group_id, topics, 0))
            if partitions is None:
                left -= sum(len(fetched) for _, fetched in topics)
        except CoordinatorError as error:
            code = request.failed(error)
            found.append((group_id, _without_offsets(partitions or [], code), code))
            await asyncio.sleep(0)  # there may be thousands
    return hot_responses.offset_fetch(version, found)


Partitions = list[tuple[str, Sequence[int]]]
"""Topics with their partitions, as requested."""


def _partitions_of(topics: Sequence[Any]) -> Partitions:
    return [(each.name, each.partition_indexes) for each in topics]


async def _fetched(request: KafkaRequest, group_id: str, wanted: Partitions | None, limit: int) -> list[FetchedTopic]:
    """Fetch offsets of partitions, or all; of topics that the token may not read there are errors, or nothing.

    Raises:
        InvalidRequest: all are more than `limit`.
        CoordinatorError: the group cannot be read.
    """
    if wanted is None:
        await request.with_deadline(request.begin_response(limit))
        every = await request.with_deadline(request.coordinator.fetch_offsets(group_id, None, limit=limit + 1))
        if len(every) > limit:
            raise InvalidRequest(f"the response would have over {limit} more offsets: name partitions, or fewer groups")
        request.shrink_response(len(every))
        denied = request.denied_topics({row.topic for row in every}, Operation.READ)
        shown = [row for row in every if row.topic not in denied]
        end = _end_of_metadata(request)
        return [
            (topic, [_committed(row, end) for row in same]) for topic, same in groupby(shown, lambda row: row.topic)
        ]
    denied = request.denied_topics((topic for topic, _ in wanted), Operation.READ)
    allowed = [
        (topic, number)
        for topic, numbers in wanted
        if topic not in denied and _is_topic_name(topic)
        for number in numbers
    ]
    await request.with_deadline(request.begin_response(len(allowed)))
    rows = await request.with_deadline(request.coordinator.fetch_partitions(group_id, allowed)) if allowed else []
    refusal = request.failed(TopicAuthorizationFailed("the token does not allow READ on the topic")) if denied else 0
    end = _end_of_metadata(request)
    found = {(row.topic, row.partition): _committed(row, end) for row in rows}
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


def _end_of_metadata(request: KafkaRequest) -> str:
    """Return what ends metadata for the client.

    confluent-kafka for Python commits them with the end of a C string, which is not stored, and without it reads beyond
    them.
    """
    return NUL if request.software == C_STRINGS_SOFTWARE else ""


def _committed(row: FetchedOffset | StoredOffset, end: str) -> FetchedPartition:
    return row.partition, row.offset, row.leader_epoch, row.metadata and row.metadata + end, 0


def _sendable(request: KafkaRequest, fetched: FetchedPartition) -> FetchedPartition:
    """Return a committed offset, or an error if its metadata is too long for a version that is not flexible."""
    partition, _, _, metadata, _ = fetched
    if len(metadata.encode()) <= STRING_MAX_BYTES:
        return fetched
    refusal = OffsetMetadataTooLarge(f"metadata has at most {STRING_MAX_BYTES} bytes in version {request.version}")
    return _no_offset(partition, request.failed(refusal))


def _no_offset(partition: int, code: int) -> FetchedPartition:
    return partition, NO_OFFSET, NO_EPOCH, "", code


def _without_offsets(wanted: Partitions, code: int) -> list[FetchedTopic]:
    """Return the topics of a group that failed, with the error for each partition.

    From version 2 on Kafka has it for the group only. aiokafka does not read that one: it takes the partitions for ones
    without offsets, and would read their logs from one end.
    """
    return [(topic, [_no_offset(partition, code) for partition in partitions]) for topic, partitions in wanted]


# -- delete -----------------------------------------------------------------------------------------


async def offset_delete(request: KafkaRequest) -> bytes:
    """Delete committed offsets as one change, and archive them; refused for topics that members read."""
    message = request.message
    try:
        request.authorize("OffsetDelete", message.group_id)
        _check_count(request, sum(len(each.partitions) for each in message.topics))
        denied = request.denied_topics((each.name for each in message.topics), Operation.DELETE_OFFSETS)
        wanted = [(each.name, one.partition_index) for each in message.topics for one in each.partitions]
        codes = await _deleted(request, [it for it in wanted if it[0] not in denied and _is_topic_name(it[0])])
    except CoordinatorError as error:
        return encode(ApiKey.OFFSET_DELETE, 0, {"error_code": request.failed(error), "topics": ()})
    denial = request.failed(TopicAuthorizationFailed("the token does not allow this on the topic")) if denied else 0
    topics = [
        {
            "name": each.name,
            "partitions": [
                {
                    "partition_index": one.partition_index,
                    "error_code": denial
                    if each.name in denied
                    else codes.get((each.name, one.partition_index), UNKNOWN_TOPIC_OR_PARTITION),
                }
                for one in each.partitions
            ],
        }
        for each in message.topics
    ]
    return await request.encode({"topics": topics})


async def _deleted(request: KafkaRequest, wanted: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Delete offsets, and return the code of each partition."""
    change, group_id = request.begin_change(), request.message.group_id
    answer = await admin_offsets.delete_partitions(request.coordinator, group_id, wanted, change)
    results = answer.offsets
    return {(topic, one): 0 if error is None else request.failed(error) for topic, one, error in results}
