"""The format of the offset log: the commits of a batch as MessagePack, checked before they are stored.

A row of the log is stored before its commits are answered, and its commits reach the columns of `offsets` later. So
every value is checked here against the type and the constraints of its column.

A commit is encoded when it is decided, and kept as bytes until a checkpoint stores it (DECISIONS.md, 112): the objects
of its offsets are still in the processor's caches when they are made, read and freed.
"""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.retention import MINUTE_MS
from coordinator_core.state_store.column_types import INT4_MAX, InstantMs

_Int4 = Annotated[int, Meta(ge=-1, le=INT4_MAX)]
_Count4 = Annotated[int, Meta(ge=0, le=INT4_MAX)]
_Count8 = Annotated[int, Meta(ge=0, le=2**63 - 1)]


Place = tuple[int, tuple[str, ...], tuple[int, ...]]
"""The minute of a commit, and its topics and partitions side by side: what a later commit may replace as a whole."""


class LoggedCommits(Struct, frozen=True, array_like=True, gc=False):
    """The commits of one decision, as they are in the offset log."""

    shard_id: int
    group_id: str
    records: tuple[OffsetsCommitted, ...]

    @property
    def place(self) -> Place | None:
        """Return what the commits replace as a whole; None: they are several records, each with a time of its own."""
        if len(self.records) > 1:
            return None
        (record,) = self.records
        offsets = record.offsets
        return minute_ms(record.at_ms), tuple([one.topic for one in offsets]), tuple([one.partition for one in offsets])


class EncodedCommits(Struct, frozen=True, gc=False):
    """The commits of one decision as bytes, with what has to be known of them without decoding them."""

    group_id: str
    place: Place | None
    """As that of `LoggedCommits`."""
    offset_count: int
    metadata_chars: int
    """The length of the metadata of all offsets."""
    data: bytes
    """The element in the data of a row."""

    @property
    def commits(self) -> LoggedCommits:
        """Decode the commits."""
        return _ELEMENT_DECODER.decode(self.data)


class InvalidCommit(ValueError):
    """A commit has a value that no column of `offsets` can hold."""


class _CheckedOffset(Struct, array_like=True, gc=False):
    topic: str
    partition: _Count4
    offset: _Count8
    leader_epoch: _Int4
    metadata: str
    log_end_offset: _Count8 | None


class _CheckedRecord(Struct, array_like=True, gc=False):
    at_ms: InstantMs
    member_id: str
    expires_at_ms: InstantMs | None
    offsets: tuple[_CheckedOffset, ...]
    log_end_at_ms: InstantMs | None


class _CheckedCommits(Struct, array_like=True, gc=False):
    shard_id: _Count4
    group_id: str
    records: tuple[_CheckedRecord, ...]


_ENCODER: Final = msgspec.msgpack.Encoder()
_CHECKER: Final = msgspec.msgpack.Decoder(_CheckedCommits)
_ELEMENT_DECODER: Final = msgspec.msgpack.Decoder(LoggedCommits)
_DECODER: Final = msgspec.msgpack.Decoder(tuple[LoggedCommits, ...])


def minute_ms(instant_ms: int) -> int:
    """Return the start of the minute of a time."""
    return instant_ms - instant_ms % MINUTE_MS


def encode(logged: LoggedCommits) -> EncodedCommits:
    """Encode the commits of a decision.

    Raises:
        InvalidCommit: a value does not fit its column; the text says which.
    """
    group_id, records = logged.group_id, logged.records
    topics: list[str] = []
    partitions: list[int] = []
    texts = [group_id]
    metadata_chars = 0
    for record in records:
        texts.append(record.member_id)
        for one in record.offsets:
            topics.append(one.topic)
            partitions.append(one.partition)
            if one.metadata:
                texts.append(one.metadata)
                metadata_chars += len(one.metadata)
    if "\0" in "".join(texts + topics):
        raise InvalidCommit("a commit has a NUL character, which text cannot have")
    try:
        data = encode_unchecked(logged)
        _CHECKER.decode(data)
    except (msgspec.ValidationError, OverflowError, UnicodeEncodeError) as failure:
        raise InvalidCommit(f"a commit cannot be stored: {failure}") from failure
    place = (minute_ms(records[0].at_ms), tuple(topics), tuple(partitions)) if len(records) == 1 else None
    return EncodedCommits(group_id, place, len(topics), metadata_chars, data)


def encode_unchecked(logged: LoggedCommits) -> bytes:
    """Return the element of commits that the database has rejected, of which `encode` may reject some too."""
    return _ENCODER.encode(logged)


def join(elements: Iterable[bytes]) -> bytes:
    """Return the data of a row of the log, which has these elements."""
    return _ENCODER.encode([Raw(each) for each in elements])


def decode(data: bytes) -> tuple[LoggedCommits, ...]:
    """Return the commits of a row of the log.

    Raises:
        msgspec.DecodeError: the data is not what `join` returns.
    """
    return _DECODER.decode(data)
