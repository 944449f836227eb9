"""Endpoints for topics: their metadata, partitions and groups; and for the deletion of log end offsets.

Source: http-api.md "Topics", "Deleting a topic", "Deleting wrong log ends".
"""

from datetime import datetime
from typing import Final

from litestar import delete, get, put
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import Struct

from api.http.cursors import Name, page_of, read_cursor
from api.http.endpoints.offsets import ANONYMOUS_ACTOR
from api.http.fast_path import REQUEST
from api.http.fields import (
    LongPageLimit,
    Offset,
    PartitionCount,
    PartitionParam,
    Reason,
    ReasonParam,
    RequiredReasonParam,
)
from api.http.limits import LONG_PAGE_MAX
from api.http.request_context import CurrentRequest
from api.http.rows import response_of
from api.http.times import instant, instant_or_none
from api.shared.limits import TOPIC_MAX_CHARS
from coordinator_core.admin import topics as admin_topics
from coordinator_core.protocol.errors import READ_ONLY_MIRROR, InvalidRequest, UnknownTopicOrPartition
from coordinator_core.queries.topics import read_topic_use
from coordinator_core.state_store.postgres.log_ends import read_log_ends
from coordinator_core.state_store.postgres.settings_and_topics import read_topics

TAGS: Final = ["Operators: topics"]


class TopicBody(Struct, forbid_unknown_fields=True):
    """The metadata of a topic; without `log_start_offset` it is unchanged (0 for a new topic)."""

    partitions: PartitionCount
    log_start_offset: Offset | None = None
    reason: Reason | None = None


class TopicResponse(Struct):
    """The metadata of a topic."""

    topic: str
    partitions: int
    log_start_offset: int


class TopicsResponse(Struct):
    """A page of the topic metadata, sorted by topic; `next_cursor` is null on the last page."""

    topics: list[TopicResponse]
    next_cursor: str | None


@get("/v1/topics", tags=TAGS, opt={REQUEST: "ListTopics"})
async def list_topics(
    context: CurrentRequest, limit: LongPageLimit = LONG_PAGE_MAX, cursor: FromQuery[str] = ""
) -> TopicsResponse:
    """List the topic metadata. Commits to a topic without metadata are accepted."""
    (after,) = read_cursor(cursor, tuple[Name]) or ("",)
    found = await context.query(read_topics, after, limit + 1)
    page, next_cursor = page_of(found, lambda each: (each.topic,), limit)
    return TopicsResponse([response_of(TopicResponse, row) for row in page], next_cursor)


class TopicPartitionResponse(Struct):
    """A partition with a committed offset or a known log end."""

    partition: int
    log_end_offset: int | None
    """The highest that a trusted reporter or a group reported; null: unknown."""
    log_end_at: datetime | None
    """When it was last reported."""
    group_count: int
    """The number of groups with a committed offset."""


class TopicGroupResponse(Struct):
    """A group that subscribes to the topic, or has committed offsets in it, or both."""

    group_id: str
    state: str | None
    """Null: the group is deleted, or its consumers use no group membership."""
    member_count: int
    is_subscribed: bool
    partition_count: int
    """The number of partitions with a committed offset."""
    committed_at: datetime | None
    """When the last of them was committed."""
    lag: int | None
    """The sum over these partitions; null if unknown."""
    is_lag_lower_bound: bool
    log_end_at: datetime | None
    """The oldest of the times at which the log ends were last reported."""
    rebalances_last_hour: int


class TopicUseResponse(Struct):
    """A topic's metadata, null if there is none; its partitions by number; its groups, the highest lag first."""

    topic: str
    partition_count: int | None
    log_start_offset: int | None
    group_count: int
    """All groups, also those that are not listed."""
    lag: int | None
    """The sum over all groups; null if unknown."""
    is_lag_lower_bound: bool
    log_end_at: datetime | None
    """The oldest of the times at which the log ends were last reported."""
    partitions: list[TopicPartitionResponse]
    groups: list[TopicGroupResponse]


