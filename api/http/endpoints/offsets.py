"""Endpoints for committed offsets: commit, fetch, query, delete.

Source: http-api.md "Member lifecycle".
"""

from datetime import datetime
from functools import partial
from itertools import starmap
from typing import Final

from litestar import delete, get, post
from litestar.params import FromQuery, JSONBody
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple, replace

from api.http.consumer_json import PartitionsOfTopic
from api.http.cursors import Int32, Name, page_of, read_cursor
from api.http.fast_path import REQUEST, SUBMITTED, Submitted
from api.http.fields import (
    Generation,
    GroupId,
    InstanceId,
    LeaderEpoch,
    MemberId,
    Offset,
    PageLimit,
    Partition,
    PartitionParam,
    ReasonParam,
    RetentionMs,
    Topic,
    TopicParam,
    TopicsParam,
)
from api.http.limits import PAGE_MAX
from api.http.request_context import CurrentRequest, RequestContext
from api.http.times import instant
from api.shared.access_control import Operation
from api.shared.errors import NO_ERROR, TopicAuthorizationFailed
from coordinator_core.admin import offsets as admin_offsets
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit, StoredOffset
from coordinator_core.protocol.responses import CommitOffsetsResponse, PartitionResult
from coordinator_core.protocol.setting_rules import INT32_MAX
from coordinator_core.state_store.rows import FetchedOffset

TAGS: Final = ["Agents: offsets"]
ANONYMOUS_ACTOR: Final = "anonymous"
"""The actor of a deletion without token and actor header, which agents may send, and of a dry run."""


class PartitionResultResponse(Struct):
    """The result for one partition; `code` is NONE on success."""

    topic: str
    partition: int
    code: str


class PartitionResultsResponse(Struct):
    """One result per partition, in the order of the request."""

    offsets: list[PartitionResultResponse]


# -- commit -----------------------------------------------------------------------------------------


class OffsetToCommitBody(Struct, forbid_unknown_fields=True):
    """The offset to commit for a partition; its fields are in the order of the protocol's `OffsetToCommit`."""

    topic: Topic
    partition: Partition
    offset: Offset
    leader_epoch: LeaderEpoch = -1
    metadata: str = ""
    log_end_offset: Offset | None = None


class CommitBody(Struct, forbid_unknown_fields=True):
    """Offsets of a member, or (generation -1, member_id "") of a consumer outside a generation."""

    generation: Generation
    member_id: MemberId
    offsets: list[OffsetToCommitBody]
    group_instance_id: InstanceId | None = None
    retention_time_ms: RetentionMs = -1


def submit_commit(
    context: RequestContext, group_id: str, data: CommitBody
) -> Submitted[PartitionResultsResponse] | None:
    """Submit a commit to the coordinator; None: the token does not allow all of its topics."""
    _check_count(context, len(data.offsets), "offsets")
    denied = context.denied_topics((each.topic for each in data.offsets), Operation.COMMIT)
    return None if denied else _submit(context, group_id, data)


def _submit(context: RequestContext, group_id: str, data: CommitBody) -> Submitted[PartitionResultsResponse]:
    request = CommitOffsets(
        token=context.coordinator.new_token(),
        generation=data.generation,
        member_id=data.member_id,
        group_instance_id=data.group_instance_id,
        offsets=tuple(starmap(OffsetToCommit, map(astuple, data.offsets))),
        retention_time_ms=data.retention_time_ms,
        trusted_topic_prefixes=context.trusted_topic_prefixes,
    )
    return Submitted(context.submit_commit(group_id, request), partial(_respond_to_commit, data.offsets))


def _respond_to_commit(offsets: list[OffsetToCommitBody], answer: CommitOffsetsResponse) -> PartitionResultsResponse:
    results = [PartitionResultResponse(one.topic, one.partition, NO_ERROR) for one in offsets]
    for place, error in answer.errors.items():
        results[place].code = error.code
    return PartitionResultsResponse(results)


@post(
    "/v1/groups/{group_id:str}/offsets",
    status_code=200,
    tags=TAGS,
    opt={REQUEST: "OffsetCommit", SUBMITTED: submit_commit},
)
async def commit(context: CurrentRequest, group_id: GroupId, data: JSONBody[CommitBody]) -> PartitionResultsResponse:
    """Commit offsets. Every partition with code NONE is stored in Postgres before the response is sent."""
    submitted = submit_commit(context, group_id, data)
    return await (_commit_allowed(context, group_id, data) if submitted is None else submitted.body(context))


async def _commit_allowed(context: RequestContext, group_id: str, data: CommitBody) -> PartitionResultsResponse:
    """Commit the offsets of the allowed topics, if there are any. Source: KafkaApis.handleOffsetCommitRequest."""
    denied = context.denied_topics((each.topic for each in data.offsets), Operation.COMMIT)
    allowed = [each for each in data.offsets if each.topic not in denied]
    results: list[PartitionResultResponse] = []
    if allowed:
        results = (await _submit(context, group_id, replace(data, offsets=allowed)).body(context)).offsets
    committed = iter(results)
    refused = TopicAuthorizationFailed.code
    return PartitionResultsResponse(
        [
            PartitionResultResponse(each.topic, each.partition, refused) if each.topic in denied else next(committed)
            for each in data.offsets
        ]
    )


# -- fetch and query ----------------------------------------------------------------------------------


