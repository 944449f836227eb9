"""The offsets of a commit: decoded, or read from where the last commit of the connection had them.

A consumer's next commit nearly always differs from the last one in its offsets alone. Such a commit is read with one
call of `struct`. A frame of the same size whose other bytes are the same has the same topics and partitions, so nothing
but the offsets has to be checked again.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

from api.kafka.apis import APIS, ApiKey
from api.kafka.hot_responses import StoredTopic
from api.kafka.list_lengths import MalformedFrame, read_varint, skip_tagged_fields
from api.kafka.messages import NUL
from api.shared.limits import TOPIC_MAX_CHARS
from coordinator_core.protocol.requests import OffsetToCommit

LEADER_EPOCH_FROM: Final = 6
"""The first version of OffsetCommit with leader epochs."""
INSTANCE_ID_FROM: Final = 7
"""The first version of OffsetCommit with the instance ids of static members."""
RETENTION_UNTIL: Final = 4
"""The last version of OffsetCommit with a retention of its own."""
NO_EPOCH: Final = -1
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64_BYTES: Final = 8


def read_offsets(message: Any, version: int) -> tuple[list[StoredTopic], list[OffsetToCommit], bool]:  # noqa: ANN401  # a class for each version
    """Return the topics and the offsets of a decoded commit, and whether all of them can be stored."""
    has_epoch, is_usual = version >= LEADER_EPOCH_FROM, True
    topics: list[StoredTopic] = []
    offsets: list[OffsetToCommit] = []
    for topic in message.topics:  # One loop for all: a call for each topic takes longer than what it does.
        name, numbers = topic.name, []
        is_usual &= 0 < len(name) <= TOPIC_MAX_CHARS and NUL not in name
        for it in topic.partitions:
            number, offset, metadata = it.partition_index, it.committed_offset, it.committed_metadata or ""
            epoch = it.committed_leader_epoch if has_epoch else NO_EPOCH
            if number < 0 or offset < 0 or epoch < NO_EPOCH or NUL in metadata:
                is_usual = False
            offsets.append(OffsetToCommit(name, number, offset, epoch, metadata))
            numbers.append(number)
        topics.append((name, tuple(numbers)))
    return topics, offsets, is_usual


class CommitLayout:
    """What a commit has beside its offsets, in bytes and decoded, and where the offsets are."""

    __slots__ = ("_begin", "_epochs", "_metadata", "_others", "_partitions", "_read", "_topics")

    def __init__(self, frame: bytes, begin: int, places: Sequence[int], offsets: Sequence[OffsetToCommit]) -> None:
        """Take a commit as the model.

        Args:
            frame: the commit.
            begin: where its body begins.
            places: where its offsets are, at least one.
            offsets: what it commits.
        """
        self._begin = begin
        ends = [begin, *[place + _INT64_BYTES for place in places]]
        others = [f"{place - end}s" for end, place in zip(ends, places, strict=False)]
        self._read = struct.Struct(f">{'q'.join(others)}q{len(frame) - ends[-1]}s").unpack_from
        self._others = b"".join(self._read(frame, begin)[::2])
        self._topics = [one.topic for one in offsets]
        self._partitions = [one.partition for one in offsets]
        self._epochs = [one.leader_epoch for one in offsets]
        self._metadata = [one.metadata for one in offsets]

    def offsets(self, frame: bytes) -> tuple[OffsetToCommit, ...] | None:
        """Return what a frame of the same size commits; None: it differs in more, or an offset is negative."""
        values = self._read(frame, self._begin)
        offsets = values[1::2]
        if b"".join(values[::2]) != self._others or min(offsets) < 0:
            return None
        return tuple(map(OffsetToCommit, self._topics, self._partitions, offsets, self._epochs, self._metadata))


def layout_of(message: Any, version: int, frame: bytes, begin: int) -> CommitLayout | None:  # noqa: ANN401  # as above
    """Return the layout of a commit.

    Args:
        message: the decoded commit.
        version: of the request.
        frame: the request.
        begin: where its body begins.

    Returns:
        The layout; None: not all of its offsets can be stored, it has none, or the frame has other ones than kio has
        decoded.
    """
    _, offsets, is_usual = read_offsets(message, version)
    if not offsets or not is_usual:
        return None
    try:
        layout = CommitLayout(frame, begin, _places(version, frame, begin), offsets)
    except (struct.error, IndexError, MalformedFrame):
        return None
    return layout if layout.offsets(frame) == tuple(offsets) else None


def _places(version: int, frame: bytes, offset: int) -> list[int]:
    """Return where the offsets of a commit are."""
    is_flexible = version >= APIS[ApiKey.OFFSET_COMMIT].flexible_from
    after_offset = _INT64_BYTES + (_INT32.size if version >= LEADER_EPOCH_FROM else 0)

    def length(number: struct.Struct, at: int) -> tuple[int, int]:
        if is_flexible:
            size, at = read_varint(frame, at)
            return size - 1, at
        return number.unpack_from(frame, at)[0], at + number.size

    def after_text(at: int) -> int:
        size, at = length(_INT16, at)
        return at + max(size, 0)

    def after_tags(at: int) -> int:
        return skip_tagged_fields(frame, at) if is_flexible else at

    at = after_text(offset)  # the group
    at = after_text(at + _INT32.size)  # the generation and the member
    if version >= INSTANCE_ID_FROM:
        at = after_text(at)
    if version <= RETENTION_UNTIL:
        at += _INT64_BYTES
    places = []
    topics, at = length(_INT32, at)
    for _ in range(topics):
        partitions, at = length(_INT32, after_text(at))
        for _ in range(partitions):
            at += _INT32.size  # the partition
            places.append(at)
            at = after_tags(after_text(at + after_offset))
        at = after_tags(at)
    return places