@get("/v1/topics/{topic:str}", tags=TAGS, opt={REQUEST: "DescribeTopic"})
async def describe_topic(context: CurrentRequest, topic: FromPath[str]) -> TopicUseResponse:
    """Describe a topic: its log ends, and the groups that read it; a token for some groups gets those of its groups."""
    coordinator = context.coordinator
    fresh_since_ms = coordinator.wall_ms() - coordinator.metadata_cache.log_end_max_age_ms()
    use = await context.query(read_topic_use, topic, patterns=context.covered_groups, fresh_since_ms=fresh_since_ms)
    if use.partition_count is None and not use.partitions and not use.groups:
        raise UnknownTopicOrPartition(f"there is no metadata and no offset of the topic {topic}, and no group reads it")
    return TopicUseResponse(
        topic,
        use.partition_count,
        use.log_start_offset,
        use.total.group_count,
        use.total.lag,
        use.total.is_lag_lower_bound,
        instant_or_none(use.total.log_end_at_ms),
        [response_of(TopicPartitionResponse, each) for each in use.partitions],
        [response_of(TopicGroupResponse, each) for each in use.groups],
    )


@put("/v1/topics/{topic:str}", tags=TAGS, opt={REQUEST: "PutTopic"})
async def put_topic(context: CurrentRequest, topic: FromPath[str], data: JSONBody[TopicBody]) -> TopicResponse:
    """Set a topic's partition count; a higher count rebalances its subscribers, a lower one is refused."""
    if not 0 < len(topic) <= TOPIC_MAX_CHARS:
        raise InvalidRequest(f"the topic has {len(topic)} characters, and may have {TOPIC_MAX_CHARS}")
    change = context.begin_change(data.reason)
    try:
        row = await admin_topics.put_topic(context.coordinator, topic, data.partitions, data.log_start_offset, change)
    except ValueError as error:
        raise InvalidRequest(f"partitions: {error}") from error
    return response_of(TopicResponse, row)


class TopicDeletionResponse(Struct):
    """The result of a deletion; the run archives the offsets that groups have committed in the topic."""

    topic: str
    run_id: str
    candidates: int
    """The number of offsets that the run archives."""


@delete("/v1/topics/{topic:str}", status_code=202, tags=TAGS, opt={REQUEST: "DeleteTopic"})
async def delete_topic(
    context: CurrentRequest, topic: FromPath[str], reason: RequiredReasonParam
) -> TopicDeletionResponse:
    """Delete the metadata of a topic, archive all groups' offsets in it, and rebalance its subscribers."""
    deleted = await admin_topics.delete_topic(context.coordinator, topic, context.begin_change(reason))
    if deleted is None:
        raise UnknownTopicOrPartition(f"there is no topic metadata for {topic}")
    return TopicDeletionResponse(**deleted)


# -- log end offsets --------------------------------------------------------------------------------------


class LogEndResponse(Struct):
    """The highest log end offset of a partition from a trusted reporter, and the time of the last report."""

    partition: int
    log_end_offset: int
    reported_at: datetime


class LogEndDeletionResponse(Struct):
    """The log end offsets that were deleted, or in a dry run would be; by partition."""

    topic: str
    log_ends: list[LogEndResponse]


@delete("/v1/topics/{topic:str}/log-ends", status_code=200, tags=TAGS, opt={REQUEST: "DeleteLogEnds"})
async def delete_log_ends(
    context: CurrentRequest,
    topic: FromPath[str],
    reason: ReasonParam = None,
    partition: PartitionParam = None,
    dry_run: FromQuery[bool] = False,
) -> LogEndDeletionResponse:
    """Delete wrong log end offsets of a topic, or of one partition; the next report sets them again.

    With `dry_run` they are listed, and nothing is deleted; only otherwise a reason is required.
    """
    if dry_run:
        context.read_change(reason, default_actor=ANONYMOUS_ACTOR)
        if context.coordinator.is_mirror:
            raise InvalidRequest(READ_ONLY_MIRROR)
        ends = sorted((await context.query(read_log_ends, [topic])).items())
        wanted = [(number, end) for (_, number), end in ends if partition in {None, number}]
        found = [LogEndResponse(number, end.offset, instant(end.at_ms)) for number, end in wanted]
        return LogEndDeletionResponse(topic, found)
    if not reason:
        raise InvalidRequest("reason: required unless it is a dry run")
    change = await admin_topics.delete_log_ends(context.coordinator, topic, partition, context.begin_change(reason))
    deleted = [
        LogEndResponse(each["partition"], each["log_end_offset"], instant(each["reported_at_ms"]))
        for each in change.before["log_ends"]
    ]
    return LogEndDeletionResponse(topic, deleted)
