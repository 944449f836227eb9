"""Committed offsets over HTTP: commit, fetch, query, delete.

Source: http-api.md "The life of a member".
"""

from datetime import datetime
from typing import Final

from litestar import delete, get, post
from litestar.params import FromQuery, JSONBody
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple

from api.http.call import Call, ThisCall
from api.http.express import REQUEST
from api.http.fields import (
    Generation,
    GroupId,
    InstanceId,
    LeaderEpoch,
    MemberId,
    Offset,
    Partition,
    PartitionAsked,
    ReasonAsked,
    RetentionMs,
    Topic,
    TopicAsked,
    TopicsAsked,
)
from api.http.reply import NO_ERROR
from api.http.times import instant
from api.http.translation import PartitionsOfTopic
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.replies import Committed, PartitionResult
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit
from coordinator_core.store.rows import FetchedOffset

TAGS: Final = ["Agents: offsets"]
ANONYMOUS: Final = "anonymous"
"""Who deletes offsets without saying who it is: an agent's call, not an operator's."""


class ResultOfPartition(Struct):
    """What became of one partition; `code` is NONE when it was done."""

    topic: str
    partition: int
    code: str


class ResultsAnswer(Struct):
    """One result a partition, in the order asked."""

    offsets: list[ResultOfPartition]


# -- commit -----------------------------------------------------------------------------------------


class OffsetToCommitBody(Struct, forbid_unknown_fields=True):
    """One partition's position; its fields are in the order of the protocol's `OffsetToCommit`."""

    topic: Topic
    partition: Partition
    offset: Offset
    leader_epoch: LeaderEpoch = -1
    metadata: str = ""
    log_end_offset: Offset | None = None


class CommitBody(Struct, forbid_unknown_fields=True):
    """Positions of a member, or (generation -1, member_id "") of a consumer in no group."""

    generation: Generation
    member_id: MemberId
    offsets: list[OffsetToCommitBody]
    group_instance_id: InstanceId | None = None
    retention_time_ms: RetentionMs = -1


@post("/v1/groups/{group_id:str}/offsets", status_code=200, tags=TAGS, opt={REQUEST: "OffsetCommit"})
async def commit(call: ThisCall, group_id: GroupId, data: JSONBody[CommitBody]) -> ResultsAnswer:
    """Commit positions. Whatever is answered NONE is stored when the answer leaves."""
    _check_count(call, len(data.offsets), "offsets")
    request = CommitOffsets(
        token=call.coordinator.new_token(),
        generation=data.generation,
        member_id=data.member_id,
        group_instance_id=data.group_instance_id,
        offsets=tuple(map(OffsetToCommit._make, map(astuple, data.offsets))),
        retention_time_ms=data.retention_time_ms,
        trusted_topics=call.trusted_topics,
    )
    answer = await call.ask(group_id, request, Committed)
    if answer.refused:
        return _results(answer.offsets)
    return ResultsAnswer([ResultOfPartition(one.topic, one.partition, NO_ERROR) for one in answer.asked])


# -- fetch and query ----------------------------------------------------------------------------------


class OffsetShown(Struct):
    """A partition's position; `offset` is -1 where nothing is committed."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_at: datetime | None
    log_end_offset: int | None
    expires_at: datetime | UnsetType = UNSET
    """Its own end, shown for those only that were restored, or committed with one."""


class OffsetsAnswer(Struct):
    """Positions by topic and partition, or in the order asked."""

    offsets: list[OffsetShown]


class QueryBody(Struct, forbid_unknown_fields=True):
    """Partitions whose positions are wanted."""

    partitions: list[PartitionsOfTopic]


@get("/v1/groups/{group_id:str}/offsets", tags=TAGS, opt={REQUEST: "OffsetFetch"})
async def fetch(call: ThisCall, group_id: GroupId, topic: TopicsAsked = None) -> OffsetsAnswer:
    """Fetch what is committed, of the topics named or of all."""
    fetched = await call.coordinator.fetch_offsets(group_id, topic or None)
    return OffsetsAnswer([_shown(each) for each in fetched])


@post("/v1/groups/{group_id:str}/offsets/query", status_code=200, tags=TAGS, opt={REQUEST: "OffsetQuery"})
async def query(call: ThisCall, group_id: GroupId, data: JSONBody[QueryBody]) -> OffsetsAnswer:
    """Fetch the position of every partition asked for."""
    wanted = [(each.topic, partition) for each in data.partitions for partition in each.partitions]
    _check_count(call, len(wanted), "partitions")
    topics = sorted({each.topic for each in data.partitions})
    fetched = await call.in_time(call.coordinator.fetch_offsets(group_id, topics)) if topics else []
    found = {(each.topic, each.partition): each for each in fetched}
    return OffsetsAnswer([_shown(found[key]) if key in found else _nothing(*key) for key in wanted])


def _shown(fetched: FetchedOffset) -> OffsetShown:
    return OffsetShown(
        topic=fetched.topic,
        partition=fetched.partition,
        offset=fetched.offset,
        leader_epoch=fetched.leader_epoch,
        metadata=fetched.metadata,
        committed_at=instant(fetched.committed_at_ms),
        log_end_offset=fetched.log_end_offset,
        expires_at=UNSET if fetched.expires_at_ms is None else instant(fetched.expires_at_ms),
    )


def _nothing(topic: str, partition: int) -> OffsetShown:
    return OffsetShown(topic, partition, -1, -1, "", None, None)


# -- delete -----------------------------------------------------------------------------------------


@delete("/v1/groups/{group_id:str}/offsets", status_code=200, tags=TAGS, opt={REQUEST: "OffsetDelete"})
async def delete_offsets(
    call: ThisCall,
    group_id: GroupId,
    topic: TopicAsked,
    partition: PartitionAsked = None,
    dry_run: FromQuery[bool] = False,
    reason: ReasonAsked = None,
) -> ResultsAnswer:
    """Take a topic's offsets, or one of them, into the archive; refused while a live group reads the topic.

    With `dry_run` the codes are told, and nothing is taken.
    """
    operators = call.coordinator.operators
    if dry_run:
        return _results((await operators.try_deletion(group_id, topic, partition)).offsets)
    act = call.act(reason, default_actor=ANONYMOUS)
    answer = await operators.delete_offsets(group_id, topic, partition, act)
    if answer.is_refused:
        call.change_id = None  # nothing was done, so there is no change to name
    return _results(answer.offsets)


# -- both ---------------------------------------------------------------------------------------------


def _check_count(call: Call, count: int, field: str) -> None:
    limit = call.door.limits.max_partitions_per_request
    if count > limit:
        raise InvalidRequest(f"{field}: {count} partitions, and one request may name {limit}")


def _results(results: tuple[PartitionResult, ...]) -> ResultsAnswer:
    return ResultsAnswer(
        [
            ResultOfPartition(topic, partition, NO_ERROR if error is None else error.code)
            for topic, partition, error in results
        ]
    )
