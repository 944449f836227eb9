"""ListOffsets, Fetch and Produce: Muster has the offsets of groups, and no records.

ListOffsets answers from the known log ends. Fetch waits as long as the client lets it, and returns nothing, so that a
consumer which is a member for the sake of its partitions does not ask in a loop; what cannot be fetched is answered at
once. If a broker is new since the request came, it answers NOT_LEADER_OR_FOLLOWER instead, for clients ask for Metadata
then: many others do so every five minutes only, and would not find the new broker when those that they know are gone.
Produce is refused.
"""

import asyncio
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, Final
from uuid import UUID

from api.kafka import LISTENER, hot_responses
from api.kafka.errors import (
    INVALID_REQUEST,
    INVALID_TIMESTAMP,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from api.kafka.messages import Fields, milliseconds
from api.kafka.request import KafkaRequest
from api.shared.access_control import Operation
from api.shared.errors import TopicAuthorizationFailed
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.queries.committed_offsets import read_highest_commits, read_log_ends_at
from coordinator_core.queries.topics import read_log_starts
from coordinator_core.state_store.postgres.timestamps import END_OF_TIME_MS

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
"""The record with the highest timestamp, of which there is none: no offset, as of a log without records."""
EARLIEST_LOCAL: Final = -4
"""Where a log begins on a broker's own disk."""
LATEST_TIERED: Final = -5
"""Up to where a log is in tiered storage, which there is none of: no offset."""
FIRST_VERSIONS: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The first version of ListOffsets that asks for them; Kafka answers UNSUPPORTED_VERSION in an older one."""
FETCH_WAIT_MAX_MS: Final = 30_000
"""The longest wait of a Fetch, whatever the client asks for; Kafka's consumers ask for 500 ms."""
TOPIC_IDS_FROM: Final = 13
"""The first version of Fetch that names topics by their ids."""
NO_ACKS: Final = 0
"""The acks of a producer that waits for no response."""


async def list_offsets(request: KafkaRequest) -> bytes:
    """Return where the logs of partitions begin, and where they end or ended as far as that is known.

    A log without reports ends at the highest offset that a group has committed. With tokens only groups that the token
    may read count, and no commit beyond the log end that a trusted client has reported: a commit of any group could
    move others past their records. For a time the answer is the last end that was reported by then: a consumer that
    begins there misses nothing that was written since. As in Kafka, a partition that is named twice has an error.
    """
    known = request.coordinator.metadata_cache.topic_metadata
    names = [each.name for each in request.message.topics if each.name in known]
    ending = [
        each.name
        for each in request.message.topics
        if each.name in known and any(one.timestamp == LATEST for one in each.partitions)
    ]
    instants_ms = {
        (each.name, one.partition_index): min(one.timestamp, END_OF_TIME_MS)
        for each in request.message.topics
        for one in each.partitions
        if each.name in known and one.timestamp >= 0
    }
    coordinator = request.coordinator
    try:
        reported = await request.with_deadline(coordinator.read(partial(coordinator.store.log_ends, ending)))
        groups = None if request.identity is None else request.identity.read_groups
        committed = await request.with_deadline(request.query(read_highest_commits, ending, groups)) if ending else {}
        past = await request.with_deadline(request.query(read_log_ends_at, instants_ms)) if instants_ms else {}
        starts = await request.with_deadline(request.query(read_log_starts, names))
    except CoordinatorError as error:
        code = request.failed(error)
        return await _offsets(request, lambda *_: {"error_code": code})
    least = committed if request.identity is None else {}
    ends = {**committed, **{key: max(end.offset, least.get(key, 0)) for key, end in reported.items()}}

    denied = request.denied_topics({each.name for each in request.message.topics}, Operation.READ)
    times = Counter((each.name, one.partition_index) for each in request.message.topics for one in each.partitions)

    def refusal(topic: str, partition: int, timestamp: int) -> int:
        if topic in denied:
            return TOPIC_AUTHORIZATION_FAILED
        if times[topic, partition] > 1:
            return INVALID_REQUEST
        if timestamp < 0 and request.version < FIRST_VERSIONS.get(timestamp, request.version + 1):
            return UNSUPPORTED_VERSION
        return 0 if topic in known and 0 <= partition < known[topic].partitions else UNKNOWN_TOPIC_OR_PARTITION

    def find(topic: str, partition: int, timestamp: int) -> Fields:
        if code := refusal(topic, partition, timestamp):
            return {"error_code": code}
        start = starts.get(topic, 0)
        if timestamp in {EARLIEST, EARLIEST_LOCAL}:
            return {"offset": start}
        if timestamp in {MAX_TIMESTAMP, LATEST_TIERED}:
            return {}
        if timestamp == LATEST:
            return {"offset": max(start, ends.get((topic, partition), 0))}
        then = past.get((topic, partition))
        if then is None:
            return {"error_code": INVALID_TIMESTAMP}
        return {"offset": max(start, then.offset), "timestamp": then.at_ms}

    return await _offsets(request, find)


async def _offsets(request: KafkaRequest, find: Any) -> bytes:  # noqa: ANN401  # (topic, partition, timestamp) → Fields
    topics = [
        {
            "name": each.name,
            "partitions": [
                {"partition_index": one.partition_index, **find(each.name, one.partition_index, one.timestamp)}
                for one in each.partitions
            ],
        }
        for each in request.message.topics
    ]
    return await request.encode({"topics": topics})


async def fetch(request: KafkaRequest) -> bytes:
    """Wait, and return no records: the log ends where the client reads. An error is answered at once, as in Kafka."""
    addresses = request.coordinator.addresses
    brokers = addresses(LISTENER).items()
    topics, partitions, codes, ends = _wanted(request)
    if not any(codes):
        turn_bytes, wait_ms = request.turn_bytes, min(milliseconds(request.message.max_wait), FETCH_WAIT_MAX_MS)
        request.message = None  # Many times as large as its frame, whose bytes are counted.
        request.end_turn()  # while it waits
        await asyncio.sleep(wait_ms / 1000)
        await request.begin_turn(turn_bytes)
        if addresses(LISTENER).items() - brokers:
            codes = array("h", [NOT_LEADER_OR_FOLLOWER]) * len(codes)
    found = zip(partitions, codes, ends, strict=True)
    return hot_responses.fetch(request.version, [(topic, list(islice(found, count))) for topic, count in topics])


def _wanted(
    request: KafkaRequest,
) -> tuple[list[tuple[str | UUID | None, int]], Sequence[int], Sequence[int], Sequence[int]]:
    """Return the topics of a Fetch with how many partitions each has; and of all these index, error code and offset."""
    counts = request.coordinator.metadata_cache.topic_metadata
    if request.version < TOPIC_IDS_FROM:
        key, unknown = "topic", UNKNOWN_TOPIC_OR_PARTITION
        wanted = [(each.topic, each) for each in request.message.topics]
    else:
        key, unknown = "topic_id", UNKNOWN_TOPIC_ID
        by_id = request.node.topic_ids.names(counts)
        wanted = [(by_id.get(each.topic_id), each) for each in request.message.topics]
    denied = request.denied_topics({name for name, _ in wanted if name is not None}, Operation.READ)

    def error_code(topic: str | None, asked: Any) -> int:  # noqa: ANN401  # a partition of kio's
        if topic in denied:  # The id, which the name gives, says no more than that of a topic that there is not.
            return TOPIC_AUTHORIZATION_FAILED if request.version < TOPIC_IDS_FROM else unknown
        known = None if topic is None else counts.get(topic)
        if known is None:
            return unknown
        if not 0 <= asked.partition < known.partitions:
            return UNKNOWN_TOPIC_OR_PARTITION
        return OFFSET_OUT_OF_RANGE if asked.fetch_offset < 0 else 0

    asked = [(name, one) for name, topic in wanted for one in topic.partitions]
    return (
        [(getattr(topic, key), len(topic.partitions)) for _, topic in wanted],
        array("i", [one.partition for _, one in asked]),
        array("h", [error_code(name, one) for name, one in asked]),
        array("q", [one.fetch_offset for _, one in asked]),
    )


async def produce(request: KafkaRequest) -> bytes | None:
    """Refuse records; a producer that waits for no response gets none."""
    message = request.message
    refusal = request.failed(TopicAuthorizationFailed("a node has no records"))
    if message.acks == NO_ACKS:
        return None
    responses = [
        {
            "name": each.name,
            "partition_responses": [
                {"index": one.index, "error_code": refusal, "base_offset": -1} for one in each.partition_data
            ],
        }
        for each in message.topic_data
    ]
    return await request.encode({"responses": responses})
