"""The journal: the responses that agents got, one JSON line for each, written by many processes."""

from collections.abc import Iterator
from pathlib import Path

import msgspec


class PartitionsAssigned(msgspec.Struct, frozen=True, tag=True):
    """An agent was assigned these partitions in a generation."""

    at_s: float
    """On the machine's monotonic clock, which all of its processes share."""
    agent: str
    group_id: str
    generation: int
    member_id: str
    partitions: tuple[int, ...]


class CommitOffsetsResponse(msgspec.Struct, frozen=True, tag=True):
    """An agent received the response to a commit of these offsets, by partition."""

    at_s: float
    agent: str
    group_id: str
    offsets: dict[int, int]


class OffsetsFetched(msgspec.Struct, frozen=True, tag=True):
    """A node, any of them, answered a fetch of a group's offsets with these, by partition."""

    at_s: float
    began_s: float
    node: str
    group_id: str
    offsets: dict[int, int]


Event = PartitionsAssigned | CommitOffsetsResponse | OffsetsFetched

_reader: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class Journal:
    """One process's events; each is in the kernel when `write_event` returns, so a killed process loses none."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)

    def write_event(self, event: Event) -> None:
        """Append an event; from any thread, since a line is one write."""
        self._file.write(msgspec.json.encode(event) + b"\n")


def read_journals(directory: Path) -> list[Event]:
    """Return all events of all processes by time, without incomplete lines of killed processes."""
    events = [event for file in sorted(directory.glob("*.jsonl")) for event in _read(file)]
    return sorted(events, key=lambda event: event.at_s)


def _read(file: Path) -> Iterator[Event]:
    with file.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield _reader.decode(line)
