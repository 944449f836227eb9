"""A reset is put together from what is known of each partition, decided by the group, and stored with its change.

What is known: the catalogue (how many partitions, where their logs begin), what the group has committed now and had
committed then, and where logs end: the furthest end that a trusted reporter of any group or the group itself named.

Source: http-api.md "Resetting a group".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.log_ends import furthest
from coordinator_core.protocol.replies import Answer, OffsetsReset
from coordinator_core.protocol.requests import PartitionToReset, ResetOffsets, ResetTo, StoredOffset
from coordinator_core.runtime.act import Act, KeyTaken, Noting
from coordinator_core.runtime.desk import Desk
from coordinator_core.runtime.notes import reset_after, reset_before, reset_noted
from coordinator_core.runtime.shard import nothing_beside
from coordinator_core.store.actions import Action
from coordinator_core.store.history import Moment
from coordinator_core.store.interface import Store
from coordinator_core.store.rows import ChangeRow, Json, TopicRow

ASKED = "asked"

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Reset:
    """What an operator asks for."""

    to: ResetTo
    amount: int = 0
    """The offset to go to, or by how much to shift."""
    at_ms: int = 0
    """Wall time; what was committed then is to stand again."""
    topics: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    """Topics with partitions, or None for all that are committed or catalogued. No topic: all that are committed."""
    given: tuple[tuple[str, int, int], ...] = ()
    """With GIVEN, and instead of topics: topic, partition, offset; no partition twice."""
    max_partitions: int = 10_000
    """How many partitions it may come to."""

    def what(self) -> Json:
        """Return the part of it that a change keeps as it is."""
        return {"to": str(self.to), "amount": self.amount, "at_ms": self.at_ms}

    def asked(self) -> Json:
        """Return a digest of what is named: a change keeps it to know a repeat; where each went, it keeps anyway."""
        return {"sha256": sha256(json.dumps([self.topics, self.given]).encode()).hexdigest()}


async def try_reset(desk: Desk, group_id: str, reset: Reset) -> OffsetsReset:
    """Tell what a reset would do; nothing is stored."""
    async with desk.serving(group_id).holding(group_id) as ask:
        request = await desk.read(partial(_request, desk, group_id, reset, None))
        answer = await ask(request.token, request, nothing_beside)
    assert isinstance(answer, OffsetsReset)
    return answer


async def reset_offsets(desk: Desk, group_id: str, reset: Reset, act: Act) -> OffsetsReset:
    """Put an Empty group to other positions; the old ones go to the archive under the act's change."""
    async with desk.serving(group_id).holding(group_id) as ask:
        made = await desk.made(act, Action.RESET_OFFSETS, group_id, reset.what())
        if made is not None:
            _check_asked(made, reset)
            return reset_noted(made)
        request = await desk.read(partial(_request, desk, group_id, reset, act))
        noting = Noting(act, Action.RESET_OFFSETS, group_id, request.token, partial(_tell, reset))
        answer = await ask(request.token, request, noting.beside)
    assert isinstance(answer, OffsetsReset)
    return answer


def _check_asked(made: ChangeRow, reset: Reset) -> None:
    """Refuse a reset of anything else under the same id; changes of earlier versions do not say what was named."""
    asked = reset.asked()
    if made.after.get(ASKED, asked) != asked:
        raise KeyTaken


def _tell(reset: Reset, _before: Group, _after: Group, answer: Answer) -> tuple[Json, Json]:
    assert isinstance(answer, OffsetsReset)
    return reset_before(answer), {**reset.what(), ASKED: reset.asked(), **reset_after(answer)}


# -- what is known ----------------------------------------------------------------------------------------


def _request(desk: Desk, group_id: str, reset: Reset, act: Act | None) -> ResetOffsets:
    """Return the reset with what is known of its partitions; without an act it is a dry run."""
    stored = desk.store.stored_offsets(group_id, None)
    catalogue = {row.topic: row for row in desk.store.topics()}
    wanted = _wanted(reset, stored, catalogue)
    named = {topic for topic, _ in wanted}
    _check_count(len(wanted), reset)
    return ResetOffsets(
        token=desk.new_token(),
        to=reset.to,
        amount=reset.amount,
        partitions=_known(desk.store, group_id, reset, wanted, catalogue, stored),
        unknown_topics=tuple(topic for topic, partitions in reset.topics if partitions is None and topic not in named),
        stored=tuple(stored),
        change_id="" if act is None else act.change_id,
        is_dry_run=act is None,
        log_end_max_age_ms=desk.log_end_max_age_ms(),
    )


def _check_count(count: int, reset: Reset) -> None:
    if count > reset.max_partitions:
        raise InvalidRequest(f"the reset comes to {count} partitions, and may come to {reset.max_partitions}")


def _wanted(reset: Reset, stored: Sequence[StoredOffset], catalogue: Mapping[str, TopicRow]) -> list[Partition]:
    """Return the partitions in the order asked, each once."""
    if reset.to is ResetTo.GIVEN:
        return [(topic, partition) for topic, partition, _ in reset.given]
    topics = reset.topics or tuple((topic, None) for topic in dict.fromkeys(one.topic for one in stored))
    wanted: dict[Partition, None] = {}
    for topic, partitions in topics:
        numbers = partitions if partitions is not None else _all_of(topic, stored, catalogue, reset)
        wanted |= dict.fromkeys((topic, number) for number in numbers)
    return list(wanted)


def _all_of(
    topic: str, stored: Sequence[StoredOffset], catalogue: Mapping[str, TopicRow], reset: Reset
) -> Iterable[int]:
    """Return every partition that is catalogued; of an uncatalogued topic, every one that is committed."""
    if topic not in catalogue:
        return [one.partition for one in stored if one.topic == topic]
    _check_count(catalogue[topic].partitions, reset)
    return range(catalogue[topic].partitions)


def _known(
    store: Store,
    group_id: str,
    reset: Reset,
    wanted: list[Partition],
    catalogue: Mapping[str, TopicRow],
    stored: Sequence[StoredOffset],
) -> tuple[PartitionToReset, ...]:
    topics = sorted({topic for topic, _ in wanted})
    ends = store.log_ends(topics) if topics else {}
    own_ends = {(one.topic, one.partition): one.log_end for one in stored}
    given = {(topic, partition): offset for topic, partition, offset in reset.given}
    then = {}
    if reset.to is ResetTo.DATETIME:
        then = {(one.topic, one.partition): one.offset for one in store.positions(Moment(group_id, reset.at_ms))}
    return tuple(
        PartitionToReset(
            topic,
            partition,
            catalogue[topic].log_start_offset if topic in catalogue else 0,
            furthest(ends.get((topic, partition)), own_ends.get((topic, partition))),
            then.get((topic, partition)),
            given.get((topic, partition)),
        )
        for topic, partition in wanted
    )