class OffsetResponse(Struct):
    """The committed offset of a partition; -1 if there is none."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_at: datetime | None
    log_end_offset: int | None
    expires_at: datetime | UnsetType = UNSET
    """Only for offsets that were restored, or committed with a retention time."""


class OffsetsResponse(Struct):
    """Committed offsets in the order of the query."""

    offsets: list[OffsetResponse]


class OffsetsPageResponse(Struct):
    """A page of committed offsets by topic and partition; `next_cursor` is null on the last page."""

    offsets: list[OffsetResponse]
    next_cursor: str | None


class QueryBody(Struct, forbid_unknown_fields=True):
    """The partitions to look up."""

    partitions: list[PartitionsOfTopic]


@get("/v1/groups/{group_id:str}/offsets", tags=TAGS, opt={REQUEST: "OffsetFetch"})
async def fetch(
    context: CurrentRequest,
    group_id: GroupId,
    topic: TopicsParam = None,
    limit: PageLimit = PAGE_MAX,
    cursor: FromQuery[str] = "",
) -> OffsetsPageResponse:
    """Fetch the committed offsets of the given topics, or of all that the token may read."""
    context.check_topics(topic or (), Operation.READ)
    after = read_cursor(cursor, tuple[Name, Int32])
    await context.begin_response(limit)
    allowed: list[FetchedOffset] = []
    wanted = limit + 1
    while len(allowed) <= limit:  # A cursor that named a topic that the token may not read would reveal it.
        fetched = await context.coordinator.fetch_offsets(group_id, topic or None, after, wanted)
        denied = context.denied_topics({each.topic for each in fetched}, Operation.READ)
        allowed += [each for each in fetched if each.topic not in denied]
        if len(fetched) < wanted:
            break
        last = fetched[-1]
        after = last.topic, INT32_MAX if last.topic in denied else last.partition
        wanted = PAGE_MAX + 1
    context.shrink_response(len(allowed))
    page, next_cursor = page_of(allowed, lambda each: (each.topic, each.partition), limit)
    return OffsetsPageResponse([_to_response(each) for each in page], next_cursor)


@post("/v1/groups/{group_id:str}/offsets/query", status_code=200, tags=TAGS, opt={REQUEST: "OffsetQuery"})
async def query(context: CurrentRequest, group_id: GroupId, data: JSONBody[QueryBody]) -> OffsetsResponse:
    """Fetch the committed offset of every given partition."""
    requested = [(each.topic, partition) for each in data.partitions for partition in each.partitions]
    _check_count(context, len(requested), "partitions")
    context.check_topics({each.topic for each in data.partitions}, Operation.READ)
    await context.with_deadline(context.begin_response(len(requested)))
    fetched = await context.with_deadline(context.coordinator.fetch_partitions(group_id, requested))
    found = {(each.topic, each.partition): each for each in fetched}
    return OffsetsResponse([_to_response(found[key]) if key in found else _no_offset(*key) for key in requested])


def _to_response(fetched: FetchedOffset | StoredOffset) -> OffsetResponse:
    return OffsetResponse(
        topic=fetched.topic,
        partition=fetched.partition,
        offset=fetched.offset,
        leader_epoch=fetched.leader_epoch,
        metadata=fetched.metadata,
        committed_at=instant(fetched.committed_at_ms),
        log_end_offset=fetched.log_end_offset,
        expires_at=UNSET if fetched.expires_at_ms is None else instant(fetched.expires_at_ms),
    )


def _no_offset(topic: str, partition: int) -> OffsetResponse:
    return OffsetResponse(topic, partition, -1, -1, "", None, None)


# -- delete -----------------------------------------------------------------------------------------


@delete("/v1/groups/{group_id:str}/offsets", status_code=200, tags=TAGS, opt={REQUEST: "OffsetDelete"})
async def delete_offsets(
    context: CurrentRequest,
    group_id: GroupId,
    topic: TopicParam,
    partition: PartitionParam = None,
    dry_run: FromQuery[bool] = False,
    reason: ReasonParam = None,
) -> PartitionResultsResponse:
    """Delete a topic's offsets, or that of one partition, and archive them; refused while members read the topic.

    With `dry_run` the response has the same codes, and nothing is deleted.
    """
    context.check_topics([topic], Operation.DELETE_OFFSETS)
    limit = context.server.limits.max_partitions_per_request
    if dry_run:
        context.read_change(reason, default_actor=ANONYMOUS_ACTOR)
        return _results(
            (
                await admin_offsets.dry_run_delete_offsets(
                    context.coordinator, group_id, topic, partition, max_deleted=limit
                )
            ).offsets
        )
    change = context.begin_change(reason, default_actor=ANONYMOUS_ACTOR)
    answer = await admin_offsets.delete_offsets(
        context.coordinator, group_id, topic, partition, change, max_deleted=limit
    )
    if answer.is_refused:
        context.change_id = None  # no change was made
    return _results(answer.offsets)


# -- shared -------------------------------------------------------------------------------------------


def _check_count(context: RequestContext, count: int, field: str) -> None:
    limit = context.server.limits.max_partitions_per_request
    if count > limit:
        raise InvalidRequest(f"{field}: {count} partitions; one request may have {limit}")


def _results(results: tuple[PartitionResult, ...]) -> PartitionResultsResponse:
    return PartitionResultsResponse(
        [
            PartitionResultResponse(topic, partition, NO_ERROR if error is None else error.code)
            for topic, partition, error in results
        ]
    )
