"""The journal: the responses that agents got, one JSON line for each, written by many processes."""

from collections.abc import Iterator
from pathlib import Path

import msgspec


class Held(msgspec.Struct, frozen=True, tag=True):
    """An agent heard that it holds these partitions in a generation."""

    at_s: float
    """On the machine's monotonic clock, which all of its processes share."""
    agent: str
    group_id: str
    generation: int
    member_id: str
    partitions: tuple[int, ...]


class CommitOffsetsResponse(msgspec.Struct, frozen=True, tag=True):
    """An agent heard that these offsets, by partition, are stored."""

    at_s: float
    agent: str
    group_id: str
    offsets: dict[int, int]


Event = Held | CommitOffsetsResponse

_reader: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class Journal:
    """One process's events, each handed to the system when `note` returns, so that a killed process loses none."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)

    def note(self, event: Event) -> None:
        """Write an event down; from any thread, since a line is one write."""
        self._file.write(msgspec.json.encode(event) + b"\n")


def read_journals(directory: Path) -> list[Event]:
    """Return all events of all processes by time; the line that a killed process did not finish is none."""
    events = [event for file in sorted(directory.glob("*.jsonl")) for event in _read(file)]
    return sorted(events, key=lambda event: event.at_s)


def _read(file: Path) -> Iterator[Event]:
    with file.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield _reader.decode(line)
