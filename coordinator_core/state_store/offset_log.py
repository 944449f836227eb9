"""The format of the offset log: the commits of a batch as MessagePack, checked before they are stored.

A row of the log is stored before its commits are answered, and its commits reach the columns of `offsets` later. So
every value is checked here against the type and the constraints of its column.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from coordinator_core.state_store.dirty_offsets import LoggedCommits
from coordinator_core.state_store.row_checks import INT4_MAX, InstantMs

_Int4 = Annotated[int, Meta(ge=-1, le=INT4_MAX)]
_Count4 = Annotated[int, Meta(ge=0, le=INT4_MAX)]
_Count8 = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class InvalidCommit(ValueError):
    """A commit has a value that no column of `offsets` can hold."""


class _CheckedOffset(NamedTuple):
    topic: str
    partition: _Count4
    offset: _Count8
    leader_epoch: _Int4
    metadata: str
    log_end_offset: _Count8 | None


class _CheckedRecord(NamedTuple):
    at_ms: InstantMs
    member_id: str
    expires_at_ms: InstantMs | None
    offsets: tuple[_CheckedOffset, ...]
    log_end_at_ms: InstantMs | None


class _CheckedCommits(NamedTuple):
    shard_id: _Count4
    group_id: str
    records: tuple[_CheckedRecord, ...]


_TOPIC: Final = attrgetter("topic")
_METADATA: Final = attrgetter("metadata")
_ENCODER: Final = msgspec.msgpack.Encoder()
_CHECKER: Final = msgspec.msgpack.Decoder(tuple[_CheckedCommits, ...])
_DECODER: Final = msgspec.msgpack.Decoder(tuple[LoggedCommits, ...])


def encode(logged: Iterable[LoggedCommits]) -> bytes:
    """Return the data of a row of the log.

    Raises:
        InvalidCommit: a value does not fit its column; the text says which.
    """
    commits = tuple(logged)
    for each in commits:
        _check_texts(each)
    try:
        data = _ENCODER.encode(commits)
        _CHECKER.decode(data)
    except (msgspec.ValidationError, OverflowError, UnicodeEncodeError) as failure:
        raise InvalidCommit(f"a commit cannot be stored: {failure}") from failure
    return data


def encode_unchecked(logged: LoggedCommits) -> bytes:
    """Return the data of commits that the database has rejected, of which `encode` may reject some too."""
    return _ENCODER.encode((logged,))


def decode(data: bytes) -> tuple[LoggedCommits, ...]:
    """Return the commits of a row of the log.

    Raises:
        msgspec.DecodeError: the data is not what `encode` or `encode_unchecked` returns.
    """
    return _DECODER.decode(data)


def _check_texts(commits: LoggedCommits) -> None:
    for record in commits.records:
        texts = {commits.group_id, record.member_id, *map(_TOPIC, record.offsets), *map(_METADATA, record.offsets)}
        if "\0" in "".join(texts):
            raise InvalidCommit("a commit has a NUL character, which text cannot have")
