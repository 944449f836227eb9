"""Reset committed offsets of a group: collect the facts about each partition, decide, and store with the change.

The facts are the topic metadata (partition count, log start offsets), the group's committed offsets now and at the
given time, and log end offsets: the greatest that a trusted reporter of any group, or the group itself, has reported.

Source: http-api.md "Resetting offsets".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from coordinator_core.admin.change_payloads import recorded_reset, reset_after, reset_before
from coordinator_core.admin.changes import Change, ChangeRecorder, IdempotencyKeyConflict, recorded_change
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.log_ends import latest_log_end
from coordinator_core.protocol.requests import PartitionToReset, ResetOffsets, ResetTo, StoredOffset
from coordinator_core.protocol.responses import Answer, ResetOffsetsResponse
from coordinator_core.queries.ownership import Moment, read_offsets_at
from coordinator_core.queries.runner import QueryRunner
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.interface import RuntimeStore
from coordinator_core.state_store.rows import ChangeRow, Json, TopicRow

REQUEST_DIGEST = "request_digest"
"""The key of the digest in the change's `after`."""

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Reset:
    """The reset that an operator requests."""

    to: ResetTo
    amount: int = 0
    """The target offset, or the number of records to shift by."""
    at_ms: int = 0
    """Wall time whose committed offsets are restored."""
    topics: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    """Topics with partitions, or None for all in the topic metadata or committed. No topic: all committed."""
    given: tuple[tuple[str, int, int], ...] = ()
    """With GIVEN, and instead of topics: topic, partition, offset; no partition twice."""
    max_partitions: int = 10_000
    """The limit of partitions."""

    def arguments(self) -> Json:
        """Return the arguments that the change records unchanged."""
        return {"to": str(self.to), "amount": self.amount, "at_ms": self.at_ms}

    def digest(self) -> Json:
        """Return a digest of the named topics and offsets, by which a repeated request is recognized."""
        return {"sha256": sha256(json.dumps([self.topics, self.given]).encode()).hexdigest()}


async def dry_run_reset_offsets(
    coordinator: Coordinator, queries: QueryRunner, group_id: str, reset: Reset
) -> ResetOffsetsResponse:
    """Return what a reset would do; nothing is stored.

    Raises:
        NonEmptyGroup: the group has members; stop them first.
        GroupIdNotFound: there is no such group, and no topic is named.
        UnknownTopicOrPartition: no partition of a named topic is known.
        InvalidRequest: a target offset is not known, or there are too many partitions.
    """
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        past = await _past(queries, group_id, reset)
        request = await coordinator.read(partial(_request, coordinator, group_id, reset, past, None))
        answer = await submit(request.token, request, None)
    assert isinstance(answer, ResetOffsetsResponse)
    return answer


async def reset_offsets(
    coordinator: Coordinator, queries: QueryRunner, group_id: str, reset: Reset, change: Change
) -> ResetOffsetsResponse:
    """Commit other offsets for an Empty group; the old ones go to the archive under the change.

    Raises as `dry_run_reset_offsets` does.
    """
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        earlier = await recorded_change(coordinator, change, ChangeAction.RESET_OFFSETS, group_id, reset.arguments())
        if earlier is not None:
            _check_same_request(earlier, reset)
            return recorded_reset(earlier)
        past = await _past(queries, group_id, reset)
        request = await coordinator.read(partial(_request, coordinator, group_id, reset, past, change))
        recorder = ChangeRecorder(
            change, ChangeAction.RESET_OFFSETS, group_id, request.token, partial(_describe, reset)
        )
        answer = await submit(request.token, request, recorder.extra_rows)
    assert isinstance(answer, ResetOffsetsResponse)
    return answer


def _check_same_request(earlier: ChangeRow, reset: Reset) -> None:
    """Refuse a reset of other topics or offsets under the same id."""
    if earlier.after[REQUEST_DIGEST] != reset.digest():
        raise IdempotencyKeyConflict


def _describe(reset: Reset, _before: Group, _after: Group, answer: Answer) -> tuple[Json, Json]:
    assert isinstance(answer, ResetOffsetsResponse)
    return reset_before(answer), {**reset.arguments(), REQUEST_DIGEST: reset.digest(), **reset_after(answer)}


# -- the facts -------------------------------------------------------------------------------------------


async def _past(queries: QueryRunner, group_id: str, reset: Reset) -> Mapping[Partition, int]:
    """Return the committed offsets as of the time that the reset names; empty if it names none."""
    if reset.to is not ResetTo.DATETIME:
        return {}
    found = await queries.run(read_offsets_at, Moment(group_id, reset.at_ms))
    return {(one.topic, one.partition): one.offset for one in found}


