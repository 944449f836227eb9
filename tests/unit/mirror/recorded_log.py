"""The recorded log of `tests/data/offsets_topic`, and what its clients reported (`scripts/record_offsets_topic.py`)."""

import base64
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from coordinator_core.protocol.consumer_protocol import partitions_of
from mirror.consumer_groups import ConsumerGroups, Result
from mirror.group_records import GroupRecord
from mirror.observed import ObservedGroup, ObservedMember
from mirror.offsets_topic import Decoded, decode

DATA: Final = Path(__file__).resolve().parents[2] / "data" / "offsets_topic"
Event = dict[str, Any]
Partitions = frozenset[tuple[str, int]]


class Entry(NamedTuple):
    """One record of the log."""

    partition: int
    appended_ms: int
    key: bytes
    value: bytes | None


@cache
def entries() -> tuple[Entry, ...]:
    """Return the records, partition after partition."""
    return tuple(entry for file in sorted(DATA.glob("partition-*.jsonl")) for entry in _of_file(file))


@cache
def events() -> tuple[Event, ...]:
    """Return what clients and operator did, in order of time."""
    return tuple(json.loads(line) for line in (DATA / "clients.jsonl").read_text().splitlines())


@cache
def decoded() -> tuple[Decoded | None, ...]:
    """Return what each record says alone."""
    return tuple(decode(entry.key, entry.value) for entry in entries())


@cache
def observed() -> tuple[Decoded | Result, ...]:
    """Return what the log says, with records of consumer and share groups put together."""
    by_partition: dict[int, ConsumerGroups] = {}
    seen: list[Decoded | Result] = []
    for entry, record in zip(entries(), decoded(), strict=True):
        groups = by_partition.setdefault(entry.partition, ConsumerGroups(topic_names().get))
        if isinstance(record, GroupRecord):
            seen += groups.apply(record, entry.appended_ms)
        elif record is not None:
            seen.append(record)
    return tuple(seen)


def topic_names() -> dict[UUID, str]:
    """Return the names of the topics by id."""
    return {UUID(topic_id): name for name, topic_id in json.loads((DATA / "topics.json").read_text()).items()}


def generations(group_id: str) -> list[ObservedGroup]:
    """Return what the log says of a group with generations, in order."""
    return [each for each in observed() if isinstance(each, ObservedGroup) and each.group_id == group_id]


def events_of(name: str, group_id: str | None = None) -> list[Event]:
    """Return the events of a name, of all groups or of one."""
    return [event for event in events() if event["event"] == name and group_id in {None, event["group_id"]}]


def partitions_in(event: Event) -> Partitions:
    """Return the partitions of an event."""
    return frozenset((topic, partition) for topic, partition in event["partitions"])


def assigned_to(member: ObservedMember) -> Partitions:
    """Return the partitions that the log assigns to a member."""
    topics = partitions_of(member.assignment)
    assert topics is not None, "the assignment is readable"
    return frozenset((topic, partition) for topic, partitions in topics for partition in partitions)


def _of_file(file: Path) -> Iterator[Entry]:
    partition = int(file.stem.removeprefix("partition-"))
    for line in file.read_text().splitlines():
        record = json.loads(line)
        value = None if record["value"] is None else base64.b64decode(record["value"])
        yield Entry(partition, record["at_ms"], base64.b64decode(record["key"]), value)
