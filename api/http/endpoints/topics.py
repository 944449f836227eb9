"""The topic catalogue over HTTP: how many partitions a topic has, where its logs begin, and where they end.

Source: http-api.md "For operators".
"""

from datetime import datetime
from typing import Final

from litestar import delete, get, put
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import Struct

from api.http.call import ThisCall
from api.http.express import REQUEST
from api.http.fields import Offset, PartitionAsked, PartitionCount, Reason, ReasonNeeded
from api.http.limits import TOPIC_MAX_CHARS
from api.http.times import instant
from coordinator_core.protocol.errors import InvalidRequest, UnknownTopicOrPartition
from coordinator_core.store.rows import TopicRow

TAGS: Final = ["Operators: topics"]


class TopicBody(Struct, forbid_unknown_fields=True):
    """What is known of a topic; without `log_start_offset` that one stays (0 for a new topic)."""

    partitions: PartitionCount
    log_start_offset: Offset | None = None
    reason: Reason | None = None


class TopicShown(Struct):
    """A topic of the catalogue."""

    topic: str
    partitions: int
    log_start_offset: int


class TopicsAnswer(Struct):
    """The catalogue, by topic."""

    topics: list[TopicShown]


@get("/v1/topics", tags=TAGS, opt={REQUEST: "ListTopics"})
async def list_topics(call: ThisCall) -> TopicsAnswer:
    """List the catalogue. A topic that is absent is unknown, not missing: its commits pass."""
    return TopicsAnswer([_shown(row) for row in await call.coordinator.topics()])


@put("/v1/topics/{topic:str}", tags=TAGS, opt={REQUEST: "PutTopic"})
async def put_topic(call: ThisCall, topic: FromPath[str], data: JSONBody[TopicBody]) -> TopicShown:
    """Put a topic into the catalogue; a raised count rebalances the groups that read it, a lower one is refused."""
    if not 0 < len(topic) <= TOPIC_MAX_CHARS:
        raise InvalidRequest(f"the topic has {len(topic)} characters, and may have {TOPIC_MAX_CHARS}")
    act = call.act(data.reason)
    try:
        row = await call.coordinator.operators.put_topic(topic, data.partitions, data.log_start_offset, act)
    except ValueError as refusal:
        raise InvalidRequest(f"partitions: {refusal}") from refusal
    return _shown(row)


class TopicDeleted(Struct):
    """The topic is out of the catalogue; the run archives the offsets that groups have in it."""

    topic: str
    run_id: str
    candidates: int
    """How many offsets the run has to archive."""


@delete("/v1/topics/{topic:str}", status_code=202, tags=TAGS, opt={REQUEST: "DeleteTopic"})
async def delete_topic(call: ThisCall, topic: FromPath[str], reason: ReasonNeeded) -> TopicDeleted:
    """Take a topic out of the catalogue; all groups' offsets in it go to the archive, and its readers rebalance."""
    noted = await call.coordinator.operators.delete_topic(topic, call.act(reason))
    if noted is None:
        raise UnknownTopicOrPartition(f"the catalogue has no topic {topic}")
    return TopicDeleted(**noted)


# -- ends of logs -----------------------------------------------------------------------------------------


class LogEndShown(Struct):
    """The furthest end of a partition's log that a trusted reporter named, and when one did so last."""

    partition: int
    log_end_offset: int
    reported_at: datetime


class LogEndsDeleted(Struct):
    """The ends that were deleted, or, of a dry run, would be; by partition."""

    topic: str
    log_ends: list[LogEndShown]


@delete("/v1/topics/{topic:str}/log-ends", status_code=200, tags=TAGS, opt={REQUEST: "DeleteLogEnds"})
async def delete_log_ends(
    call: ThisCall,
    topic: FromPath[str],
    reason: ReasonNeeded,
    partition: PartitionAsked = None,
    dry_run: FromQuery[bool] = False,
) -> LogEndsDeleted:
    """Delete the known ends of a topic's logs, or of one, because they are wrong; the next report of each begins anew.

    With `dry_run` the ends are listed, and nothing is deleted.
    """
    operators = call.coordinator.operators
    if dry_run:
        ends = await operators.log_ends(topic, partition)
        return LogEndsDeleted(topic, [LogEndShown(each, end.offset, instant(end.at_ms)) for each, end in ends.items()])
    change = await operators.delete_log_ends(topic, partition, call.act(reason))
    deleted = [
        LogEndShown(each["partition"], each["log_end_offset"], instant(each["reported_at_ms"]))
        for each in change.before["log_ends"]
    ]
    return LogEndsDeleted(topic, deleted)


def _shown(row: TopicRow) -> TopicShown:
    return TopicShown(row.topic, row.partitions, row.log_start_offset)