def _request(
    coordinator: Coordinator, group_id: str, reset: Reset, past: Mapping[Partition, int], change: Change | None
) -> ResetOffsets:
    """Return the reset with the facts about its partitions; without a change it is a dry run."""
    stored = _stored(coordinator.store, group_id, reset)
    topic_metadata = {row.topic: row for row in coordinator.store.topics()}
    wanted = _wanted(reset, stored, topic_metadata)
    named = {topic for topic, _ in wanted}
    _check_count(len(wanted), reset)
    return ResetOffsets(
        token=coordinator.new_token(),
        to=reset.to,
        amount=reset.amount,
        partitions=_known(coordinator.store, reset, wanted, past, topic_metadata, stored),
        unknown_topics=tuple(topic for topic, partitions in reset.topics if partitions is None and topic not in named),
        stored=tuple(stored),
        change_id="" if change is None else change.change_id,
        is_dry_run=change is None,
        log_end_max_age_ms=coordinator.metadata_cache.log_end_max_age_ms(),
    )


def _stored(store: RuntimeStore, group_id: str, reset: Reset) -> Sequence[StoredOffset]:
    """Return the committed offsets that the reset may concern; of a large group that is a small part."""
    partitions = [(topic, partition) for topic, partition, _ in reset.given]
    partitions += [(topic, partition) for topic, numbers in reset.topics for partition in numbers or ()]
    whole = [topic for topic, numbers in reset.topics if numbers is None]
    if whole or not partitions:
        found = store.fetch_offsets(group_id, whole or None, limit=reset.max_partitions + 1)
        if len(found) > reset.max_partitions:
            raise InvalidRequest(
                f"the reset has more than {reset.max_partitions} partitions: name topics or partitions"
            )
        partitions += [(one.topic, one.partition) for one in found]
    return store.stored_offsets(group_id, partitions)


def _check_count(count: int, reset: Reset) -> None:
    if count > reset.max_partitions:
        raise InvalidRequest(f"the reset has {count} partitions, and may have {reset.max_partitions}")


def _wanted(reset: Reset, stored: Sequence[StoredOffset], topic_metadata: Mapping[str, TopicRow]) -> list[Partition]:
    """Return the requested partitions in their order, each once."""
    if reset.to is ResetTo.GIVEN:
        return [(topic, partition) for topic, partition, _ in reset.given]
    if not reset.topics:  # As Kafka's --all-topics.
        counts = {topic: row.partitions for topic, row in topic_metadata.items()}
        places = ((one.topic, one.partition) for one in stored)
        return [(topic, number) for topic, number in places if number < counts.get(topic, number + 1)]
    committed: dict[str, list[int]] = {}
    for one in stored:
        committed.setdefault(one.topic, []).append(one.partition)
    wanted: dict[Partition, None] = {}
    for topic, partitions in reset.topics:
        numbers = partitions if partitions is not None else _all_of(topic, committed, topic_metadata, reset)
        wanted |= dict.fromkeys((topic, number) for number in numbers)
    return list(wanted)


def _all_of(
    topic: str, committed: Mapping[str, Sequence[int]], topic_metadata: Mapping[str, TopicRow], reset: Reset
) -> Iterable[int]:
    """Return every partition of the topic metadata; of an unknown topic, every one that is committed."""
    if topic not in topic_metadata:
        return committed.get(topic, ())
    _check_count(topic_metadata[topic].partitions, reset)
    return range(topic_metadata[topic].partitions)


def _known(
    store: RuntimeStore,
    reset: Reset,
    wanted: list[Partition],
    past: Mapping[Partition, int],
    topic_metadata: Mapping[str, TopicRow],
    stored: Sequence[StoredOffset],
) -> tuple[PartitionToReset, ...]:
    topics = sorted({topic for topic, _ in wanted})
    ends = store.log_ends(topics) if topics else {}
    own_ends = {(one.topic, one.partition): one.log_end for one in stored}
    given = {(topic, partition): offset for topic, partition, offset in reset.given}
    return tuple(
        PartitionToReset(
            topic,
            partition,
            topic_metadata[topic].log_start_offset if topic in topic_metadata else 0,
            latest_log_end(ends.get((topic, partition)), own_ends.get((topic, partition))),
            past.get((topic, partition)),
            given.get((topic, partition)),
        )
        for topic, partition in wanted
    )
